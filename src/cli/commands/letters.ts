// Commands on dead letters.

import { hostOf } from '../../engine/host/host.ts'
import { act } from '../../operations/act.ts'
import { discard, finalOf, lettersOf, withLetters } from '../../operations/letters.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findJob } from '../find.ts'
import { brief, count, relative } from '../format.ts'
import { toJson } from '../output.ts'

/** The dead letters of a job, a pipeline, an informer or a controller. */
export const dead: Command = async ({ engine, args, options, output }) => {
  const heads = args[0] === undefined ? await withLetters(engine) : await findJob(engine, args[0])
  const wanted = (options.discard ?? []) as readonly string[]
  if (wanted.length > 0) {
    const { discarded, missing } = await discard(engine, heads, wanted)
    output.result({ discarded, missing }, () => {
      output.line(`${count(discarded.length, 'item')} ${discarded.length === 1 ? 'counts' : 'count'} as finished now`)
      if (missing.length > 0) output.note(`not among the dead letters: ${missing.join(', ')}`)
    })
    return missing.length > 0 ? exit.partly : exit.ok
  }
  const letters = await lettersOf(engine, heads)
  const now = hostOf(engine).now()
  output.result(letters, () => {
    if (letters.length === 0) return output.note('no dead letters')
    output.table(
      ['NAME', 'KEY', 'ATTEMPTS', 'WHEN', 'ERROR'],
      letters.map((letter) => [
        letter.timeline,
        letter.key,
        String(letter.attempts),
        relative(letter.at, now),
        brief(`${letter.error.name}: ${letter.error.message}`, 80),
      ]),
    )
    if (flag(options, 'full')) {
      for (const letter of letters) {
        output.line()
        output.line(output.colours.bold(letter.key))
        output.lines(toJson(letter.item, 2))
        // Indented: a stack has several lines, and none of them may be mistaken for ours.
        for (const line of (letter.error.stack ?? '').split('\n')) output.line(`  ${line}`)
      }
    }
    const why = finalOf(engine, heads)
    for (const what of why) output.note(what)
    if (why.length < new Set(letters.map(({ timeline }) => timeline)).size) {
      output.note(
        'send them back with: reprise redrive NAME --all, or count one as finished with: reprise dead NAME --discard KEY',
      )
    }
    return undefined
  })
  return exit.ok
}

/** Nothing has to be resumed: their workers continue. */
const runByThemselves: ReadonlySet<string> = new Set(['pipeline', 'informer', 'controller'])

/** Returns dead letters to their queue. They are retried at the next run of their owner (or at once). */
export const redrive: Command = async ({ engine, args, options, output }) => {
  const [given, ...wanted] = args as [string, ...string[]]
  const isAll = flag(options, 'all')
  if (isAll === wanted.length > 0) throw new UsageError('name the keys, or use --all', 'reprise dead lists them')
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
