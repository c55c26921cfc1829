// Progress as lines, for pipes, logs and programs: one at the start, some in between, one at the end.

import { formatMs } from '../../../core/duration.ts'
import { printable } from '../../../core/printable.ts'
import type { JobEvent, JobProgress } from '../progress.ts'

export type Reporter = (event: JobEvent) => void

export interface ReportStream {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

const lineEveryMs = 2000

export function lineReporter(stream: ReportStream): Reporter {
  let at = 0
  let isStarted = false
  return (event) => {
    if (event.type === 'failure' || event.type === 'source-failure') {
      stream.write(`${failureLine(event)}\n`)
      return
    }
    if (event.type === 'started' && isStarted) return
    isStarted = true
    if (event.type === 'progress') {
      if (event.progress.elapsedMs - at < lineEveryMs) return
      at = event.progress.elapsedMs
    }
    stream.write(`${progressLine(event.progress)}\n`)
  }
}

/** One object per line: { type, name, status, done, skipped, failed, total, elapsedMs, … }. */
export function jsonReporter(stream: ReportStream): Reporter {
  return (event) => {
    if (event.type === 'failure' || event.type === 'source-failure') stream.write(`${JSON.stringify(event)}\n`)
    else stream.write(`${JSON.stringify({ type: event.type, ...event.progress })}\n`)
  }
}

export function failureLine(event: Extract<JobEvent, { type: 'failure' | 'source-failure' }>): string {
  if (event.type === 'source-failure') {
    const next = event.next === 'retry' ? 'will read the source again' : 'gave up on the source'
    return printable(`${next} after attempt ${event.attempt}: ${event.error.message.split('\n')[0]}`)
  }
  const what = event.next === 'dead' ? 'gave up on' : 'will retry'
  return printable(`${what} ${event.key} after attempt ${event.attempt}: ${event.error.message.split('\n')[0]}`)
}

export function progressLine(progress: JobProgress): string {
  const { name, status, done, skipped, failed, total } = progress
  const seen = done + skipped + failed
  const parts = [`${name}: ${status}`, `${done} done`]
  if (skipped > 0) parts.push(`${skipped} skipped`)
  if (failed > 0) parts.push(`${failed} failed`)
  if (total !== null) parts.push(isElsewhere(progress) ? `${seen} of ${total} ${elsewhere}` : `${seen} of ${total}`)
  parts.push(`${rateOf(progress)}/s`)
  const left = timeLeftMs(progress)
  if (left !== null && status === 'running') parts.push(`${formatMs(Math.round(left / 1000) * 1000)} left`)
  return printable(parts.join(', '))
}

export const elsewhere = 'in this run, the rest before it or by another process'

/** The job is finished, but this process did only part of it: another process took over meanwhile. */
export function isElsewhere({ status, done, skipped, failed, total }: JobProgress): boolean {
  return status === 'completed' && total !== null && done + skipped + failed < total
}

export function rateOf(progress: JobProgress): string {
  const perSecond = (progress.done * 1000) / Math.max(1, progress.elapsedMs)
  return perSecond >= 100 ? perSecond.toFixed(0) : perSecond.toFixed(1)
}

/** The remaining time at the speed so far. Skipping costs almost nothing, so only processed items count. */
export function timeLeftMs(progress: JobProgress): number | null {
  const { done, skipped, failed, total, elapsedMs, fraction } = progress
  if (done === 0) return null
  if (total !== null) return (Math.max(0, total - done - skipped - failed) * elapsedMs) / done
  return fraction !== null && fraction > 0 ? (elapsedMs * (1 - fraction)) / fraction : null
}
