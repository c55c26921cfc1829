// A state that takes long to load shows how far it is, whichever command asked for it.

import type { Reprise } from '../engine/api/reprise.ts'
import type { Output } from './output.ts'
import { ProgressLine, share } from './progress-line.ts'

/** Returns the way to stop. Nothing is shown where stderr is not a terminal. */
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
    // One line: of several that load at once, the first.
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
