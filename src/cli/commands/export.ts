// reprise export: one self-contained file, a job's finished keys as JSON Lines, or the history of a workflow for
// `reprise check`.

import { once } from 'node:events'
import { createWriteStream, existsSync, WriteStream } from 'node:fs'
import { hostOf } from '../../engine/host/host.ts'
import { isObjectStore, objectFiles } from '../../engine/storage/open-store.ts'
import { exportProgress } from '../../layers/job/index.ts'
import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findJob, findPlace, findTimeline } from '../find-timeline.ts'
import { bytes, count } from '../format.ts'
import { toJson } from '../output.ts'

const exportCommand: Command = async ({ engine, args, options, output }) => {
  const [given, file] = args as [string, string]
  if (['progress', 'state-only', 'history'].filter((name) => flag(options, name)).length > 1) {
    throw new UsageError('--progress, --state-only and --history are different exports: choose one')
  }
  if (isObjectStore(file) && (flag(options, 'progress') || flag(options, 'history'))) {
    throw new UsageError('only a timeline or its state can be exported to an object store', 'name a file')
  }
  const onlyNew = !flag(options, 'force')
  const isThere = file !== '-' && (isObjectStore(file) ? await objectFiles.exists(file) : existsSync(file))
  if (isThere && onlyNew) throw new UsageError(`${file} exists already`, '--force overwrites it')
  if (flag(options, 'progress')) {
    const stream = file === '-' ? process.stdout : createWriteStream(file)
    let lines = 0
    for (const head of await findJob(engine, given)) {
      for await (const line of exportProgress(engine, head.timeline)) {
        lines += 1
        if (!stream.write(`${toJson(line)}\n`)) await once(stream, 'drain')
      }
    }
    if (stream instanceof WriteStream) await once(stream.end(), 'finish')
    if (file !== '-') output.result({ file, lines }, () => output.line(`${count(lines, 'key')} in ${file}`))
    return exit.ok
  }
  if (flag(options, 'history')) {
    const head = await findTimeline(engine, given)
    if (hostOf(engine).models.find(head.timeline)?.kind !== 'workflow') {
      throw new UsageError(`${head.timeline} is not a workflow`)
    }
    const { saveHistory } = await import('../../layers/workflow/index.ts')
    await saveHistory(engine, head.timeline, file)
    output.result({ file, timeline: head.timeline, entries: head.seq }, () =>
      output.line(`${count(head.seq, 'entry', 'entries')} of ${head.timeline} in ${file}`),
    )
    return exit.ok
  }
  if (file === '-') throw new UsageError('only --progress can be written to -', 'name a file for the timeline')
  const { head, seq } = await findPlace(engine, given)
  const done = await engine.export({ timeline: head.timeline, seq }, file, {
    stateOnly: flag(options, 'state-only'),
    // A concurrent export to the same name is refused, and not overwritten.
    onlyNew,
  })
  output.result({ file, ...done }, () =>
    output.line(`${head.timeline}@${done.coordinate.seq} in ${file}, ${bytes(done.bytes)}`),
  )
  return exit.ok
}

export default exportCommand
