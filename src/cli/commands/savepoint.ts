// reprise savepoint: a checkpoint that is kept until it is released.

import { type Command, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace } from '../find.ts'
import { bytes } from '../format.ts'
import { captureGroup } from './group.ts'

const savepoint: Command = async (invocation) => {
  const { engine, args, options, output } = invocation
  if (args.length > 1) return await captureGroup(invocation, text(options, 'label'), args)
  const { head, seq } = await findPlace(engine, args[0]!)
  const release = text(options, 'release')
  if (release !== undefined) {
    const catalog = await engine.checkpoints(head.timeline)
    const matches = catalog.filter((record) => record.id.startsWith(release))
    const id = matches.length === 1 ? matches[0]!.id : release
    await engine.release(head.timeline, id)
    output.result({ released: id }, () => output.line(`released ${id}`))
    return exit.ok
  }
  const label = text(options, 'label')
  const made = await engine.savepoint({ timeline: head.timeline, seq }, label === undefined ? {} : { label })
  output.result(made, () =>
    output.line(`savepoint ${made.id} of ${head.timeline}@${made.coordinate.seq}, ${bytes(made.bytes)}`),
  )
  return exit.ok
}

export default savepoint
