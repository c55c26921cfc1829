// reprise backup: the whole store as one file. After an interruption, the same command resumes.

import { existsSync } from 'node:fs'
import { isObjectStore, objectFiles } from '../../engine/storage/open-store.ts'
import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { bytes, count } from '../format.ts'

const tellEveryMs = 2000

const backup: Command = async ({ engine, args, options, output }) => {
  const [file] = args as [string]
  const isThere = isObjectStore(file) ? await objectFiles.exists(file) : existsSync(file)
  if (isThere && !flag(options, 'force')) {
    throw new UsageError(`${file} exists already`, '--force overwrites it')
  }
  let toldAt = Date.now()
  const report = await engine.backup(file, {
    // A concurrent backup to the same name is refused, and not overwritten.
    ...(!flag(options, 'force') && { onlyNew: true }),
    onProgress: ({ timeline, timelines }) => {
      if (Date.now() - toldAt < tellEveryMs) return
      toldAt = Date.now()
      output.note(`${count(timelines, 'timeline')}, at ${timeline}`)
    },
  })
  output.result(report, () => {
    const earlier = report.before > 0 ? `, ${report.before} by an earlier attempt` : ''
    output.line(`${file}: ${count(report.timelines, 'timeline')}${earlier}, ${bytes(report.bytes)}`)
  })
  for (const { timeline, why } of report.leftOut) output.note(`left out ${timeline}: ${why}`)
  return exit.ok
}

export default backup
