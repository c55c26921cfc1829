// reprise export: one self-contained file, or a job's finished keys as JSON Lines.

import { once } from 'node:events'
import { createWriteStream, WriteStream } from 'node:fs'
import { exportProgress } from '../../layers/job/index.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { findJob, findPlace } from '../find.ts'
import { bytes, count } from '../format.ts'

const exportCommand: Command = async ({ engine, args, options, output }) => {
  const [given, file] = args as [string, string]
  if (flag(options, 'progress')) {
    const stream = file === '-' ? process.stdout : createWriteStream(file)
    let lines = 0
    for (const head of await findJob(engine, given)) {
      for await (const line of exportProgress(engine, head.timeline)) {
        lines += 1
        if (!stream.write(`${JSON.stringify(line)}\n`)) await once(stream, 'drain')
      }
    }
    if (stream instanceof WriteStream) await once(stream.end(), 'finish')
    if (file !== '-') output.result({ file, lines }, () => output.line(`${count(lines, 'key')} in ${file}`))
    return exit.ok
  }
  const { head, seq } = await findPlace(engine, given)
  const done = await engine.export({ timeline: head.timeline, seq }, file, { stateOnly: flag(options, 'state-only') })
  output.result({ file, ...done }, () =>
    output.line(`${head.timeline}@${done.coordinate.seq} in ${file}, ${bytes(done.bytes)}`),
  )
  return exit.ok
}

export default exportCommand
