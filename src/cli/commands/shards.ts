// reprise shards: the databases of a store; reprise shards add: one more, with its share of the timelines.

import type { GrowProgress } from '../../core/store/shards.ts'
import { type Command, duration, refuseOptions } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { count } from '../format.ts'
import { onInterrupt } from '../interrupt.ts'
import type { Output } from '../output.ts'

const shards: Command = async (given) => {
  const { engine, args, output } = given
  const [verb, url] = args as [string | undefined, string | undefined]
  if (verb !== undefined && verb !== 'add') throw new UsageError(`shards has no action ${verb}: use add`)
  if (verb === 'add' && url === undefined) throw new UsageError('name the database: reprise shards add URL')
  if (verb === 'add') return await add(given, url!)
  refuseOptions(given.options, ['wait'], 'only with add')
  const rows = await engine.shards()
  output.result(rows, () => {
    if (rows.length === 0) return output.note('this store is one database')
    const { green, red, yellow } = output.colours
    output.table(
      ['SHARD', 'STATE', 'TIMELINES', 'MAP', 'LOCATION'],
      rows.map(({ shard, isAway, isJoining, timelines, version, location }) => [
        String(shard),
        isAway ? red('away') : isJoining ? yellow('joining') : green('there'),
        timelines === null ? '' : String(timelines),
        version === null ? '' : String(version),
        location,
      ]),
    )
    return undefined
  })
  return exit.ok
}

async function add({ engine, options, output }: Parameters<Command>[0], url: string): Promise<number> {
  const wait = duration(options, 'wait')
  const interruption = onInterrupt(output, 'stopping after the timeline that is being moved')
  const stop = new AbortController()
  void interruption.requested.then(() => stop.abort())
  try {
    const onProgress = progressPrinter(output)
    const how = { onProgress, signal: stop.signal, ...(wait !== undefined && { wait }) }
    const grown = await engine.addShard(url, how)
    output.result(grown, () => {
      output.line(`${count(grown.shards, 'shard')}; ${count(grown.moved, 'family', 'families')} moved`)
      for (const { timeline, reason } of grown.stays) output.note(`${timeline} stays where it is: ${reason}`)
    })
    return exit.ok
  } catch (error) {
    if (!interruption.isAsked) throw error
    output.note('interrupted: repeat the command to resume')
    return exit.interrupted
  } finally {
    interruption.off()
  }
}

function progressPrinter(output: Output): (progress: GrowProgress) => void {
  let lastNote = ''
  return ({ stage, moved, waitsFor }) => {
    const names = waitsFor.map(({ name, host }) => `${name} on ${host}`).join(', ')
    const words =
      stage === 'waiting'
        ? `waiting for these to restart with the new address: ${names}`
        : `${count(moved - (moved % 100), 'family', 'families')} moved`
    if (words !== lastNote && (stage === 'waiting' || moved >= 100)) output.note(words)
    lastNote = words
  }
}

export default shards
