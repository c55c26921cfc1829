// Random histories, model against store: the same seeded commits go to the memory store and to the store under test. All
// outcomes, and regularly the whole visible state, must be equal. A failure names the seed and the step.

import assert from 'node:assert/strict'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import { mayBeAside } from '../../core/store/argument-checks.ts'
import {
  type Commit,
  type EntryRun,
  type FeedItem,
  feedStart,
  type Guard,
  type Head,
  type ManifestRecord,
  type Outcome,
  type Store,
} from '../../core/store/ports.ts'
import type { Writable } from '../../core/writable.ts'
import { openMemory } from '../../stores/memory/index.ts'
import {
  asManifest,
  asMessage,
  asOperation,
  asTimeline,
  asWorker,
  hash,
  type Kit,
  message,
  plain,
  type Test,
  utf8,
  wholeFeed,
  worker,
} from './kit.ts'

const stepsPerSeed = 150
/** Comparing everything costs many reads; a difference is still visible a few steps later. */
const stepsPerLook = 5
const timelines = ['a', 'b', 'b/c', "d'%_", '🦊'].map(asTimeline)
const archives = Array.from({ length: 12 }, (_, i) => asTimeline(`old-${i}`))
/** w1 and w2 beat, w3 never does, w4 is retired at the start. */
const workers = ['w1', 'w2', 'w3', 'w1', 'w2', 'w3', 'w4'].map(asWorker)
const manifests = Array.from({ length: 16 }, (_, i) => asManifest(`c${i}`))
const messages = Array.from({ length: 6 }, (_, i) => asMessage(`m${i}`))
const farFuture = 4_102_444_800_000

export function randomTests(test: Test, seeds: readonly number[]): void {
  for (const seed of seeds) {
    test(`a random history agrees with the memory store, seed ${seed}`, async (kit) => {
      const model = openMemory({ namespace: 'model', hash })
      await play(kit, model, seed)
    })
  }
}

async function play(kit: Kit, model: Store, seed: number): Promise<void> {
  const random = new Dice(seed)
  const both = [model, kit.store]
  for (const store of both) {
    for (const id of ['w1', 'w2', 'w4']) await store.beat(worker(id))
    await store.retire([asWorker('w4')])
  }
  const made: Commit[] = []
  for (let step = 0; step < stepsPerSeed; step++) {
    const what = `conformance seed ${seed}, step ${step}`
    if (random.chance(0.1)) {
      const request = { worker: random.pick(workers.slice(0, 3)), queues: ['q', 'p'], limit: 100 }
      const [expected, found] = await Promise.all(both.map((store) => store.claim(request)))
      assert.deepEqual(heads(found!).sort(byText), heads(expected!).sort(byText), `${what}: claim`)
      continue
    }
    const batch: Commit[] = []
    for (let n = random.below(3); n >= 0; n--) {
      const isRepeat = made.length > 0 && random.chance(0.12)
      const fresh = isRepeat
        ? random.pick(made.slice(-4))
        : await randomCommit(random, model, `${seed}-${made.length}`, kit.capabilities.isSharded ?? false)
      const isGuarded = !isRepeat && fresh.guard && !fresh.forget && random.chance(0.2)
      // Decided by the step number, so that the random draws of a seed stay the same.
      const aside = !isRepeat && fresh.guard && mayBeAside(fresh) && step % 2 === 0
      const commit = { ...fresh, ...(isGuarded ? { unlessMail: true } : aside && { aside }) }
      made.push(commit)
      batch.push(commit)
    }
    const outcomes: Outcome[][] = []
    const feeds = batch.some((commit) => commit.cursors) ? await Promise.all(both.map((store) => wholeFeed(store))) : []
    for (const [i, store] of both.entries()) outcomes.push(await store.commit(localize(batch, feeds, i)))
    const describe = () => `${what}: ${JSON.stringify(plain(batch))}`
    assert.deepEqual(outcomes[1]!.map(seen), outcomes[0]!.map(seen), describe())
    if (step % stepsPerLook === 0) assert.deepEqual(await look(kit.store), await look(model), describe())
  }
}

/** A commit that is often accepted: its guard mostly agrees with the model. */
async function randomCommit(random: Dice, model: Store, name: string, isSharded: boolean): Promise<Commit> {
  const operation = asOperation(`operation ${name}`)
  if (random.chance(0.08)) return { operation, guard: null, send: randomMail(random) }
  const timeline = random.pick(random.chance(0.9) ? timelines : archives)
  const [head] = await model.head([timeline])
  // In a sharded store an archive is with its family; a new one may be on another shard, in another order.
  if (!head && isSharded && archives.includes(timeline)) return { operation, guard: null, send: randomMail(random) }
  if (!head) return { operation, ...(await creation(random, model, timeline)) }
  const epoch = Math.max(0, head.epoch + (random.chance(0.06) ? random.below(3) - 1 : 0))
  const digest = random.chance(0.97) ? head.digest : hash(utf8(`other ${name}`))
  const life = random.chance(0.7) ? {} : { life: Math.max(0, head.life - (random.chance(0.1) ? 1 : 0)) }
  const guard = { timeline, ...life, epoch, seq: Math.max(0, head.seq - (random.chance(0.03) ? 1 : 0)), digest }
  if (random.chance(0.03)) return { operation, guard: { life: head.life, ...guard }, forget: true }
  const catalog = await model.checkpoints(timeline)
  const runs = await model.read(timeline, 0, 10_000_000)
  return { operation, guard, ...parts(random, head, guard, catalog, runs) }
}

/** A new timeline, or a fork of an existing one. */
async function creation(
  random: Dice,
  model: Store,
  timeline: Head['timeline'],
): Promise<Pick<Commit, 'guard' | 'take' | 'status'>> {
  const digest = originDigest(hash, timeline)
  const [past] = await model.past([timeline])
  const guard = { timeline, epoch: past!.epoch + (random.chance(0.95) ? 0 : 1), seq: 0, digest }
  const life = random.chance(0.5) ? {} : { life: past!.life + (random.chance(0.9) ? 1 : random.below(3)) }
  if (random.chance(0.1)) return { guard, status: 'nobody' }
  const parent = random.chance(0.5) ? (await model.head([random.pick([...timelines, ...archives])]))[0] : null
  const take = { worker: random.pick(workers), from: 'free' as const }
  if (!parent) return { guard, take: { ...take, create: { digest, ...life } } }
  const seq = random.below(parent.seq + 2)
  const base = { timeline: parent.timeline, seq, digest }
  const floor = random.chance(0.6) ? {} : { floor: { seq: random.below(seq + 2), digest } }
  return { guard: { ...guard, seq }, take: { ...take, create: { digest, ...life, base, ...floor } } }
}

function parts(
  random: Dice,
  head: Head,
  guard: Guard & { readonly seq: number },
  catalog: readonly ManifestRecord[],
  runs: readonly EntryRun[],
): Partial<Commit> {
  const { epoch } = guard
  const commit: Writable<Partial<Commit>> = {}
  if (random.chance(0.2)) commit.take = { worker: random.pick(workers), from: random.pick(['free', 'dead', 'anyone']) }
  if (random.chance(0.06)) {
    const seq = random.below(head.seq + 2)
    const floor = random.chance(0.5) ? seq : Math.min(seq, head.floor)
    commit.branch = {
      archive: random.pick(archives),
      seq,
      digest: head.digest,
      floor: { seq: floor, digest: head.digest },
    }
  }
  const start = commit.branch ? commit.branch.seq : guard.seq
  if (random.chance(0.6)) {
    const drafts = Array.from({ length: 1 + random.below(3) }, () => ({
      type: 'noted',
      version: 1,
      time: 1_700_000_000_000,
      data: utf8(random.text()),
    }))
    commit.run = packEntries(hash, { before: head.digest, first: start + 1, epoch }, drafts)
  }
  if (random.chance(0.2)) commit.publish = [randomManifest(random, start + (commit.run?.count ?? 0), epoch, head)]
  if (random.chance(0.15)) commit.marks = [randomMark(random)]
  if (random.chance(0.1)) commit.drop = [random.pick(manifests), random.pick(manifests)]
  if (random.chance(0.15)) {
    const restsOn = random.chance(0.5) ? catalog.slice(0, 1).map((record) => record.id) : [random.pick(manifests)]
    const ends = runs.map((run) => run.first + run.count - 1)
    const seq = random.chance(0.8) ? random.pick([...ends, head.base?.seq ?? 0]) : random.below(head.seq + 2)
    commit.trim = { seq, digest: head.digest, restsOn: random.chance(0.4) ? [] : restsOn }
  }
  if (random.chance(0.15)) commit.consume = [random.pick(messages)]
  if (random.chance(0.2)) commit.send = randomMail(random)
  if (random.chance(0.2)) commit.release = true
  return { ...commit, ...fields(random) }
}

function fields(random: Dice): Partial<Commit> {
  const commit: Writable<Partial<Commit>> = {}
  if (random.chance(0.2)) commit.wakeup = random.pick([null, 1, 2, farFuture])
  if (random.chance(0.2)) commit.queue = random.pick([null, 'q', 'p', 'other'])
  if (random.chance(0.1)) commit.priority = random.below(5) - 2
  if (random.chance(0.1)) commit.status = random.pick(['', 'open', 'done'])
  if (random.chance(0.2))
    commit.attributes = { [random.pick(['x', 'y', "z'"])]: random.pick([null, 1, '1', true, '🦊']) }
  // Positions differ between stores: an item number represents its position until localize() replaces it.
  if (random.chance(0.15)) commit.cursors = { [random.pick(['k', 'l'])]: random.pick([null, '0', '1', '3', '8']) }
  return commit
}

function randomMail(random: Dice) {
  return Array.from({ length: 1 + random.below(2) }, () => {
    const life = random.chance(0.7) ? {} : { life: 1 + random.below(2) }
    return { ...message(random.pick(timelines), random.pick(messages)), ...life }
  })
}

function randomMark(random: Dice): NonNullable<Commit['marks']>[number] {
  const id = random.pick(manifests)
  return random.pick([
    { id, verifiedAt: 7 },
    { id, isPinned: true },
    { id, isPinned: false },
    { id, invalid: 'damaged' },
    { id, label: 'x', drilledAt: 9, drill: 'ok' },
  ])
}

function randomManifest(random: Dice, seqMax: number, epoch: number, head: Head): ManifestRecord {
  const body = utf8(random.text())
  return {
    id: random.pick(manifests),
    seq: Math.max(0, seqMax + 1 - random.below(4)),
    epoch,
    digest: head.digest,
    body,
    bodyDigest: hash(body),
    baseId: random.chance(0.3) ? random.pick(manifests) : null,
    createdAt: 5,
    trigger: 'count',
    label: null,
    isPinned: random.chance(0.1),
    foldVersion: '1',
    totalBytes: 10,
    addedBytes: 1,
    verifiedAt: random.chance(0.6) ? 6 : null,
    invalid: null,
    drilledAt: null,
    drill: null,
  }
}

/**
 * The same commits with this store's own feed positions. Items that were committed together may share a position: a cursor
 * is put after all of them, in every store.
 */
function localize(batch: readonly Commit[], feeds: readonly FeedItem[][], own: number): readonly Commit[] {
  const items = feeds[own]
  if (!items) return batch
  const isInside = (n: number) => feeds.some((feed) => feed[n] && feed[n - 1]!.position === feed[n]!.position)
  const place = (text: string) => {
    let n = Number(text)
    if (n === 0 || n > items.length) return feedStart
    while (isInside(n)) n += 1
    return items[n - 1]!.position
  }
  return batch.map((commit) => {
    if (!commit.cursors) return commit
    const cursors = Object.entries(commit.cursors).map(([name, at]) => [name, at === null ? null : place(at)])
    return { ...commit, cursors: Object.fromEntries(cursors) }
  })
}

/**
 * A refusal has the same wording on every store. With several reasons for a refusal, a store may name any of them, and
 * feed positions are specific to each store.
 */
function seen(outcome: Outcome): unknown {
  if (!outcome.ok) {
    const reason = outcome.reason
      .replace(/\d{16}(-\d{16})?/g, 'POSITION')
      .replace(/^(the fork|cursor|checkpoint) \S+ (needs|has not passed|of \S+ is pinned|is not a verified)/, '$1 $2')
      .replace(/^(the fork needs history of .*) above \d+$/, '$1')
    return [outcome.code, reason, outcome.head && strip(outcome.head)]
  }
  return [outcome.epoch, outcome.seq, outcome.isDuplicate]
}

async function look(store: Store): Promise<unknown> {
  const found = await store.timelines({ limit: 100 })
  const feed = await wholeFeed(store)
  const ids = [...timelines, ...archives]
  return {
    heads: heads(found),
    again: heads((await store.head(found.map((head) => head.timeline))).filter((head) => head !== null)),
    runs: plain(await Promise.all(ids.map((id) => store.read(id, 0, 10_000_000)))),
    catalog: plain(await Promise.all(ids.map((id) => store.checkpoints(id)))),
    mail: await Promise.all(ids.map(async (id) => (await store.inbox(id, 100)).messages.map((one) => one.id))),
    cursors: (await store.cursors())
      .map((row) => [row.name, row.owner, feed.filter((item) => item.position <= row.position).length])
      .sort(byText),
    feed: feed.map((item) => [item.timeline, item.run.first, item.run.count]),
  }
}

function heads(found: readonly Head[]): unknown[] {
  return found.map(strip)
}

function strip({ createdAt: _created, updatedAt: _updated, ...head }: Head): unknown {
  return plain(head)
}

function byText(a: unknown, b: unknown): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1
}

/** Random numbers from a seed (mulberry32). */
class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  number(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  below(count: number): number {
    return Math.floor(this.number() * count)
  }

  chance(probability: number): boolean {
    return this.number() < probability
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)]
    assert.ok(item !== undefined, 'there is something to pick from')
    return item
  }

  text(): string {
    return 'x'.repeat(this.below(20)) + this.below(1000)
  }
}
