// reprise tail: follows new entries, by the feed for many timelines. Ends with Ctrl-C, or at the end with --once.

import { feedStart } from '../../core/store/ports.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import { FeedStream } from '../../engine/feed/feed-stream.ts'
import { hostOf } from '../../engine/host/host.ts'
import { feedEnd } from '../../operations/feed-end.ts'
import { shownEntry } from '../../operations/history.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { brief, when } from '../format.ts'
import { toJson } from '../output.ts'

const pollMs = 250

const tail: Command = async ({ engine, args, options, output }) => {
  const from = text(options, 'from') ?? (flag(options, 'once') ? 'start' : 'now')
  if (from !== 'start' && from !== 'now') throw new UsageError('--from must be start or now')
  const prefixes = args[0] === undefined ? undefined : [args[0]]
  const isOnce = flag(options, 'once')
  const stop = new AbortController()
  const stream = new FeedStream(hostOf(engine).kernel, {
    scopes: prefixes,
    after: from === 'start' ? feedStart : await feedEnd(engine),
    follow: !isOnce,
    mayBeTrimmed: true,
    signal: stop.signal,
    pageRuns: 500,
    pollMs,
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  output.onClosed(() => stop.abort())
  if (!isOnce) output.note('following; press Ctrl-C to stop')
  await whileAwaited(show())
  return exit.ok

  async function show(): Promise<void> {
    for await (const { entries } of stream) {
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
  }
}

export default tail
