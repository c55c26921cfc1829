// reprise move: stops a timeline and moves it, into a file for another machine or directly into another store.

import { type Command, flag, refuseOptions, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findMember } from '../find-timeline.ts'
import { bytes, count } from '../format.ts'
import { openEngine } from '../store.ts'

const move: Command = async ({ engine, args, options, output }) => {
  const [given, file] = args as [string, string | undefined]
  const url = text(options, 'to')
  const isBack = flag(options, 'back')
  const isWhole = isBack ? file === undefined : (file === undefined) !== (url === undefined)
  if (!isWhole)
    throw new UsageError('name the target: a FILE, --to URL, or --back (with --to URL after an interrupted move)')
  const head = await findMember(engine, given)
  if (isBack) {
    refuseOptions(options, ['takeover'], 'a timeline that was moved has no owner here')
    const other = url === undefined ? null : await openEngine({ url, namespace: text(options, 'namespace') })
    try {
      await engine.moveBack(head.timeline, other ? { other } : {})
    } finally {
      await other?.close()
    }
    output.result({ timelines: [head.timeline] }, () => output.line(`${head.timeline} is back in this store`))
    return exit.ok
  }
  const how = { takeover: flag(options, 'takeover') }
  const target =
    url === undefined ? null : await openEngine({ url, create: true, namespace: text(options, 'namespace') })
  try {
    const { registerKnown } = await import('../models.ts')
    if (target) await registerKnown(target, text(options, 'module'))
    const moved = await engine.move(head.timeline, target ?? file!, how)
    output.result({ ...moved, to: url ?? file }, () => {
      const what = moved.timelines.length === 1 ? head.timeline : count(moved.timelines.length, 'timeline')
      output.line(`${what} in ${url ?? file}, ${bytes(moved.bytes)}`)
      if (target) output.note('it continues there and can no longer be opened here')
      else
        output.note(
          `to continue it in another store: reprise import ${file}; to undo the move: reprise move ${given} --back`,
        )
    })
  } finally {
    await target?.close()
  }
  return exit.ok
}

export default move
