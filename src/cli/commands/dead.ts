// reprise dead: the dead letters of a job, a pipeline, an informer or a controller.

import { hostOf } from '../../engine/host/host.ts'
import { discard, finalOf, lettersOf, withLetters } from '../../operations/letters.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { findJob } from '../find.ts'
import { brief, count, relative } from '../format.ts'
import { toJson } from '../output.ts'

const dead: Command = async ({ engine, args, options, output }) => {
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
  const now = hostOf(engine).kernel.worker.now()
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

export default dead
