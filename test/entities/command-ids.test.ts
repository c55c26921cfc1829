// Ids of the commands that process managers send: another event at the same coordinate sends another command, and the same event
// sends the same one.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { feedStart } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { progressFold } from '../../src/engine/feed/position-sink.ts'
import { aggregate, commandTo, processManager } from '../../src/layers/events/index.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Paid {
  readonly amount: number
}

const account = aggregate('account', {
  initial: () => ({ paid: 0, got: 0 }),
  decide: {
    pay: (_, { amount }: Paid) => ({ type: 'paid' as const, amount }),
    get: (_, { amount }: Paid) => ({ type: 'got' as const, amount }),
  },
  evolve: {
    paid: (state, { amount }: Paid) => ({ ...state, paid: state.paid + amount }),
    got: (state, { amount }: Paid) => ({ ...state, got: state.got + amount }),
  },
})
const transfers = processManager('transfers', {
  from: [account],
  on: { paid: ({ amount }) => commandTo(account, 'bob', 'get', { amount }) },
})
const folder = temporaryFolder('command-ids')
let files = 0
const newFile = () => join(folder, `${++files}.file`)

async function pay(rp: Reprise, amount: number): Promise<void> {
  const ann = await rp.open(account, 'ann')
  await ann.do('pay', { amount })
  await ann.close()
}

async function bobsKeys(rp: Reprise): Promise<(string | undefined)[]> {
  const keys: (string | undefined)[] = []
  const bob = await rp.open(account, 'bob')
  for await (const { key } of bob.history()) keys.push(key)
  await bob.close()
  return keys
}

/** The events of bob, and the mail that waits for him. */
async function standing(rp: Reprise): Promise<readonly [seq: number, mail: number]> {
  const head = await rp.head('events/account/bob')
  return [head?.seq ?? 0, head?.mail ?? 0]
}

async function got(rp: Reprise): Promise<number> {
  const bob = await rp.open(account, 'bob')
  const { state } = bob
  await bob.close()
  return state.got
}

onEveryStore('commands of process managers', (world) => {
  it.each([
    ['another event', 9, 16],
    ['an equal event of another moment', 7, 14],
  ])('%s at the same sequence and epoch sends a command of its own', async (_, amount, sum) => {
    const rp = await (await world()).engine()
    await pay(rp, 1)
    const early = newFile()
    await rp.export({ timeline: 'events/account/ann', seq: 1 }, early)
    rp.work([account, transfers])
    await expect.poll(() => standing(rp)).toEqual([1, 0])
    await pay(rp, 7)
    await expect.poll(() => standing(rp)).toEqual([2, 0])
    const late = newFile()
    await rp.export({ timeline: 'events/account/bob', seq: 2 }, late)
    // A restore of a part: the payer as it was, the payee as it is.
    const there = await (await world()).engine()
    await there.import(early)
    await there.import(late)
    await pay(there, amount)
    there.work([account, transfers])
    // The first payment is sent again under its own id, so it is not applied again.
    await expect.poll(() => standing(there)).toEqual([3, 0])
    expect(await got(there)).toBe(sum + 1)
  })

  it.each([
    ['is one of its own', [], 3],
    ['is taken for the first one with the planted bug', ['print-left-out'], 2],
  ] as const)('a command for another event at the same place %s', async (_, planted, applied) => {
    const engine = async () => await (await world()).engine({ ports: { planted: new Set<string>(planted) } })
    const [early, late] = [newFile(), newFile()]
    const rp = await engine()
    await pay(rp, 1)
    await rp.export({ timeline: 'events/account/ann', seq: 1 }, early)
    await pay(rp, 7)
    await (await rp.open(transfers)).catchUp()
    rp.work([account])
    await until(async () => (await standing(rp))[1] === 0)
    await rp.export({ timeline: 'events/account/bob', seq: 2 }, late)
    const there = await engine()
    for (const file of [early, late]) await there.import(file)
    await pay(there, 9)
    await (await there.open(transfers)).catchUp()
    there.work([account])
    await until(async () => (await standing(there))[1] === 0)
    expect(await standing(there)).toEqual([applied, 0])
  })

  it('are sent for an event at the place of a dead letter that a rollback undid, and the letter is not redriven', async () => {
    const rp = await (await world()).engine()
    const strict = processManager('strict', {
      from: [account],
      on: {
        paid: ({ amount }) => {
          if (amount === 13) throw new Error('unlucky')
          return commandTo(account, 'bob', 'get', { amount })
        },
      },
      poison: 'quarantine',
    })
    for (const amount of [1, 2, 13]) await pay(rp, amount)
    const manager = await rp.open(strict)
    await manager.catchUp()
    expect(await manager.deadLetters()).toMatchObject([{ timeline: 'events/account/ann', seq: 3 }])
    expect(await standing(rp)).toEqual([0, 2])
    await rp.rollback({ to: { timeline: 'events/account/ann', seq: 1 }, consumed: 'force' })
    await pay(rp, 5)
    expect((await rp.head('events/account/ann'))!.seq).toBe(3)
    await manager.catchUp()
    expect(await standing(rp)).toEqual([0, 3])
    await expect(manager.redrive()).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
  })

  it('of an earlier manager keep their ids for earlier events', async () => {
    const rp = await (await world()).engine()
    await pay(rp, 5)
    const process = await hostOf(rp).openTimeline(timelineId('process/transfers'), progressFold)
    await process.write([{ type: 'advanced', data: { position: feedStart, events: 1 } }])
    await process.close()
    // The upgrade is later than the event, by the clock.
    const paidAt = Date.now()
    await until(() => Date.now() > paidAt)
    rp.work([account, transfers])
    await expect.poll(() => standing(rp)).toEqual([1, 0])
    expect(await bobsKeys(rp)).toEqual([expect.stringMatching(/^mail:transfers:events\/account\/ann@1\.1#0$/)])
    await pay(rp, 6)
    await expect.poll(() => standing(rp)).toEqual([2, 0])
    expect((await bobsKeys(rp))[1]).toMatch(/^mail:transfers:events\/account\/ann@2\.\d+\.[0-9a-f]{24}#0$/)
  })
})
