// Shards that go away and return, lost answers and dying processes, by seeded chance: messages arrive once and in
// order, and a reader of the feed misses nothing and sees nothing twice.

import { describe, expect, it } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import { toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { originDigest, packEntries, unpackEntries } from '../../core/history/entry-run.ts'
import {
  type ClaimRequest,
  type Commit,
  feedStart,
  type Head,
  type Outcome,
  type Store,
} from '../../core/store/ports.ts'
import { shardOf } from '../../core/store/shards.ts'
import { forwardStore } from '../../core/store/store-wrapper.ts'
import {
  asMessage,
  asOperation,
  asTimeline,
  asWorker,
  hash,
  message,
  utf8,
  worker,
} from '../../testing/conformance/kit.ts'
import { createWorld, openMemory } from '../memory/index.ts'
import { openSharded } from './index.ts'

const shards = [0, 1, 2]
const ids = Array.from({ length: 8 }, (_, i) => asTimeline(`t/${i}`))
const steps = 250
const seeds = Number(process.env.REPRISE_TEST_SHARD_SEEDS ?? 12)

/** Time passes as soon as there is nothing else to do. */
const timers = {
  elapsed: () => performance.now(),
  after(_ms: number, call: () => void) {
    const waiting = setImmediate(call)
    return () => clearImmediate(waiting)
  },
}

describe('shards with faults', () => {
  it('spreads the ids of this test over all shards', () => {
    expect(new Set(ids.map((id) => shardOf(id, 3))).size).toBe(3)
  })

  it('a claim that one shard did not answer is found by its owner, and the others are answered', async () => {
    const worlds = shards.map(() => createWorld())
    let isSilent = false
    const sources = worlds.map((world, i) => ({
      name: `memory ${i}`,
      open: async () => {
        const store = openMemory({ namespace: 'n', hash, world })
        const claim = async (request: ClaimRequest) => {
          const heads = await store.claim(request)
          if (isSilent && i === 1) throw new RepriseError('STORE_UNREACHABLE', 'the answer is lost')
          return heads
        }
        return forwardStore(store, { claim })
      },
    }))
    const store = await openSharded(sources, { timers })
    await store.beat(worker('w'))
    for (const id of ids) {
      const take = { worker: asWorker('x'), from: 'free' as const, create: { digest: originDigest(hash, id) } }
      const made = { take, release: true, queue: 'q', wakeup: 1 }
      await store.commit([{ operation: asOperation(`make ${id}`), guard: { timeline: id, epoch: 0 }, ...made }])
    }
    isSilent = true
    const request = { worker: asWorker('w'), queues: ['q'], limit: 100 }
    const given = (await store.claim(request)).map(({ timeline }) => timeline)
    const silent = ids.filter((id) => shardOf(id, 3) === 1)
    expect(given.sort()).toEqual(ids.filter((id) => !silent.includes(id)))
    await turns(20)
    expect(store.shards?.hasLostClaims()).toBe(true)
    const own = await store.timelines({ owner: asWorker('w'), queue: 'q', limit: 100 })
    expect(own.map(({ timeline }) => timeline)).toEqual(ids)
    expect(store.shards?.hasLostClaims()).toBe(false)
  })

  for (let seed = 1; seed <= seeds; seed++) {
    it(`delivers once and in order, and its feed has no gap and no repeat, seed ${seed}`, async () => {
      const world = new World(seed)
      await world.play()
      await world.check()
    })
  }
})

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

class World {
  readonly #worlds = shards.map(() => createWorld())
  readonly #away = new Set<number>()
  readonly #seen: { timeline: string; first: number; digest: string }[] = []
  #position = feedStart
  readonly #chance: () => number
  #isCalm = true
  #operations = 0
  #processes: Store[] = []
  #held = new WeakMap<Store, Map<string, Head>>()

  constructor(seed: number) {
    this.#chance = seeded(seed * 7919)
  }

  async play(): Promise<void> {
    for (let i = 0; i < 2; i++) this.#processes.push(await this.#start())
    this.#isCalm = false
    for (let step = 0; step < steps; step++) {
      // Shards that are back are found in between.
      await turns(1)
      const dice = this.#chance()
      const process = this.#pick(this.#processes)
      if (dice < 0.04) this.#toggle()
      else if (dice < 0.07) await this.#replace(process)
      else if (dice < 0.2) await this.#follow(process)
      else if (dice < 0.25) await this.#quietly(() => process.beat(worker('w')))
      else if (dice < 0.5) await this.#receive(process, this.#pick(ids))
      else await this.#send(process, this.#pick(ids))
    }
    this.#away.clear()
    this.#isCalm = true
  }

  async check(): Promise<void> {
    const store = await this.#start()
    await turns(20)
    await store.beat(worker('w'))
    for (let i = 0; i < 20; i++) await store.upkeep.tidy(0)
    const sent: string[] = []
    const got: string[] = []
    const runs: string[] = []
    for (const id of ids) {
      for (const run of await store.read(id, 0, 1e9)) {
        runs.push(`${id} ${run.first} ${toHex(run.digest)}`)
        for (const entry of unpackEntries(run)) {
          const [what, mail] = new TextDecoder().decode(entry.data).split(' ')
          if (what === 'sent') sent.push(mail!)
          else got.push(`${id}<${mail!.split('<')[1]}`)
        }
      }
      for (const { id: mail } of (await store.inbox(id, 1e6)).messages) got.push(mail)
    }
    expect([...got].sort()).toEqual([...sent].sort())
    expect(sent.length).toBeGreaterThan(20)
    this.#checkOrder(got)
    for (let isEnd = false; !isEnd; ) isEnd = await this.#follow(store)
    const followed = this.#seen.map(({ timeline, first, digest }) => `${timeline} ${first} ${digest}`)
    expect([...followed].sort()).toEqual(runs.sort())
    for (const id of ids) {
      const firsts = this.#seen.filter(({ timeline }) => timeline === id).map(({ first }) => first)
      expect(firsts).toEqual([...firsts].sort((a, b) => a - b))
    }
  }

  /** Message ids are receiver<sender.number. */
  #checkOrder(got: readonly string[]): void {
    const last = new Map<string, number>()
    for (const mail of got) {
      const [pair, number] = mail.split('.') as [string, string]
      expect(Number(number), `${mail} in order`).toBeGreaterThan(last.get(pair) ?? 0)
      last.set(pair, Number(number))
    }
  }

  async #send(store: Store, from: Head['timeline']): Promise<void> {
    const to = this.#pick(ids.filter((id) => id !== from))
    const head = await this.#hold(store, from)
    if (!head) return
    const mail = `${to}<${from}.${head.seq + 1}`
    await this.#append(store, head, `sent ${mail}`, { send: [message(to, mail)] })
  }

  async #receive(store: Store, id: Head['timeline']): Promise<void> {
    const head = await this.#hold(store, id)
    if (!head) return
    const inbox = await this.#quietly(() => store.inbox(id, 1))
    const mail = inbox?.messages[0]?.id
    if (mail !== undefined) await this.#append(store, head, `got ${mail}`, { consume: [asMessage(mail)] })
  }

  /** Takes it unless this process believes that it owns it. */
  async #hold(store: Store, id: Head['timeline']): Promise<Head | null> {
    const held = this.#held.get(store)!
    const known = held.get(id)
    if (known && this.#chance() < 0.8) return known
    const found = await this.#quietly(() => store.head([id]))
    if (!found) return null
    const [head] = found
    const digest = head?.digest ?? originDigest(hash, id)
    const take = { worker: asWorker('w'), from: 'anyone' as const, create: { digest } }
    const commit: Commit = { operation: this.#operation(), guard: { timeline: id, epoch: head?.epoch ?? 0 }, take }
    const outcome = await this.#insist(store, commit)
    if (!outcome?.ok) return null
    const [taken] = (await this.#quietly(() => store.head([id]))) ?? []
    if (!taken || taken.epoch !== outcome.epoch) return null
    held.set(id, taken)
    return taken
  }

  async #append(store: Store, head: Head, text: string, extras: Partial<Commit>): Promise<void> {
    const { timeline, seq, digest, epoch } = head
    const draft = { type: 'noted', version: 1, time: 1, data: utf8(text) }
    const run = packEntries(hash, { before: digest, first: seq + 1, epoch }, [draft])
    const guard = { timeline, epoch, seq, digest }
    const outcome = await this.#insist(store, { operation: this.#operation(), guard, run, ...extras })
    const held = this.#held.get(store)!
    if (outcome?.ok) held.set(timeline, { ...head, seq: seq + 1, digest: run.digest })
    else held.delete(timeline)
  }

  /** As the committer does: the same operation until there is an answer, for a while. */
  async #insist(store: Store, commit: Commit): Promise<Outcome | null> {
    for (let attempt = 0; attempt < 6; attempt++) {
      const outcomes = await this.#quietly(async () => await store.commit([commit]))
      if (outcomes) return outcomes[0]!
    }
    return null
  }

  async #follow(store: Store): Promise<boolean> {
    const page = await this.#quietly(() => store.feed(this.#position, {}, 1 + Math.floor(this.#chance() * 5)))
    if (!page) return false
    for (const { timeline, run } of page.items)
      this.#seen.push({ timeline, first: run.first, digest: toHex(run.digest) })
    expect(page.next >= this.#position).toBe(true)
    this.#position = page.next
    return page.isEnd
  }

  /** A process dies with all its work, and another starts. */
  async #replace(store: Store): Promise<void> {
    const started = await this.#quietly(() => this.#start())
    if (started) this.#processes = [...this.#processes.filter((each) => each !== store), started]
  }

  #toggle(): void {
    const shard = this.#pick(shards)
    if (!this.#away.delete(shard)) this.#away.add(shard)
  }

  async #start(): Promise<Store> {
    const sources = this.#worlds.map((world, i) => ({
      name: `memory ${i}`,
      open: async () => this.#faulty(i, openMemory({ namespace: 'n', hash, world })),
    }))
    const store = await openSharded(sources, { timers })
    this.#held.set(store, new Map())
    return store
  }

  /** A request may not arrive, and its answer may be lost. */
  #faulty(shard: number, store: Store): Store {
    const unreachable = () => new RepriseError('STORE_UNREACHABLE', `nobody answers at ${shard}`)
    return new Proxy(store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown
        if (typeof value !== 'function' || name === 'close' || name === 'listen') return value
        return async (...given: readonly unknown[]) => {
          if (this.#away.has(shard) || (!this.#isCalm && this.#chance() < 0.03)) throw unreachable()
          const answer = await (value as (...given: readonly unknown[]) => unknown).apply(target, given as never)
          if (!this.#isCalm && this.#chance() < 0.03) throw unreachable()
          return answer
        }
      },
    })
  }

  async #quietly<T>(call: () => Promise<T>): Promise<T | null> {
    try {
      return await call()
    } catch (error) {
      if (isReprise(error, 'STORE_UNREACHABLE', 'SHARD_AWAY')) return null
      throw error
    }
  }

  #operation() {
    this.#operations += 1
    return asOperation(`operation ${this.#operations}`)
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.#chance() * items.length)]!
  }
}
