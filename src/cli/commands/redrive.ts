// reprise redrive: sends dead letters back. They are tried again when the job next runs (or at once if it is running).

import { RepriseError } from '../../core/errors.ts'
import { readLetters, redriveLetters } from '../../layers/job/index.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findJob } from '../find.ts'
import { count } from '../format.ts'

const redrive: Command = async ({ engine, args, options, output }) => {
  const [given, ...wanted] = args as [string, ...string[]]
  const isAll = flag(options, 'all')
  if (isAll === wanted.length > 0) throw new UsageError('say which keys, or --all', 'reprise dead lists them')
  const json = text(options, 'item')
  if (json !== undefined && wanted.length !== 1) throw new UsageError('--item goes with one key')
  const item = json === undefined ? undefined : { value: parseJson(json, '--item') }
  const sent: string[] = []
  for (const head of await findJob(engine, given)) {
    const held = new Set((await readLetters(engine, head.timeline)).map((letter) => letter.key))
    const keys = isAll ? [...held] : wanted.filter((key) => held.has(key))
    if (keys.length === 0) continue
    await redriveLetters(engine, head.timeline, keys, item === undefined ? {} : { [keys[0]!]: item.value })
    sent.push(...keys)
  }
  const missing = wanted.filter((key) => !sent.includes(key))
  if (missing.length > 0 && sent.length === 0) {
    throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')} in ${given}`, { missing })
  }
  output.result({ redriven: sent, missing }, () => {
    output.line(
      `${count(sent.length, 'item')} will be tried again: reprise resume ${given.replace(/^job\//, '')}, or run the job`,
    )
    if (missing.length > 0) output.note(`not among the dead letters: ${missing.join(', ')}`)
  })
  return missing.length > 0 ? exit.partly : exit.ok
}

export default redrive
