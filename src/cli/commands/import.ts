// reprise import: an exported file, or the progress file of a hand-written script.

import { createReadStream, existsSync, statSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { RepriseError } from '../../core/errors.ts'
import { isObjectStore } from '../../engine/storage/open-store.ts'
import { importProgress } from '../../layers/job/index.ts'
import { type Command, refuseOptions, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { count } from '../format.ts'

const importCommand: Command = async ({ engine, args, options, output, stdin }) => {
  const file = args[0]!
  const isLocal = file !== '-' && !isObjectStore(file)
  if (isLocal && !existsSync(file)) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
  if (isLocal && statSync(file).isDirectory()) {
    throw new UsageError(`${file} is a folder`, 'name a file that reprise export or reprise move wrote')
  }
  const job = text(options, 'progress')
  if (job !== undefined) refuseOptions(options, ['as'], 'the progress of a script becomes the job of --progress')
  if (job === undefined) {
    refuseOptions(options, ['key', 'shards'], 'only with --progress')
    const as = text(options, 'as')
    // A repeated import finds the timeline; only a different one under its id is a conflict.
    const made = await engine.import(file, { orSame: true, ...(as !== undefined && { as }) })
    output.result(made, () =>
      output.line(`${made.timeline}@${made.seq}${made.isSame ? ' was already imported, with the same history' : ''}`),
    )
    return exit.ok
  }
  const lines = createInterface({
    input: file === '-' ? stdin : createReadStream(file),
    crlfDelay: Number.POSITIVE_INFINITY,
  })
  const key = text(options, 'key')
  const shards = Number(text(options, 'shards') ?? 1)
  if (!Number.isSafeInteger(shards) || shards < 1 || shards > 256) {
    throw new UsageError('--shards must be a whole number from 1 to 256', 'as many as the job has; 1 if it names none')
  }
  const report = await importProgress(engine, job, lines, { shards, from: file, ...(key !== undefined && { key }) })
  output.result(report, () => {
    output.line(`${count(report.added, 'key')} of ${count(report.lines, 'line')} are finished now in job ${job}`)
    if (report.ignored > 0) output.note(`${count(report.ignored, 'line')} had no key and were skipped`)
  })
  return report.ignored > 0 ? exit.partly : exit.ok
}

export default importCommand
