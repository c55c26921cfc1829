// Shows progress while a large state is loaded, for any command.

import type { Reprise } from '../engine/api/reprise.ts'
import type { Output } from './output.ts'
import { ProgressLine, share } from './progress-line.ts'

/** Returns a function that stops it. Shows nothing if stderr is not a terminal. */
export function showLoading(engine: Reprise, output: Output): () => void {
  if (!process.stderr.isTTY) return () => undefined
  const lines = new Map<string, ProgressLine>()
  const close = (timeline: string) => {
    lines.get(timeline)?.close()
    lines.delete(timeline)
  }
  const off = engine.events.on('progress', ({ work, timeline, part, done, total }) => {
    if (work !== 'load' || timeline === null) return
    if (part === 'ready') return close(timeline)
    // One line: the first of several states loaded at once.
    if (lines.size > 0 && !lines.has(timeline)) return
    const line = lines.get(timeline) ?? new ProgressLine(output)
    lines.set(timeline, line)
    line.at(
      () =>
        `loading ${timeline}: ${part === 'restore' ? 'checkpoint, bytes' : 'history, entries'} ${share(done, total)}`,
    )
  })
  return () => {
    off()
    for (const timeline of [...lines.keys()]) close(timeline)
  }
}
