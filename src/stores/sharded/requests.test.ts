// Requests of applications in a set of shards: the transaction is on the first shard, and the timeline on the second. A worker is
// killed after each of its calls, between the commit on the one shard and the removal from the other.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Commit, RequestRow, Store } from '../../core/store/ports.ts'
import { marksTimeline, numberIn, shardOfRequest } from '../../core/store/shards.ts'
import { asMessage, asOperation, asTimeline, asWorker, hash, worker } from '../../testing/conformance/kit.ts'
import { openSqlite } from '../sqlite/index.ts'
import { openSharded } from './index.ts'

const timeline = asTimeline('run/a')
const noDigest = new Uint8Array(32)

let folder: string | null = null
afterEach(() => {
  if (folder !== null) rmSync(folder, { recursive: true, force: true })
  folder = null
})

class World {
  readonly #folder = mkdtempSync(join(tmpdir(), 'reprise-requests-'))
  #operations = 0
  /** How many commits on the second shard created the timeline. */
  created = 0

  constructor() {
    folder = this.#folder
  }

  member(shard: number): Promise<Store> {
    return openSqlite(join(this.#folder, `${shard}.db`), { namespace: 'default', hash })
  }

  /** A process that is killed after this many calls of its shards. */
  async process<T>(callsMax: number, work: (store: Store) => Promise<T>): Promise<T | 'killed'> {
    let left = callsMax
    const members: Store[] = []
    const killable = (target: object): object =>
      new Proxy(target, {
        get: (_, name) => {
          const value = Reflect.get(target, name, target) as unknown
          if (name === 'requests') return killable(value as object)
          if (typeof value !== 'function') return value
          if (name === 'close' || name === 'listen') return value.bind(target)
          return async (...given: readonly unknown[]) => {
            left -= 1
            if (left < 0) throw new Error('killed')
            const answer = await (value as (...given: readonly unknown[]) => unknown).apply(target, [...given])
            if (name === 'commit') this.#count(given[0] as Commit[], answer as { ok: boolean; isDuplicate: boolean }[])
            return answer
          }
        },
      })
    const sources = [0, 1].map((shard) => ({
      name: `${shard}`,
      open: async () => {
        const member = await this.member(shard)
        members.push(member)
        return killable(member) as Store
      },
    }))
    try {
      // Before the calls are counted.
      left = Number.POSITIVE_INFINITY
      const store = await openSharded(sources, { place: (id) => (id.startsWith('run/') ? 1 : 0) })
      await store.beat(worker('w'))
      left = callsMax
      return await work(store)
    } catch (error) {
      if ((error as Error).message !== 'killed') throw error
      return 'killed'
    } finally {
      for (const member of members) await member.close()
    }
  }

  #count(commits: readonly Commit[], outcomes: readonly { ok: boolean; isDuplicate: boolean }[]): void {
    for (const [i, { guard }] of commits.entries()) {
      const { ok, isDuplicate } = outcomes[i]!
      if (guard?.timeline === timeline && ok && !isDuplicate && commits[i]!.take?.create) this.created += 1
    }
  }

  async write(): Promise<void> {
    await this.process(Number.POSITIVE_INFINITY, async () => undefined)
    const first = await this.member(0)
    const row: RequestRow = {
      ...{ number: 0, group: '', verb: 'start', target: 'run', id: 'a', topic: null, data: '1', key: null },
      ...{ options: null, sentAt: 1, problem: null },
    }
    await first.requests!.fill([row])
    await first.close()
  }

  /** As a worker of the target: creates the timeline with the next life of its id, unless it exists. */
  async carryOut(store: Store): Promise<string[]> {
    const rows = await store.requests!.take({ worker: asWorker('w'), targets: ['run'], limit: 10, except: [] })
    const codes: string[] = []
    for (const { number } of rows) {
      expect(shardOfRequest(number)).toBe(0)
      const [past] = await store.past([timeline])
      const [outcome] = await store.commit([
        {
          operation: asOperation(`carry out ${++this.#operations}`),
          guard: { timeline, epoch: past!.epoch },
          take: { worker: asWorker('w'), from: 'free', create: { digest: noDigest, life: past!.life + 1 } },
          release: true,
          settles: [number],
        },
      ])
      codes.push(outcome!.ok ? 'ok' : outcome!.code)
      // The timeline exists, so there is nothing left to do.
      if (!outcome!.ok) await store.requests!.mark(number, 'removed')
    }
    return codes
  }

  async forget(): Promise<void> {
    await this.process(Number.POSITIVE_INFINITY, async (store) => {
      const [head] = await store.head([timeline])
      if (!head) return
      const { life, epoch, seq, digest } = head
      const guard = { timeline, life, epoch, seq, digest }
      const [outcome] = await store.commit([{ operation: asOperation('forget'), guard, forget: true }])
      expect(outcome).toMatchObject({ ok: true })
    })
  }

  async left(): Promise<{ requests: number; marks: number }> {
    const [first, second] = [await this.member(0), await this.member(1)]
    const requests =
      (await first.requests!.list({ limit: 10 })).length + (await second.requests!.list({ limit: 10 })).length
    const marks = (await second.inbox(marksTimeline, 10)).messages.length
    await Promise.all([first.close(), second.close()])
    return { requests, marks }
  }
}

it.each([
  ['stays', false],
  ['is deleted before the next worker takes the request', true],
])(
  'E3: a request for another shard is carried out once wherever the worker is killed, if its timeline %s',
  async (_, isForgotten) => {
    let betweens = 0
    for (let calls = 0; ; calls++) {
      const world = new World()
      await world.write()
      const isKilled = (await world.process(calls, (store) => world.carryOut(store))) === 'killed'
      const { requests } = await world.left()
      if (world.created === 1 && requests === 1) betweens += 1
      if (isForgotten) await world.forget()
      await world.process(Number.POSITIVE_INFINITY, (store) => world.carryOut(store))
      expect(world.created, `killed after call ${calls}`).toBe(1)
      expect((await world.left()).requests).toBe(0)
      if (!isKilled && requests === 0) break
    }
    expect(betweens, 'kills between the commit and the removal').toBeGreaterThan(0)
  },
)

it('E3: a mark that a killed worker left behind is removed by a later request', async () => {
  const world = new World()
  await world.write()
  await world.process(Number.POSITIVE_INFINITY, async (store) => {
    const message = { id: asMessage('request 6400'), to: marksTimeline, kind: '$done', data: new Uint8Array() }
    const second = await world.member(1)
    await second.commit([{ operation: asOperation('left'), guard: null, send: [message] }])
    await second.close()
    expect(await world.carryOut(store)).toEqual(['ok'])
  })
  expect(await world.left()).toEqual({ requests: 0, marks: 0 })
})

it('E3: numbers of a set name the shard and the row', async () => {
  const world = new World()
  await world.write()
  await world.process(Number.POSITIVE_INFINITY, async (store) => {
    const [row] = await store.requests!.list({ limit: 10 })
    expect(row).toMatchObject({ verb: 'start', group: '0 ' })
    expect(await store.requests!.list({ number: row!.number, limit: 1 })).toEqual([row])
    expect(numberIn(row!.number)).toBe(1)
    await store.requests!.mark(row!.number, { problem: 'no' })
    expect(await store.requests!.list({ hasProblem: true, limit: 10 })).toMatchObject([{ problem: 'no' }])
    await store.requests!.mark(row!.number, 'removed')
    expect(await store.requests!.list({ limit: 10 })).toEqual([])
  })
})
