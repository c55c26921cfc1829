// reprise dead: items that a job gave up on.

import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/ports.ts'
import { hostOf } from '../../engine/host.ts'
import { actionOf, verbsOf } from '../../engine/model.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { type DeadLetter, discardLetters, readLetters } from '../../layers/job/index.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { findJob } from '../find.ts'
import { brief, count, relative } from '../format.ts'
import { toJson } from '../output.ts'

const dead: Command = async ({ engine, args, options, output }) => {
  const heads = args[0] === undefined ? await withLetters(engine) : await findJob(engine, args[0])
  // Only what can be sent back was given up on; any other model has its own word for it.
  for (const { timeline } of heads) actionOf(hostOf(engine).models.find(timeline), 'redrive', timeline)
  const discard = (options.discard ?? []) as readonly string[]
  if (discard.length > 0) {
    const discarded: string[] = []
    for (const head of heads) {
      const held = new Set((await readLetters(engine, head.timeline)).map((letter) => letter.key))
      const keys = discard.filter((key) => held.has(key))
      if (keys.length > 0) await discardLetters(engine, head.timeline, keys)
      discarded.push(...keys)
    }
    const missing = discard.filter((key) => !discarded.includes(key))
    if (discarded.length === 0) throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')}`, { missing })
    output.result({ discarded, missing }, () => {
      output.line(`${count(discarded.length, 'item')} ${discarded.length === 1 ? 'counts' : 'count'} as finished now`)
      if (missing.length > 0) output.note(`not among the dead letters: ${missing.join(', ')}`)
    })
    return missing.length > 0 ? exit.partly : exit.ok
  }
  const letters: (DeadLetter & { timeline: string })[] = []
  for (const head of heads) {
    for (const letter of await readLetters(engine, head.timeline)) letters.push({ timeline: head.timeline, ...letter })
  }
  const now = hostOf(engine).kernel.worker.now()
  output.result(letters, () => {
    if (letters.length === 0) return output.note('no dead letters')
    output.table(
      ['JOB', 'KEY', 'ATTEMPTS', 'WHEN', 'ERROR'],
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
        // Indented: a stack has lines, and none of them may pass for one of ours.
        for (const line of (letter.error.stack ?? '').split('\n')) output.line(`  ${line}`)
      }
    }
    output.note(
      'send them back with: reprise redrive JOB --all, or count one as finished with: reprise dead JOB --discard KEY',
    )
    return undefined
  })
  return exit.ok
}

/** Timelines of every kind that gives up on items and can have them sent back. */
async function withLetters(engine: Reprise): Promise<Head[]> {
  const kinds = hostOf(engine)
    .models.all()
    .filter((model) => model.name === null && verbsOf(model).includes('redrive'))
  const pages = await Promise.all(kinds.map((model) => engine.list({ prefix: model.scope, limit: 1000 })))
  return pages.flat().filter((head) => Number(head.attributes.dead ?? 0) > 0)
}

export default dead
