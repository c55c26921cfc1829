// Commands on dead letters.

import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { discard, finalOf, lettersOf, withLetters } from '../../operations/letters.ts'
import { actOnRequests, requestWords, strandedRequests } from '../../operations/requests.ts'
import { act } from '../../operations/run-verb.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findJob } from '../find-timeline.ts'
import { brief, count, relative } from '../format.ts'
import { toJson } from '../output.ts'

/** The dead letters of a job, a pipeline, an informer or a controller. */
export const dead: Command = async ({ engine, args, options, output }) => {
  if (flag(options, 'requests')) return await deadRequests(engine, args, options, output)
  const heads = args[0] === undefined ? await withLetters(engine) : await findJob(engine, args[0])
  const wanted = (options.discard ?? []) as readonly string[]
  if (wanted.length > 0) {
    const { discarded, missing } = await discard(engine, heads, wanted)
    output.result({ discarded, missing }, () => {
      output.line(`${count(discarded.length, 'item')} ${discarded.length === 1 ? 'counts' : 'count'} as finished`)
      if (missing.length > 0) output.note(`not among the dead letters: ${missing.join(', ')}`)
    })
    return missing.length > 0 ? exit.partly : exit.ok
  }
  const letters = await lettersOf(engine, heads)
  const stranded = args[0] === undefined ? await strandedRequests(engine) : []
  const now = hostOf(engine).now()
  output.result(letters, () => {
    if (stranded.length > 0) {
      output.note(`${count(stranded.length, 'request')} of applications not carried out: reprise dead --requests`)
    }
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
        // Indented: a stack has several lines, and no line of it must look like one of ours.
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
  const isRequests = flag(options, 'requests')
  const given = isRequests ? undefined : args[0]
  const wanted = isRequests ? args : args.slice(1)
  const isAll = flag(options, 'all')
  if (isAll === wanted.length > 0) throw new UsageError('name the keys, or use --all', 'reprise dead lists them')
  const json = text(options, 'item')
  if (given === undefined) {
    if (!isRequests)
      throw new UsageError('name a job, a pipeline, an informer or a controller', 'reprise dead lists them')
    if (json !== undefined) throw new UsageError('--item is not for requests: the application must write another one')
    return await redriveRequests(engine, isAll ? 'all' : wanted, output)
  }
  if (json !== undefined && wanted.length !== 1) throw new UsageError('--item needs exactly one key')
  const items = json === undefined ? {} : { [wanted[0]!]: parseJson(json, '--item') }
  const [head] = await findJob(engine, given)
  const { facts, text: sentence } = await act(engine, head!, 'redrive', { ...(!isAll && { keys: wanted }), items })
  const { redriven, missing } = facts as { redriven: string[]; missing: string[] }
  output.result({ redriven, missing }, () => {
    const name = given.replace(/^job\//, '')
    const kind = hostOf(engine).models.find(head!.timeline)?.kind ?? ''
    const words = `${count(redriven.length, 'item')} will be retried: reprise resume ${name}, or run the job`
    output.line(runByThemselves.has(kind) ? sentence : words)
    if (missing.length > 0) output.note(`not among the dead letters: ${missing.join(', ')}`)
  })
  return missing.length > 0 ? exit.partly : exit.ok
}

type CommandArguments = Parameters<Command>[0]

async function deadRequests(
  engine: Reprise,
  args: readonly string[],
  options: CommandArguments['options'],
  output: CommandArguments['output'],
): Promise<number> {
  if (args.length > 0) throw new UsageError('--requests lists those of all definitions: use it without a NAME')
  const wanted = (options.discard ?? []) as readonly string[]
  if (wanted.length > 0) {
    const { done, missing } = await actOnRequests(engine, 'discard', wanted)
    output.result({ discarded: done, missing }, () => {
      output.line(`${count(done.length, 'request')} removed`)
      if (missing.length > 0) output.note(`not among the requests: ${missing.join(', ')}`)
    })
    return missing.length > 0 ? exit.partly : exit.ok
  }
  const stranded = await strandedRequests(engine)
  const now = hostOf(engine).now()
  output.result(stranded, () => {
    if (stranded.length === 0)
      return output.note('no request was refused, and none has waited for a worker for a minute')
    output.table(
      ['NAME', 'REQUEST', 'WHEN', 'PROBLEM'],
      stranded.map((request) => [
        request.name,
        requestWords(request),
        relative(request.sentAt, now),
        brief(request.problem ?? `waits for a worker that has ${request.target}`, 80),
      ]),
    )
    output.note(
      'retry refused ones with: reprise redrive --requests NAME, or remove one with: reprise dead --requests --discard NAME',
    )
    return undefined
  })
  return exit.ok
}

async function redriveRequests(
  engine: Reprise,
  wanted: readonly string[] | 'all',
  output: CommandArguments['output'],
): Promise<number> {
  const { done, missing } = await actOnRequests(engine, 'redrive', wanted)
  output.result({ redriven: done, missing }, () => {
    output.line(`${count(done.length, 'request')} will be carried out by the next worker that has the definition`)
    if (missing.length > 0) output.note(`not among the refused requests: ${missing.join(', ')}`)
  })
  return missing.length > 0 ? exit.partly : exit.ok
}
