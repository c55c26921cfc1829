// reprise redrive: returns dead letters to their queue. They are retried at the next run of their owner (or at once).

import { hostOf } from '../../engine/host/host.ts'
import { act } from '../../operations/act.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findJob } from '../find.ts'
import { count } from '../format.ts'

/** Nothing has to be resumed: their workers continue. */
const runByThemselves: ReadonlySet<string> = new Set(['pipeline', 'informer', 'controller'])

const redrive: Command = async ({ engine, args, options, output }) => {
  const [given, ...wanted] = args as [string, ...string[]]
  const isAll = flag(options, 'all')
  if (isAll === wanted.length > 0) throw new UsageError('say which keys, or --all', 'reprise dead lists them')
  const json = text(options, 'item')
  if (json !== undefined && wanted.length !== 1) throw new UsageError('--item needs exactly one key')
  const items = json === undefined ? {} : { [wanted[0]!]: parseJson(json, '--item') }
  const [head] = await findJob(engine, given)
  const { facts, said } = await act(engine, head!, 'redrive', { ...(!isAll && { keys: wanted }), items })
  const { redriven, missing } = facts as { redriven: string[]; missing: string[] }
  output.result({ redriven, missing }, () => {
    const name = given.replace(/^job\//, '')
    const kind = hostOf(engine).models.find(head!.timeline)?.kind ?? ''
    const words = `${count(redriven.length, 'item')} will be tried again: reprise resume ${name}, or run the job`
    output.line(runByThemselves.has(kind) ? said : words)
    if (missing.length > 0) output.note(`not among the dead letters: ${missing.join(', ')}`)
  })
  return missing.length > 0 ? exit.partly : exit.ok
}

export default redrive
