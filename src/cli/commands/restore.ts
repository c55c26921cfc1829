// reprise restore: a backup into an empty store. Interrupted, the same command goes on where it was.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { count } from '../format.ts'

const tellEveryMs = 2000

const restore: Command = async ({ engine, args, output }) => {
  let toldAt = Date.now()
  const report = await engine.restore(args[0]!, {
    onProgress: ({ timeline, timelines }) => {
      if (Date.now() - toldAt < tellEveryMs) return
      toldAt = Date.now()
      output.note(`${count(timelines, 'timeline')}, at ${timeline}`)
    },
  })
  output.result(report, () => {
    const earlier = report.before > 0 ? `, ${report.before} by an earlier attempt` : ''
    output.line(`restored ${count(report.timelines, 'timeline')}${earlier}`)
  })
  for (const { timeline, why } of report.leftOut) output.note(`not in the backup: ${timeline}: ${why}`)
  return exit.ok
}

export default restore
