// A progress bar for terminals: one line that is redrawn, with failures above it. It is only used on a terminal, so a
// pipe never receives its control characters.

import { formatMs } from '../../../core/duration.ts'
import { printable } from '../../../core/printable.ts'
import type { JobProgress } from '../progress.ts'
import { elsewhere, failureLine, isElsewhere, type Reporter, type ReportStream, rateOf, timeLeftMs } from './lines.ts'

const drawEveryMs = 80
const failuresShown = 20
const clearLine = '\r\x1b[2K'

export function barReporter(stream: ReportStream): Reporter {
  let drawnAt = -drawEveryMs
  let failures = 0
  return (event) => {
    if (event.type === 'failure' || event.type === 'source-failure') {
      failures += 1
      if (failures <= failuresShown) stream.write(`${clearLine}${failureLine(event)}\n`)
      return
    }
    const { progress } = event
    if (event.type === 'progress' && progress.elapsedMs - drawnAt < drawEveryMs) return
    drawnAt = progress.elapsedMs
    stream.write(clearLine + draw(progress, stream.columns || 80))
    if (event.type === 'ended') stream.write('\n')
  }
}

/** @example draw(progress, 80) // 'papers ━━━━━━━━╸───── 52% 1040/2000 118/s 8s left' */
export function draw(progress: JobProgress, columns: number): string {
  const { name, done, skipped, failed, total, status } = progress
  const seen = done + skipped + failed
  const part = total !== null && total > 0 ? Math.min(1, seen / total) : progress.fraction
  const count = total === null ? `${seen}` : `${seen}/${total}`
  const words = [count, `${rateOf(progress)}/s`]
  const left = timeLeftMs(progress)
  if (status === 'running' && left !== null) words.push(`${formatMs(Math.round(left / 1000) * 1000)} left`)
  if (skipped > 0) words.push(`${skipped} skipped`)
  if (failed > 0) words.push(`${failed} failed`)
  if (status !== 'running') words.push(isElsewhere(progress) ? `${status}: ${seen} ${elsewhere}` : status)
  const tail = words.join('  ')
  const head = part === null ? name : `${name} ${bar(part, columns - name.length - tail.length - 9)} ${percent(part)}`
  return printable(`${head} ${tail}`).slice(0, Math.max(20, columns - 1))
}

function bar(part: number, room: number): string {
  const width = Math.max(5, Math.min(40, room))
  const full = Math.round(part * width)
  return '━'.repeat(full) + '─'.repeat(width - full)
}

function percent(part: number): string {
  return `${Math.floor(part * 100)}%`.padStart(4)
}
