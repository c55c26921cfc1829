// reprise tail: follows new entries, by the feed for many timelines. Ends with Ctrl-C, or at the end with --once.

import { feedStart } from '../../core/ports.ts'
import { FeedReader } from '../../engine/feed/reader.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { brief, when } from '../format.ts'
import { shownEntry } from '../history.ts'
import { toJson } from '../output.ts'

const pollMs = 250

const tail: Command = async ({ engine, args, options, output }) => {
  const from = text(options, 'from') ?? (flag(options, 'once') ? 'start' : 'now')
  if (from !== 'start' && from !== 'now') throw new UsageError('--from is start or now')
  const prefixes = args[0] === undefined ? undefined : [args[0]]
  const reader = new FeedReader(engine.kernel, prefixes, { mayBeTrimmed: true })
  let position = from === 'start' ? feedStart : await end()
  let isStopped = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      isStopped = true
    })
  }
  if (!flag(options, 'once')) output.note('following; Ctrl-C ends it')
  while (!isStopped) {
    const page = await reader.page(position, 500)
    position = page.next
    for (const { entries } of page.runs) {
      for (const entry of entries) {
        if (output.isJson) output.json(shownEntry(entry))
        else {
          const data = toJson(entry.data)
          const shown = flag(options, 'full') ? data : brief(data, Math.max(20, output.columns - 60))
          output.line(
            `${output.colours.dim(when(entry.time))}  ${entry.timeline}@${entry.seq}  ${entry.type}  ${shown}`,
          )
        }
      }
    }
    if (!page.isEnd) continue
    if (flag(options, 'once')) break
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
  return exit.ok

  async function end(): Promise<string> {
    let at = feedStart
    for (;;) {
      const page = await engine.feed(at, { ...(prefixes && { prefixes }), limit: 1000 })
      at = page.next
      if (page.isEnd) return at
    }
  }
}

export default tail
