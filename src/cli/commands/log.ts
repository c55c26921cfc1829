// reprise log: history, entry by entry.

import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { brief, when } from '../format.ts'
import { entriesAfter, shownEntry } from '../history.ts'
import { toJson } from '../output.ts'

const log: Command = async ({ engine, args, options, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const limit = Number(text(options, 'limit') ?? (output.isTerminal ? 50 : 1_000_000_000))
  const after = Number(
    text(options, 'after') ?? Math.max(0, text(options, 'limit') || !output.isTerminal ? 0 : head.seq - limit),
  )
  if (!Number.isSafeInteger(limit) || limit < 1 || !Number.isSafeInteger(after) || after < 0)
    throw new UsageError('--limit is a whole number from 1 on, --after one from 0 on', 'reprise help log says more')
  const type = text(options, 'type')
  let count = 0
  for await (const entry of entriesAfter(engine, head, after)) {
    if (type !== undefined && entry.type !== type) continue
    if (++count > limit) break
    // One object a line, as they come: history may be long.
    if (output.isJson) output.json(shownEntry(entry))
    else {
      const data = toJson(entry.data)
      const room = Math.max(20, output.columns - 50)
      output.line(
        `${String(entry.seq).padStart(String(head.seq).length)}  ${output.colours.dim(when(entry.time))}  ${entry.type}  ${flag(options, 'full') ? data : brief(data, room)}`,
      )
    }
  }
  return exit.ok
}

export default log
