// A session's history for people: turns, calls of the model and of tools, and questions to a person, as rows of the
// journal.

import type { EffectIntended, EffectSettled } from '../../core/history/effects.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { although, brief, type JournalRow, journalRow, type StatusLine } from '../../engine/model/journal-row.ts'
import type { Refusals } from '../../engine/model/model.ts'
import { decisionKind } from './decision.ts'
import type { Entries, SessionState } from './state.ts'

export function entryRow(entry: Entry): JournalRow | null {
  return callRow(entry) ?? sessionRow(entry)
}

/** A call of the model or of a tool: several entries make one row. */
function callRow({ type, data }: Entry): JournalRow | null {
  const fields = data as Entries['retry']
  const call = (phase: JournalRow['phase'], more: Partial<JournalRow> = {}) =>
    journalRow(`call:${fields.id}`, 'step', phase, { title: '', ...more })
  // The kernel's effect markers are part of the call's row; the call's own entries add the rest.
  if (type === '$effect.intended') return call('begins', { title: (data as EffectIntended).name })
  if (type === '$effect.settled') return call('beats', { note: settled(data as EffectSettled) })
  if (type === '$effect.done' || type === '$effect.failed') return call('beats')
  switch (type as keyof Entries) {
    case 'called': {
      const { tool, kind, state, args } = data as Entries['called']
      const title = kind === 'model' ? tool : `${tool}(${args === undefined ? '' : brief(args)})`
      if (state === 'refused') return call('fails', { title, note: 'refused' })
      return call(state === 'waiting' ? 'waits' : 'begins', { title })
    }
    case 'chunk':
      return call('beats')
    case 'stream.restarted':
      return call('beats', {
        note: `the answer starts again, attempt ${(data as Entries['stream.restarted']).attempt}`,
      })
    case 'answered':
      return call('ends', { note: answerWords(data as Entries['answered']) })
    case 'summarized': {
      const { through, content } = data as Entries['summarized']
      return call('ends', { note: `turns through ${through}: ${brief(content)}` })
    }
    case 'returned': {
      const { result, by } = data as Entries['returned']
      return call('ends', { note: `${by === undefined ? '' : 'recorded before: '}${brief(result ?? null)}` })
    }
    case 'failed':
      return call('fails', { error: (data as Entries['failed']).error })
    case 'retry':
      return call('retries', { error: fields.error, attempt: fields.n, at: fields.at })
    default:
      return null
  }
}

/** An entry of the session itself: turns, messages, settings, and decisions of a person. */
function sessionRow({ type, data, seq }: Entry): JournalRow | null {
  const fields = data as Entries['decided'] & Entries['turn.ended']
  const note = (title: string, more: Partial<JournalRow> = {}) =>
    journalRow(`~${seq}`, 'note', 'is', { title, ...more })
  switch (type as keyof Entries) {
    case 'turn.started': {
      const { turn, input } = data as Entries['turn.started']
      return journalRow(`turn:${turn}`, 'start', 'is', { title: `turn ${turn}`, note: brief(input) })
    }
    case 'turn.ended':
      return journalRow(`~${seq}`, 'end', 'ends', { title: `turn ${fields.turn} ended`, note: fields.outcome })
    case 'interrupted':
      return note('waits for a person', { sort: 'wait', phase: 'is', note: (data as Entries['interrupted']).reason })
    case 'decided':
      return note(`${fields.verdict} by ${fields.by}`, { sort: 'message', note: fields.reason ?? '' })
    case 'rollback.asked': {
      const { toTurn, because, consumed } = data as Entries['rollback.asked']
      return note(`goes back to turn ${toTurn}`, {
        note: consumed?.length ? `${because}, ${although(consumed)}` : because,
      })
    }
    case 'rolled-back':
      return note('rolled back', { note: `archived as ${(data as Entries['rolled-back']).archive}`, cuts: true })
    case 'sent': {
      const { to, content } = data as Entries['sent']
      return note(`message to ${to}`, { sort: 'message', note: brief(content) })
    }
    case 'received': {
      const { from, content } = data as Entries['received']
      return note(`message from ${from}`, { sort: 'message', note: brief(content) })
    }
    case 'noted':
      return note('note', { note: (data as Entries['noted']).note })
    case 'edited':
      return note(`its data was edited${byWords(fields.by)}`, { note: brief((data as Entries['edited']).data) })
    case 'planned':
      return note(`plan${byWords(fields.by)}`, { note: brief((data as Entries['planned']).plan) })
    case 'configured':
      return note('other settings', { note: brief((data as Entries['configured']).settings) })
    case 'files': {
      const { set, gone } = data as Entries['files']
      return note('files', { note: `${set.length} written, ${gone.length} deleted` })
    }
    case 'cut.recorded':
    case 'cut.closed':
      return note('saved together with its group', { note: (data as Entries['cut.closed']).cut })
    default:
      return null
  }
}

function byWords(by: string | undefined): string {
  return by === undefined ? '' : ` by ${by}`
}

function settled({ outcome, by }: EffectSettled): string {
  return `${outcome}, according to ${by}`
}

const usageWords: Readonly<Record<string, string>> = {
  inputTokens: 'tokens in',
  outputTokens: 'tokens out',
  cacheReadTokens: 'tokens from the prompt cache',
  cacheWriteTokens: 'tokens to the prompt cache',
}

/** The cost, then the content. */
function answerWords({ answer }: Entries['answered']): string {
  const { usage, content, requests = [] } = answer
  const figures = Object.entries(usage ?? {}).filter(([, value]) => typeof value === 'number' && value > 0)
  const cost = figures.map(([name, value]) => (usageWords[name] ? `${value} ${usageWords[name]}` : `${name} ${value}`))
  const summary = requests.length > 0 ? `asks for ${requests.map(({ tool }) => tool).join(', ')}` : brief(content ?? '')
  return [cost.join(', '), summary].filter(Boolean).join(' · ')
}

/** A decision that was sent and not read yet no longer needs a person: a process must run the session. */
export function statusLine(state: unknown, head: Head, unread: readonly string[]): StatusLine {
  const { turn, status, waiting } = state as SessionState<unknown>
  if (!waiting) {
    return { text: status === 'running' ? `turn ${turn} is in progress` : `${turn} ${turn === 1 ? 'turn' : 'turns'}` }
  }
  const text = `turn ${turn} waits: ${waiting.reason ?? waiting.kind}`
  if (!unread.includes(decisionKind)) return { text, needsPerson: true }
  const isRun = head.owner !== null && head.isOwnerAlive
  const reader = isRun ? 'its worker reads it next' : 'no process runs it: resume the session'
  return { text: `turn ${turn} was decided; ${reader}`, needsPerson: false }
}

export function refuses(state: unknown): Refusals {
  const { waiting } = state as SessionState<unknown>
  return waiting ? {} : { decide: 'it is not waiting for a decision' }
}
