// Keys of every model before a receiver that honours them (G5, SPEC A6.5): an equal key always stands for an equal intent, over
// namespaces, stores, lives of an id, forks and rollbacks; an intent keeps its key over kills and restores. Bugs that are
// planted in the derivation are found.

import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { job } from '../../src/layers/job/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { added, counter } from '../support/definitions.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'

let folder = ''
const opened: Reprise[] = []
beforeEach(() => {
  folder = temporaryFolder('keys')
})
afterEach(async () => {
  await closeAll()
})

async function closeAll(): Promise<void> {
  for (const rp of opened.splice(0)) await rp.close()
}

async function openAt(name: string, namespace: string, planted: readonly string[] = []): Promise<Reprise> {
  const store = await openSqlite(join(folder, `${name}.db`), { namespace, hash: sha256 })
  const rp = createEngine({ store, namespace, planted: new Set(planted) }, { worker: 'test' })
  opened.push(rp)
  await hostOf(rp).kernel.identity.load()
  return rp
}

const pay = workflow('pay', async (ctx: WorkflowContext, { bank, intent }: { bank: string; intent: unknown }) => {
  await ctx.step('charge', ({ key }) => banks.get(bank)!.receive(key, { pay: intent }))
})
const banks = new Map<string, OutsideLedger>()

/** Charges once by each model, for an intent that is the same in all places unless `mark` makes it another. */
async function chargeAll(rp: Reprise, bank: OutsideLedger, mark: unknown): Promise<void> {
  // The input is the same: only the place distinguishes the intents.
  banks.set('bank', withMark(bank, mark))
  await (await rp.run(pay, { bank: 'bank', intent: 500 }, { id: 'x' })).result()
  const items = job('items', {
    source: ['i'],
    each: async (item: string, ctx) => {
      bank.receive(ctx.idempotencyKey, { item, mark })
      await ctx.effect('note', ({ key }) => bank.receive(key, { note: item, mark }))
    },
  })
  await (await rp.run(items)).result()
  const c = await rp.open(counter, 'x')
  // Without a declared input the history before it is part of the key: it has to come first.
  await c.effects.run('plain', ({ key }) => bank.receive(key, { plain: 500, mark }))
  await c.effects.run('charge', ({ key }) => bank.receive(key, { effect: 500, mark }), { input: { amount: 500 } })
  await c.close()
}

function withMark(bank: OutsideLedger, mark: unknown): OutsideLedger {
  return { receive: (key: string, intent: unknown) => bank.receive(key, { intent, mark }) } as OutsideLedger
}

const timelines = ['workflow/pay/x', 'job/items', 'counter/x']
const perCharge = 5

it('equal keys imply equal intents over namespaces, stores and lives; each planted bug is found', async () => {
  const play = async (...planted: string[]) => {
    const bank = new OutsideLedger()
    const name = `s${planted.join()}`
    const red = await openAt(`${name}-1`, 'red', planted)
    const blue = await openAt(`${name}-1`, 'blue', planted)
    const other = await openAt(`${name}-2`, 'red', planted)
    // As a namespace that was restored from the backup of another one before backups named the namespace.
    const { id } = await hostOf(red).kernel.identity.load()
    await hostOf(blue).kernel.identity.reincarnate({ id })
    await chargeAll(red, bank, 'red')
    await chargeAll(blue, bank, 'blue')
    await chargeAll(other, bank, 'other')
    for (const timeline of timelines) await red.delete(timeline)
    await chargeAll(red, bank, 'red again')
    await closeAll()
    return bank
  }
  const bank = await play()
  expect(bank.confused).toEqual([])
  expect(bank.done).toHaveLength(4 * perCharge)
  expect((await play('namespace-left-out')).confused).not.toEqual([])
  expect((await play('life-left-out')).confused).not.toEqual([])
})

it('a restore with effects after the backup: the same intents are dropped, others are done', async () => {
  const play = async (...planted: string[]) => {
    const bank = new OutsideLedger()
    const name = `r${planted.join()}`
    const rp = await openAt(name, 'red', planted)
    await (await rp.open(counter, 'x')).append(added(1))
    await closeAll()
    cpSync(join(folder, `${name}.db`), join(folder, `${name}-backup.db`))
    await chargeAll(await openAt(name, 'red', planted), bank, 'same')
    await closeAll()
    for (const [copy, mark] of ['same', 'same'].entries()) {
      cpSync(join(folder, `${name}-backup.db`), join(folder, `${name}-${copy}.db`))
      const restored = await openAt(`${name}-${copy}`, 'red', planted)
      await hostOf(restored).kernel.identity.reincarnate()
      await chargeAll(restored, bank, mark)
      await closeAll()
    }
    return bank
  }
  const bank = await play()
  expect(bank.calls).toHaveLength(3 * perCharge)
  expect(bank.done).toHaveLength(perCharge)
  expect(bank.confused).toEqual([])
  expect((await play('incarnation-in-key')).repeated).not.toEqual([])
})

it('an effect with another declared input at the same place has another key', async () => {
  const bank = new OutsideLedger()
  const rp = await openAt('live', 'red')
  await (await rp.open(counter, 'x')).append(added(1))
  await closeAll()
  for (const [i, intent] of [
    { charge: 'ann', amount: 500 },
    { charge: 'bob', amount: 900 },
    { charge: 'ann', amount: 500 },
  ].entries()) {
    cpSync(join(folder, 'live.db'), join(folder, `${i}.db`))
    const c = await (await openAt(String(i), 'red')).open(counter, 'x')
    expect(await c.effects.run('charge', ({ key }) => bank.receive(key, intent), { input: intent })).toEqual(intent)
  }
  expect(bank.done).toHaveLength(2)
  expect(bank.confused).toEqual([])
})

it('forks and rollbacks have keys of their own, one after the other', async () => {
  const bank = new OutsideLedger()
  const rp = await openAt('live', 'red')
  const charge = async (id: string, mark: string) => {
    const c = await rp.open(counter, id)
    await c.effects.run('charge', ({ key }) => bank.receive(key, { mark }), { input: 500 })
    await c.close()
  }
  const c = await rp.open(counter, 'x')
  await c.append(added(1))
  await c.close()
  await rp.fork({ timeline: 'counter/x', seq: 1 }, 'y')
  await charge('x', 'first')
  await charge('y', 'fork')
  for (const mark of ['second', 'third']) {
    await rp.rollback({ to: { timeline: 'counter/x', seq: 1 } })
    await charge('x', mark)
  }
  expect(bank.done).toHaveLength(4)
  expect(bank.confused).toEqual([])
})
