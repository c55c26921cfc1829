// reprise ship: takes what the store commits to another place, for as long as it runs.

import { hostOf } from '../../engine/host.ts'
import { shipStore } from '../../engine/ship/ship.ts'
import type { ShipStatus } from '../../engine/ship/status.ts'
import { type Command, flag, text } from '../command.ts'
import { exit } from '../exit.ts'
import { bytes, count } from '../format.ts'
import { onInterrupt } from '../interrupt.ts'
import { urlOf } from '../store.ts'

const ship: Command = async ({ engine, args, options, output }) => {
  const [every, base, keep] = ['every', 'base', 'keep'].map((name) => text(options, name))
  const end = new AbortController()
  const interruption = onInterrupt(output, 'shipping what was committed')
  void interruption.asked.then(() => end.abort())
  const say = teller((line) => output.note(line))
  try {
    const status = await shipStore(urlOf({ url: text(options, 'url') }), args[0]!, hostOf(engine).kernel.sealer, {
      ...(every !== undefined && { every }),
      ...(base !== undefined && { base }),
      ...(keep !== undefined && { keep }),
      ...{ take: flag(options, 'take'), once: flag(options, 'once'), signal: end.signal, onStatus: say },
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

/** Says when it begins, when the place is away, and when it is back. */
function teller(say: (line: string) => void): (status: ShipStatus) => void {
  let state: 'new' | 'well' | 'failing' = 'new'
  return ({ failing, safeAt, place, record }) => {
    const now = failing ? 'failing' : safeAt === null ? 'new' : 'well'
    if (now === state) return
    if (failing) say(`${place} does not take it: ${failing.error}; the store goes on, and it is tried again`)
    else if (now === 'well') say(`${state === 'failing' ? 'back: ' : ''}shipping to ${place}, at record ${record}`)
    state = now
  }
}
