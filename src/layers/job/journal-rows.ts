// A job's history for people: each entry as a row of the journal, and the job's status as one line.

import type { Head } from '../../core/store/ports.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow, type StatusLine } from '../../engine/model/journal-row.ts'
import type { DeadData, DoneData, EntryData, FailedData } from './entries.ts'
import type { JobState } from './state.ts'

const keysShown = 3

export function entryRow({ type, data, seq }: Entry): JournalRow | null {
  const row = (title: string, more: Partial<JournalRow> = {}) => journalRow(`~${seq}`, 'note', 'is', { title, ...more })
  switch (type as keyof EntryData) {
    case 'started':
      return journalRow(`~${seq}`, 'start', 'is', { title: `round ${(data as EntryData['started']).round} started` })
    case 'done': {
      const { keys } = data as DoneData
      return row(`${counted(keys.length, 'item')} done`, { sort: 'step', phase: 'ends', note: some(keys) })
    }
    case 'failed': {
      const { key, attempts, error, retryAt } = data as FailedData
      return item(key, 'retries', { attempt: attempts, error: error.message, at: retryAt })
    }
    case 'dead': {
      const { key, error } = data as DeadData
      return item(key, 'fails', { error: error.message, note: 'dead letter' })
    }
    case 'redriven':
      return row('sent back for another attempt', { sort: 'message', note: some((data as EntryData['redriven']).keys) })
    case 'discarded':
      return row('counted as finished', { sort: 'message', note: some((data as EntryData['discarded']).keys) })
    case 'paused': {
      const { because, until } = data as EntryData['paused']
      return row('paused', { sort: 'wait', note: because, at: until })
    }
    case 'stopped':
      return row('stopped', { note: (data as EntryData['stopped']).because, letsGo: true })
    case 'finished': {
      const { round, done, failed } = data as EntryData['finished']
      const note = `${done} done, ${failed} failed`
      return row(`round ${round} finished`, { sort: 'end', phase: 'ends', note, letsGo: true })
    }
    default:
      return null
  }
}

function item(key: string, phase: JournalRow['phase'], more: Partial<JournalRow>): JournalRow {
  return journalRow(`item:${key}`, 'step', phase, { title: key, ...more })
}

function some(keys: readonly string[]): string {
  const shown = keys.slice(0, keysShown).join(', ')
  return keys.length > keysShown ? `${shown}, …` : shown
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}

export function statusLine(state: unknown, head: Head): StatusLine {
  const { done, roundDone, startedAt, endedAt, dead, waiting, redrive, status, pausedBecause } = state as JobState
  const again = waiting.size + redrive.size
  const parts = [`${done.toLocaleString('en')} done`]
  const spentMs = (status === 'completed' ? endedAt : head.updatedAt) - startedAt
  if (status === 'running' && roundDone > 0 && spentMs > 1000) parts.push(`${rate((roundDone / spentMs) * 1000)}/s`)
  if (dead.size > 0) parts.push(counted(dead.size, 'dead letter'))
  if (again > 0) parts.push(`${again.toLocaleString('en')} to be retried`)
  if (pausedBecause !== null) parts.push(`paused: ${pausedBecause}`)
  return { text: parts.join(', ') }
}

function rate(perSecond: number): string {
  if (perSecond >= 1000) return `${(perSecond / 1000).toFixed(1)}k`
  return perSecond >= 10 ? String(Math.round(perSecond)) : perSecond.toFixed(1)
}
