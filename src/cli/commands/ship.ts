// reprise ship: copies the commits of the store to another place, for as long as it runs.

import { hostOf } from '../../engine/host/host.ts'
import { notedTiers, shown } from '../../engine/storage/tier-policy.ts'
import { shipStore, verifyPlace } from '../../engine/tools/shipping/ship.ts'
import type { ShipStatus } from '../../engine/tools/shipping/status.ts'
import { type Command, duration, flag, type Invocation, refuseOptions, text } from '../command.ts'
import { exit } from '../exit.ts'
import { bytes, count } from '../format.ts'
import { onInterrupt } from '../interrupt.ts'
import { urlOf } from '../store.ts'

const ship: Command = async (invocation) => {
  const { engine, args, options, output } = invocation
  if (flag(options, 'verify')) {
    refuseOptions(
      options,
      ['every', 'lose-at-most', 'base', 'keep', 'once', 'take'],
      '--verify only checks the shipped records',
    )
    return await verify(invocation)
  }
  await reportElsewhere(invocation)
  const [every, loseAtMost, base, keep] = ['every', 'lose-at-most', 'base', 'keep'].map((name) =>
    duration(options, name),
  )
  const end = new AbortController()
  const interruption = onInterrupt(output, 'shipping the remaining commits')
  void interruption.requested.then(() => end.abort())
  const onStatus = statusPrinter((line) => output.note(line))
  try {
    const status = await shipStore(urlOf({ url: text(options, 'url') }), args[0]!, hostOf(engine).kernel, {
      ...(every !== undefined && { every }),
      ...(loseAtMost !== undefined && { loseAtMost }),
      ...(base !== undefined && { base }),
      ...(keep !== undefined && { keep }),
      ...{ take: flag(options, 'take'), once: flag(options, 'once'), signal: end.signal, onStatus },
    })
    const { place, record, position, records, bytes: sent } = status
    output.result({ place, record, position, records, bytes: sent }, () => {
      output.line(`shipped to ${place}: ${count(records, 'record')}, ${bytes(sent)}; the last is ${record}`)
    })
    return exit.ok
  } finally {
    interruption.off()
  }
}

export default ship

async function verify({ engine, args, output }: Invocation): Promise<number> {
  const report = await verifyPlace(args[0]!, hostOf(engine).kernel.sealer)
  output.result(report, () => {
    const { oldest, newest, bases, from, to, faults } = report
    for (const { where, what } of faults) output.line(`${where}: ${what}`)
    const at = (time: number | null) => (time === null ? '-' : new Date(time).toISOString())
    const sum = `records ${oldest} to ${newest}, ${count(bases, 'base')}, ${bytes(report.bytes)}`
    if (report.cure !== null) output.note(report.cure)
    output.line(`${report.ok ? 'ok' : count(faults.length, 'fault')}  ${sum}; from ${at(from)} to ${at(to)}`)
  })
  return report.ok ? exit.ok : exit.damage
}

/** Data outside the file is not shipped. */
async function reportElsewhere({ engine, output }: Invocation): Promise<void> {
  if ((await engine.head('reprise/store'))?.attributes.$chunks !== undefined) {
    output.note('the chunks of this store are outside its file, and are not shipped: protect them separately')
  }
  for (const { name, at } of (await notedTiers(hostOf(engine).kernel)).tiers) {
    output.note(
      `chunks and history that moved to the tier ${name} (${shown(at)}) are not shipped: protect that place as well as this one`,
    )
  }
}

/** Reports the start, when the place becomes unreachable, and when it is back. */
function statusPrinter(print: (line: string) => void): (status: ShipStatus) => void {
  let state: 'new' | 'well' | 'failing' = 'new'
  return ({ failing, safeAt, place, record }) => {
    const now = failing ? 'failing' : safeAt === null ? 'new' : 'well'
    if (now === state) return
    if (failing)
      print(`${place} refused the records: ${failing.error}; the store continues to work, and shipping is retried`)
    else if (now === 'well') print(`${state === 'failing' ? 'back: ' : ''}shipping to ${place}, at record ${record}`)
    state = now
  }
}
