// How a session reads to people: turns, calls of the model and of tools, questions to a person, as rows of a journal.

import type { Entry } from '../../engine/entry.ts'
import { type StatusLine, type Told, told } from '../../engine/told.ts'
import type { Entries, SessionState } from './state.ts'

const inputShown = 80

export function tells({ type, data, seq }: Entry): Told | null {
  const fields = data as Entries['retry'] & Entries['decided'] & Entries['turn.ended'] & { readonly tool?: string }
  const call = (phase: Told['phase'], more: Partial<Told> = {}) =>
    told(`call:${fields.id}`, 'step', phase, { title: '', ...more })
  const note = (title: string, more: Partial<Told> = {}) => told(`~${seq}`, 'note', 'is', { title, ...more })
  switch (type as keyof Entries) {
    case 'turn.started': {
      const { turn, input } = data as Entries['turn.started']
      return told(`turn:${turn}`, 'start', 'is', { title: `turn ${turn}`, note: short(input) })
    }
    case 'called': {
      const { tool, kind, state } = data as Entries['called']
      const title = kind === 'model' ? 'model' : tool
      return call(state === 'waiting' ? 'waits' : 'begins', { title })
    }
    case 'chunk':
      return call('beats')
    case 'answered':
      return call('ends', usageOf(data as Entries['answered']))
    case 'returned':
      return call('ends')
    case 'failed':
      return call('fails', { error: (data as Entries['failed']).error })
    case 'retry':
      return call('retries', { error: fields.error, attempt: fields.n, at: fields.at })
    case 'turn.ended':
      return told(`~${seq}`, 'end', 'ends', { title: `turn ${fields.turn} ended`, note: fields.outcome })
    case 'interrupted':
      return note('waits for a person', { sort: 'wait', phase: 'is', note: (data as Entries['interrupted']).reason })
    case 'decided':
      return note(`${fields.verdict} by ${fields.by}`, { sort: 'message', note: fields.reason ?? '' })
    case 'rolled-back':
      return note('rolled back', { note: `archived as ${(data as Entries['rolled-back']).archive}` })
    case 'sent':
      return note('message sent', { sort: 'message', note: `to ${(data as Entries['sent']).to}` })
    case 'received':
      return note('message received', { sort: 'message', note: `from ${(data as Entries['received']).from}` })
    case 'noted':
      return note('note', { note: (data as Entries['noted']).note })
    default:
      return null
  }
}

function usageOf({ answer }: Entries['answered']): Partial<Told> {
  const { usage } = answer
  if (!usage) return {}
  const figures = Object.entries(usage).filter(([, value]) => typeof value === 'number' && value > 0)
  return { note: figures.map(([name, value]) => `${name} ${value}`).join(', ') }
}

function short(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return text.length > inputShown ? `${text.slice(0, inputShown)}…` : text
}

export function stands(state: unknown): StatusLine {
  const { turn, status, waiting } = state as SessionState<unknown>
  if (waiting) return { text: `turn ${turn} waits: ${waiting.reason ?? waiting.kind}`, needsPerson: true }
  return { text: status === 'running' ? `turn ${turn} is under way` : `${turn} ${turn === 1 ? 'turn' : 'turns'}` }
}
