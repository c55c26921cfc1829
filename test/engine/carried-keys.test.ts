// Mail with a key has no effect a second time, also after its receiver was restored, moved or imported: for every model that
// reads mail, between SQLite and PostgreSQL.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { agent, sendDecision, tool } from '../../src/layers/agent/index.ts'
import { aggregate, commandTo, sendCommand } from '../../src/layers/events/index.ts'
import { job, redriveLetters } from '../../src/layers/job/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { declareAll } from '../../src/operations/known-models.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { storeUrls } from '../support/store-urls.ts'

const folder = temporaryFolder('carried-keys')

interface World {
  readonly id: string
  readonly definitions: readonly unknown[]
  /** Sends mail with a key, which is read. */
  before(rp: Reprise): Promise<unknown>
  /** Sends the same mail again, and returns its effects, and those of new mail. */
  again(rp: Reprise): Promise<unknown>
  readonly expected: unknown
}

const collects = workflow('collects', async (ctx) => {
  const taken: string[] = []
  ctx.onUpdate('add', (item: string) => taken.push(item))
  while (taken.at(-1) !== 'end') taken.push(await ctx.signal<string>('next'))
  return taken
})
const oneOf = (rp: Reprise) => workflows(rp).of(collects).get('one')

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})
const deposit = (rp: Reprise, amount: number, key: string) =>
  sendCommand(rp, commandTo(account, 'ann', 'deposit', { amount }), { key })

const worlds: Record<string, () => World> = {
  'a signal to a run': () => ({
    id: 'workflow/collects/one',
    definitions: [collects],
    async before(rp) {
      const run = await rp.run(collects, { id: 'one' })
      await run.signal('next', 'a', { key: 'key-a' })
      await until(async () => (await rp.head(this.id))!.mail === 0)
    },
    async again(rp) {
      for (const value of ['a', 'b', 'end']) await oneOf(rp).signal('next', value, { key: `key-${value}` })
      rp.work([collects])
      return await oneOf(rp).result({ timeout: '2m' })
    },
    expected: ['a', 'b', 'end'],
  }),
  'an update of a run': () => ({
    id: 'workflow/collects/one',
    definitions: [collects],
    async before(rp) {
      const run = await rp.run(collects, { id: 'one' })
      expect(await run.update('add', 'a', { key: 'key-a' })).toBe(1)
    },
    async again(rp) {
      rp.work([collects])
      const answers = [await oneOf(rp).update('add', 'a', { key: 'key-a' }), await oneOf(rp).update('add', 'b')]
      await oneOf(rp).signal('next', 'end')
      return [answers, await oneOf(rp).result({ timeout: '2m' })]
    },
    expected: [
      [1, 2],
      ['a', 'b', 'end'],
    ],
  }),
  'a command to an aggregate': () => ({
    id: 'events/account/ann',
    definitions: [account],
    async before(rp) {
      rp.work([account])
      await deposit(rp, 5, 'key-5')
      await until(async () => (await rp.head(this.id))?.seq === 1)
    },
    async again(rp) {
      await deposit(rp, 5, 'key-5')
      await deposit(rp, 1, 'key-1')
      rp.work([account])
      await until(async () => (await rp.head(this.id))!.seq > 1 && (await rp.head(this.id))!.mail === 0)
      return (await rp.open(account, 'ann')).state.balance
    },
    expected: 6,
  }),
  'a redrive of a job': () => {
    const attempts: string[] = []
    const fails = job('fails', {
      source: ['x'],
      key: (item) => item,
      retry: { attempts: 1 },
      each: (item) => {
        attempts.push(item)
        throw new Error('not yet')
      },
    })
    const redrive = async (rp: Reprise, key: string) => {
      await redriveLetters(rp, 'job/fails', ['x'], {}, key)
      await (await rp.run(fails)).result()
      return attempts.length
    }
    return {
      id: 'job/fails',
      definitions: [fails],
      async before(rp) {
        await (await rp.run(fails)).result()
        expect(await redrive(rp, 'first')).toBe(2)
      },
      again: async (rp) => [await redrive(rp, 'first'), await redrive(rp, 'second')],
      expected: [2, 3],
    }
  },
  "an approval of an agent's tool": () => {
    const paid: number[] = []
    const pay = tool({ kind: 'irreversible', approve: true, run: ({ cents }: { cents: number }) => paid.push(cents) })
    const asks = [1, 2]
    const payer = agent('payer', {
      tools: { pay },
      model: async () => {
        const cents = asks.shift()
        return cents ? { content: '', requests: [{ tool: 'pay', args: { cents } }] } : { content: 'done' }
      },
    })
    const approve = async (rp: Reprise, key: string) => {
      await sendDecision(rp, 'agent/payer/s', { verdict: 'approve', by: 'ann' }, key)
      await (await rp.open(payer, 's')).resume()
      return [...paid]
    }
    return {
      id: 'agent/payer/s',
      definitions: [payer],
      async before(rp) {
        await (await rp.open(payer, 's')).turn('pay')
        expect(await approve(rp, 'first')).toEqual([1])
      },
      again: async (rp) => [await approve(rp, 'first'), await approve(rp, 'second')],
      expected: [[1], [1, 2]],
    }
  },
}

const routes: Record<string, (from: Reprise, to: Reprise, id: string, file: string) => Promise<unknown>> = {
  async restored(from, to, _id, file) {
    await from.backup(file)
    await to.restore(file)
  },
  moved: (from, to, id) => from.move(id, to),
  async 'exported and imported'(from, to, id, file) {
    await from.export({ timeline: id, seq: (await from.head(id))!.seq }, file)
    await to.import(file)
  },
}

let files = 0
const kinds = Object.keys(storeUrls)
const places = Object.keys(routes).map((route, i) => [route, kinds[i % 2]!, kinds[(i + 1) % 2]!] as const)

describe.each(Object.keys(worlds))('A6.5: the key of %s', (name) => {
  it.each(places)('that was %s is known there (from %s to %s)', async (route, kind, other) => {
    const [one, two] = [storeUrls[kind]!(), storeUrls[other]!()]
    const world = worlds[name]!()
    const first = await open(one.url)
    await world.before(first)
    await first.close()
    const [source, target] = [await open(one.url), await open(two.url)]
    for (const rp of [source, target]) declareAll(rp, world.definitions as never)
    await routes[route]!(source, target, world.id, join(folder, `${files++}`))
    expect(await world.again(target)).toEqual(world.expected)
    expect((await target.verify()).faults).toEqual([])
    await source.close()
    await target.close()
    await Promise.all([one.remove(), two.remove()])
  })
})

it.each(kinds)(
  'A6.5: mail with one key to both places of a moved run counts once after its return (%s)',
  async (kind) => {
    const [one, two] = [storeUrls[kind]!(), storeUrls[kinds.find((each) => each !== kind)!]!()]
    const [source, target] = [await open(one.url), await open(two.url)]
    for (const rp of [source, target]) declareAll(rp, [collects])
    const id = 'workflow/collects/one'
    const send = (rp: Reprise, value: string) => rp.send(id, 'signal', { name: 'next', value }, { key: `key-${value}` })
    await (await source.run(collects, { id: 'one', here: false })).started()
    // More of them than one frame of the file holds. One is carried unread, one is sent to the old place only.
    const many = Array.from({ length: 600 }, (_, n) => `n${n}`)
    await Promise.all(many.map((value) => send(source, value)))
    await source.move(id, target)
    for (const value of ['twice', 'late']) await send(source, value)
    await send(target, 'twice')
    const worker = await open(two.url)
    worker.work([collects])
    await until(async () => (await target.head(id))!.mail === 0)
    await worker.close()
    await send(target, 'there')
    await target.move(id, source)
    expect((await source.head(id))!.mail).toBe(2)
    for (const value of [many[0]!, 'twice', 'late', 'there', 'end']) await send(source, value)
    source.work([collects])
    const taken = await oneOf(source).result({ timeout: '2m' })
    expect(taken.slice(600)).toEqual(['twice', 'late', 'there', 'end'])
    expect(taken.slice(0, 600).sort()).toEqual(many.sort())
    await source.close()
    await target.close()
    await Promise.all([one.remove(), two.remove()])
  },
)
