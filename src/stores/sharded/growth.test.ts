// A shard is added during normal work, and its mover is killed at random moments: seeded chance decides what other
// processes do between any two calls of the mover. The same is done to a plain store, and at the end both must have the
// same timelines, histories, catalogs, mail and feed.

import { describe, expect, it } from 'vitest'
import { pause } from '../../../test/support/fixture.ts'
import { seeded } from '../../../test/support/seeded.ts'
import { toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import { archiveOf } from '../../core/history/scope.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import {
  type Commit,
  type FeedPosition,
  feedStart,
  type Head,
  type ManifestRecord,
  type Outcome,
  type Store,
} from '../../core/store/ports.ts'
import { type Grown, type GrowProgress, isHidden } from '../../core/store/shards.ts'
import {
  asManifest,
  asMessage,
  asOperation,
  asTimeline,
  asWorker,
  hash,
  message,
  utf8,
  wholeFeed,
  worker,
} from '../../testing/conformance/kit.ts'
import { createWorld, openMemory } from '../memory/index.ts'
import { openSharded, type ShardSource } from './index.ts'

const seeds = Number(process.env.REPRISE_TEST_GROWTH_SEEDS ?? 4)
const only = process.env.REPRISE_TEST_GROWTH_SEED
const roots = Array.from({ length: 10 }, (_, i) => `t/${i}`)

describe('a set that grows', () => {
  // Seed 7: a copy whose original was deleted before the move ended kept its parent from being forgotten.
  const all = new Set([...Array.from({ length: seeds }, (_, i) => i + 1), 7])
  for (const seed of only ? [Number(only)] : all) {
    it(`continues like one store, seed ${seed} (REPRISE_TEST_GROWTH_SEED=${seed})`, async () => {
      const world = new World(seed)
      await world.play()
      await world.check()
    })
  }
})

interface Reader {
  position: FeedPosition
  /** Digests identify runs, whatever timeline they belong to by now. */
  readonly seen: string[]
}

class World {
  readonly #worlds = [0, 1, 2, 3].map(() => createWorld())
  readonly #model = openMemory({ namespace: 'n', hash })
  readonly #readers: Reader[] = []
  #messages: { to: string; id: string }[] = []
  readonly #chance: () => number
  #operations = 0
  #stores: Store[] = []
  /** Calls of the mover until it is killed. Null: there is no mover. */
  #callsLeft: number | null = null
  #forks = 0

  constructor(seed: number) {
    this.#chance = seeded(seed * 7919)
  }

  async play(): Promise<void> {
    for (let i = 0; i < 2; i++) this.#stores.push(await this.#open(3))
    for (let i = 0; i < 40; i++) await this.#act()
    const [store] = this.#stores
    // A process with only the three: it must be gone before anything moves.
    await store!.beat(worker('old'))
    await this.#killedMovers(3, 2)
    const abort = new AbortController()
    const progress = await new Promise((resolve) => {
      void this.#open(3).then((one) => this.#move(one, 0, abort.signal, resolve).catch(() => undefined))
    })
    expect(progress).toMatchObject({
      stage: 'waiting',
      waitsFor: expect.arrayContaining([expect.objectContaining({ id: 'old' })]),
    })
    abort.abort()
    await pause(600)
    await store!.retire([asWorker('old'), asWorker(`mover ${this.#movers}`)])
    this.#stores = [await this.#open(4), await this.#open(4)]
    for (const id of ['claimer', 'courier']) await this.#stores[0]!.beat(worker(id))
    await this.#killedMovers(4, 12)
    this.#callsLeft = null
    await this.#move(await this.#open(4), 0)
    for (let i = 0; i < 40; i++) await this.#act()
  }

  async #killedMovers(count: number, times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      this.#callsLeft = 1 + Math.floor(this.#chance() * this.#chance() * 600)
      const mover = await this.#openQuietly(count)
      if (!mover) continue
      const wait = this.#chance() < 0.5 ? 0 : 1e9
      const abort = new AbortController()
      const timer = setTimeout(() => abort.abort(new Error('killed')), 300)
      await this.#move(mover, wait, abort.signal).catch((error) => {
        if (!/killed/.test(String(error))) throw error
      })
      clearTimeout(timer)
      // It is dead: its lease expires.
      this.#callsLeft = null
      await this.#inTurn(() => this.#checkReadOnly(count))
      for (const store of this.#stores) await store.retire([asWorker(`mover ${this.#movers}`)])
      for (let n = 0; n < 5; n++) await this.#act()
    }
  }

  #movers = 0

  async #move(
    store: Store,
    waitMs: number,
    signal?: AbortSignal,
    onProgress?: (progress: GrowProgress) => void,
  ): Promise<Grown> {
    this.#movers += 1
    const id = `mover ${this.#movers}`
    await store.beat(worker(id))
    return await store.shards!.grow({ url: '3', worker: asWorker(id), waitMs, signal, onProgress })
  }

  async #openQuietly(count: number): Promise<Store | null> {
    return await this.#open(count, true).catch((error) => {
      if (!/killed/.test(String(error))) throw error
      return null
    })
  }

  async #open(count: number, isMover = false, readOnly = false): Promise<Store> {
    const source = (i: number): ShardSource => ({
      name: `memory ${i}`,
      open: async () => {
        const store = openMemory({ namespace: 'n', hash, world: this.#worlds[i]!, readOnly })
        return isMover ? this.#interrupted(store) : store
      },
    })
    const sources = Array.from({ length: count }, (_, i) => source(i))
    return await openSharded(sources, { openAnother: (url) => source(Number(url)), readOnly })
  }

  /** Other processes act before each of its calls, until it is killed. */
  #interrupted(store: Store): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown
        if (typeof value !== 'function') return value
        if (name === 'close' || name === 'listen') return value.bind(target)
        return async (...given: readonly unknown[]) => {
          if (this.#callsLeft === null || this.#callsLeft <= 0) throw new RepriseError('BUG', 'killed')
          this.#callsLeft -= 1
          if (this.#chance() < 0.3) await this.#act()
          const isLost = this.#callsLeft === 0 && this.#chance() < 0.5
          const answer = await (value as (...given: readonly unknown[]) => unknown).apply(target, given as never)
          if (isLost) throw new RepriseError('BUG', 'killed')
          return answer
        }
      },
    })
  }

  /** One random action, in both stores; one after another. */
  async #act(): Promise<void> {
    await this.#inTurn(() => this.#actNow())
  }

  async #inTurn(call: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(call)
    this.#turn = turn.catch(() => undefined)
    await turn
  }

  #turn: Promise<unknown> = Promise.resolve()

  async #actNow(): Promise<void> {
    const store = this.#pick(this.#stores)
    const id = this.#pick(await this.#ids())
    const dice = this.#chance()
    if (dice < 0.3) await this.#append(store, id, {})
    else if (dice < 0.45) await this.#send(store, id)
    else if (dice < 0.6) await this.#receive(store, id)
    else if (dice < 0.65) await this.#fork(store, id)
    else if (dice < 0.7) await this.#rollback(store, id)
    else if (dice < 0.75) await this.#publish(store, id)
    else if (dice < 0.78) await this.#trim(store, id)
    else if (dice < 0.81) await this.#forget(store, id)
    else if (dice < 0.86) await this.#claim(store)
    else if (dice < 0.9) await this.#resend(store)
    else if (dice < 0.97) await this.#read(store)
    else await this.#list(store)
  }

  async #ids(): Promise<string[]> {
    const there = await this.#model.timelines({ prefix: 't/', limit: 1000 })
    return [...roots, ...there.map(({ timeline }) => timeline)]
  }

  /** By a guest, in both stores: both must accept it, or refuse it for the same reason. */
  async #both(
    store: Store,
    id: string,
    make: (head: Head | null) => Partial<Commit> | null,
    attempts = 0,
  ): Promise<boolean> {
    const timeline = asTimeline(id)
    const answers: unknown[] = []
    for (const each of [store, this.#model]) {
      const [head] = await each.head([timeline])
      const extras = make(head ?? null)
      if (!extras) return false
      const digest = head?.digest ?? originDigest(hash, timeline)
      const take = { worker: asWorker('w'), from: 'anyone' as const, create: { digest } }
      const seq = extras.run || extras.branch ? { seq: head?.seq ?? 0, digest } : {}
      const { epoch } = head ?? (await each.past([timeline]))[0]!
      const guard = {
        timeline,
        epoch,
        ...seq,
        ...(extras.forget && (head ? guardOf(head) : { life: 1, seq: 0, digest })),
      }
      const base = extras.forget ? {} : { take, release: true }
      const commit: Commit = { operation: this.#operation(), guard, ...base, ...extras }
      // A fork of it, or itself as a fork, is in transit: not now.
      const outcome = await notNow(async () => (await each.commit([commit]))[0]!)
      if (!outcome || (!outcome.ok && /has not moved yet/.test(outcome.reason))) return false
      // The mover took it between the two: a fenced writer reads again.
      if (!outcome.ok && outcome.code === 'FENCED' && attempts < 5)
        return await this.#both(store, id, make, attempts + 1)
      answers.push(outcome.ok ? 'ok' : outcome.code)
    }
    expect(answers[0], `${id}: ${Object.keys(make(null) ?? {})}`).toBe(answers[1])
    return answers[0] === 'ok'
  }

  async #append(store: Store, id: string, extras: Partial<Commit>): Promise<boolean> {
    const text = `entry ${this.#operation()}`
    const isDue = this.#chance() < 0.3
    const fields = isDue ? { queue: 'q', wakeup: 1, status: 'due', attributes: { last: text } } : {}
    return await this.#both(store, id, (head) => {
      const timeline = asTimeline(id)
      const at = { before: head?.digest ?? originDigest(hash, timeline), first: (head?.seq ?? 0) + 1, epoch: 1 }
      const run = packEntries(hash, at, [{ type: 'noted', version: 1, time: 1, data: utf8(text) }])
      return { run, ...fields, ...extras }
    })
  }

  async #send(store: Store, id: string): Promise<void> {
    const to = this.#pick(roots)
    const mail = `mail ${this.#operation()}`
    if (await this.#append(store, id, { send: [message(to, mail)] })) this.#messages.push({ to, id: mail })
  }

  async #resend(store: Store): Promise<void> {
    if (this.#messages.length === 0) return
    const { to, id } = this.#pick(this.#messages)
    for (const each of [store, this.#model]) {
      await each.commit([{ operation: this.#operation(), guard: null, send: [message(to, id)] }])
    }
  }

  async #receive(store: Store, id: string): Promise<void> {
    await this.#arrived(store, id)
    const { messages } = await this.#model.inbox(asTimeline(id), 1)
    const [first] = messages
    if (first && (await this.#model.head([asTimeline(id)]))[0])
      await this.#append(store, id, { consume: [asMessage(first.id)] })
  }

  /** A claim handles signposts. */
  async #arrived(store: Store, id: string): Promise<void> {
    await store.beat(worker('courier'))
    for (let i = 0; i < 50; i++) {
      const want = (await this.#model.inbox(asTimeline(id), 1000)).messages.length
      const have = (await store.inbox(asTimeline(id), 1000)).messages.length
      if (have === want) return
      await store.claim({ worker: asWorker('courier'), queues: ['none'], limit: 100 })
      await pause(1)
    }
  }

  async #fork(store: Store, id: string): Promise<void> {
    const [head] = await this.#model.head([asTimeline(id)])
    if (!head || head.seq === 0) return
    this.#forks += 1
    const to = `t/fork ${this.#forks}`
    const base = { timeline: head.timeline, seq: head.seq, digest: head.digest }
    await this.#both(store, to, () => {
      const take = { worker: asWorker('w'), from: 'anyone' as const, create: { digest: base.digest, base } }
      return { take }
    })
  }

  async #rollback(store: Store, id: string): Promise<void> {
    const [head] = await this.#model.head([asTimeline(id)])
    if (!head || head.status === 'archived' || head.seq === head.floor) return
    const runs = await this.#model.read(head.timeline, head.floor, 1e9)
    if (runs.length === 0) return
    const run = this.#pick(runs)
    const archives = await this.#model.timelines({ prefix: id, limit: 1000 })
    const archive = asTimeline(archiveOf(id, archives.length + 1))
    const floor = { seq: head.floor, digest: head.floorDigest }
    await this.#both(store, id, () => {
      return { branch: { archive, seq: run.first + run.count - 1, digest: run.digest, floor } }
    })
  }

  async #publish(store: Store, id: string): Promise<void> {
    const [head] = await this.#model.head([asTimeline(id)])
    if (!head || head.seq === 0) return
    const body = utf8('body')
    const record: ManifestRecord = {
      id: asManifest(`checkpoint ${this.#operation()}`),
      seq: head.seq,
      epoch: 1,
      digest: head.digest,
      body,
      bodyDigest: hash(body),
      baseId: null,
      createdAt: 1,
      trigger: 'count',
      label: null,
      isPinned: this.#chance() < 0.2,
      foldVersion: '1',
      totalBytes: 10,
      addedBytes: 10,
      verifiedAt: 1,
      invalid: null,
      drilledAt: null,
      drill: null,
    }
    await this.#both(store, id, () => ({ publish: [record] }))
  }

  async #trim(store: Store, id: string): Promise<void> {
    const [head] = await this.#model.head([asTimeline(id)])
    const [newest] = head ? await this.#model.checkpoints(head.timeline) : []
    if (!newest || newest.seq <= head!.floor) return
    const trim = { seq: newest.seq, digest: newest.digest, restsOn: [asManifest(newest.id)] }
    await this.#both(store, id, () => ({ trim }))
  }

  async #forget(store: Store, id: string): Promise<void> {
    await this.#arrived(store, id)
    const erases = this.#chance() < 0.3
    await this.#both(store, id, () => ({ forget: erases ? 'erase' : true }))
    // The ids of its mail are known on the shard that it left for longer than elsewhere.
    this.#messages = this.#messages.filter(({ to }) => to !== id)
  }

  async #claim(store: Store): Promise<void> {
    await store.beat(worker('claimer'))
    const heads = await store.claim({ worker: asWorker('claimer'), queues: ['q'], limit: 2 })
    for (const head of heads) {
      const [same] = await this.#model.head([head.timeline])
      expect(same?.queue).toBe('q')
      const commit = { wakeup: null, queue: null, status: 'done', release: true }
      const guard = { timeline: head.timeline, epoch: head.epoch }
      const [outcome] = await store.commit([{ operation: this.#operation(), guard, ...commit }])
      expect(outcome!.ok).toBe(true)
      const own = { timeline: head.timeline, epoch: same!.epoch }
      await this.#model.commit([{ operation: this.#operation(), guard: own, ...commit }])
    }
  }

  async #read(store: Store): Promise<void> {
    if (this.#readers.length < 4 && this.#chance() < 0.2) this.#readers.push({ position: feedStart, seen: [] })
    if (this.#readers.length === 0) return
    const reader = this.#pick(this.#readers)
    const page = await store.feed(reader.position, {}, 1 + Math.floor(this.#chance() * 6))
    for (const { run } of page.items) reader.seen.push(toHex(run.digest))
    expect(page.next >= reader.position).toBe(true)
    reader.position = page.next
  }

  async #list(store: Store): Promise<void> {
    const query = { prefix: 't/', limit: 1000 }
    const [have, want] = [await store.timelines(query), await this.#model.timelines(query)]
    expect(have.map(essence)).toEqual(want.map(essence))
  }

  /** A read-only store cannot finish the work of a killed mover, and finds every timeline through the signposts. */
  async #checkReadOnly(count: number): Promise<void> {
    const store = await this.#open(count, false, true)
    await this.#list(store)
    for (const status of ['due', 'done']) {
      const query = { prefix: 't/', status, limit: 1000 }
      expect((await store.timelines(query)).map(essence)).toEqual((await this.#model.timelines(query)).map(essence))
    }
    await this.#sameHistories(store)
    await this.#sameFeed(store)
    await store.close()
  }

  async #sameHistories(store: Store): Promise<void> {
    for (const { timeline } of await this.#model.timelines({ limit: 1000 })) {
      const [head] = await store.head([timeline])
      const [want] = await this.#model.head([timeline])
      expect(head && essence(head)).toEqual(essence(want!))
      const runs = async (each: Store) =>
        (await each.read(timeline, 0, 1e9)).map((run) => [run.first, toHex(run.digest)])
      expect(await runs(store), timeline).toEqual(await runs(this.#model))
      const lines = async (each: Store) =>
        (await each.checkpoints(timeline)).map((one) => [one.id, one.seq, one.isPinned])
      expect(await lines(store), timeline).toEqual(await lines(this.#model))
    }
  }

  async #sameFeed(store: Store): Promise<void> {
    const [have, want] = [await wholeFeed(store, undefined, 7), await wholeFeed(this.#model)]
    expect(have.map(feedText).sort()).toEqual(want.map(feedText).sort())
    inOrder(have.map(({ timeline, run }) => [timeline, run.first]))
  }

  async check(): Promise<void> {
    const store = await this.#open(4)
    const there = await openMemory({ namespace: 'n', hash, world: this.#worlds[3]! }).timelines({ limit: 1000 })
    expect(there.filter((head) => !isHidden(head)).length, 'families have moved').toBeGreaterThan(0)
    const heads = await this.#model.timelines({ limit: 1000 })
    for (const { timeline } of heads) {
      await this.#arrived(store, timeline)
      const [head] = await store.head([timeline])
      const [want] = await this.#model.head([timeline])
      expect(head?.mail).toBe(want!.mail)
      const mail = async (each: Store) => (await each.inbox(timeline, 1000)).messages.map(({ id }) => id).sort()
      expect(await mail(store), timeline).toEqual(await mail(this.#model))
    }
    await this.#sameHistories(store)
    await this.#list(store)
    await this.#sameFeed(store)
    const want = await wholeFeed(this.#model)
    for (const reader of this.#readers) {
      for (let isEnd = false; !isEnd; ) {
        const page = await store.feed(reader.position, {}, 5)
        for (const { run } of page.items) reader.seen.push(toHex(run.digest))
        reader.position = page.next
        isEnd = page.isEnd
      }
      expect(new Set(reader.seen).size, 'nothing is seen twice').toBe(reader.seen.length)
      const missed = want.filter(({ run }) => !reader.seen.includes(toHex(run.digest)))
      expect(missed.map(feedText), 'nothing is missed').toEqual([])
    }
    for (const world of this.#worlds) {
      expect(await openMemory({ namespace: 'n', hash, world }).upkeep.inspect()).toEqual([])
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

function feedText({ timeline, run }: Awaited<ReturnType<typeof wholeFeed>>[number]): string {
  return `${timeline} ${run.first} ${toHex(run.digest)}`
}

async function notNow(call: () => Promise<Outcome>): Promise<Outcome | null> {
  try {
    const outcome = await call()
    return !outcome.ok && outcome.code === 'SHARD_AWAY' ? null : outcome
  } catch (error) {
    if (isReprise(error, 'STORE_BUSY')) return null
    throw error
  }
}

function essence({ timeline, seq, digest, floor, base, queue, priority, status, attributes }: Head) {
  const from = base && { ...base, digest: toHex(base.digest) }
  return { timeline, seq, digest: toHex(digest), floor, from, queue, priority, status, attributes }
}

function inOrder(seen: readonly (readonly [string, number])[]): void {
  const last = new Map<string, number>()
  for (const [timeline, first] of seen) {
    expect(first, timeline).toBeGreaterThan(last.get(timeline) ?? 0)
    last.set(timeline, first)
  }
}
