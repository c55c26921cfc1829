// Adds a shard: it becomes a member, all processes of the set must learn of it, the map gets its next version, and the
// families that belong there are moved. Each step can be repeated, so a killed call is simply started again.

import type { WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import {
  type Grown,
  type GrowRequest,
  isHidden,
  joiningKey,
  knownShards,
  mapTimeline,
  membershipIn,
  moverTimeline,
  type ShardRow,
} from '../../core/store/shards.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import type { Holds } from './cursors.ts'
import { settleOn, workers } from './list.ts'
import { differ, join, membershipOf, renumber } from './membership.ts'
import { Mover } from './mover.ts'
import type { Relay } from './relay.ts'
import { isUnreachable, type OpenShard, Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'
import { noDigest } from './shards-worker.ts'

export interface ShardSource {
  /** For people; without credentials. */
  readonly name: string
  readonly open: OpenShard
  /** False: opening it would create it. Default: unknown. */
  readonly exists?: () => boolean
}

const pollMs = 500
const freshMs = 1000
const shardsMax = 64

export class Growth {
  readonly #shardMap: ShardMap
  readonly #holds: Holds
  readonly #relay: Relay
  readonly #open: ((url: string) => ShardSource) | null
  #lookedAt = 0

  constructor(shardMap: ShardMap, holds: Holds, relay: Relay, open: ((url: string) => ShardSource) | null) {
    this.#shardMap = shardMap
    this.#holds = holds
    this.#relay = relay
    this.#open = open
  }

  async list(): Promise<ShardRow[]> {
    const { shards, first } = this.#shardMap
    const members = await Promise.all(
      shards.map((shard) => unlessAway(() => shard.ask((store) => membershipOf(store)))),
    )
    // Read from the databases now: this process's knowledge of the set may be a second old.
    const isOpen = members.every((member) => member === 'away' || member?.count === shards.length)
    return await Promise.all(
      shards.map(async (shard, i): Promise<ShardRow> => {
        const row = { shard: shard.index, location: shard.name }
        const member = members[i] ?? null
        const timelines = member === 'away' ? 'away' : await unlessAway(() => this.#count(shard))
        if (member === 'away' || timelines === 'away')
          return { ...row, isAway: true, isJoining: false, version: null, timelines: null }
        const isJoining = shard.index >= first && !isOpen
        return { ...row, isAway: false, isJoining, version: member?.version ?? 0, timelines }
      }),
    )
  }

  async #count(shard: Shard): Promise<number> {
    let count = 0
    for await (const page of shard.heads()) count += page.filter((head) => !isHidden(head)).length
    return count
  }

  /** Reads the stored map now. Throws SHARDS_GREW if this process lacks a shard of the set. */
  async check(): Promise<void> {
    this.#lookedAt = Date.now()
    const [head] = await this.#shardMap.shards[0]!.askNow((store) => store.head([mapTimeline]))
    if (head) this.#shardMap.learn(membershipIn(head).count)
    this.#shardMap.refuseOutdated()
  }

  /** The same, at most once a second. */
  async checkNowAndThen(): Promise<void> {
    const isDue = Date.now() - this.#lookedAt >= freshMs && !this.#shardMap.shards[0]!.isAway
    if (!isDue) return this.#shardMap.refuseOutdated()
    await this.check().catch((error) => {
      if (!isUnreachable(error)) throw error
    })
  }

  /** Settles copies whose mover died between the two commits of their move. */
  async settle(): Promise<void> {
    const { shards, first } = this.#shardMap
    for (const shard of shards.slice(first)) {
      if (!shard.isAway) await settleOn(this.#shardMap, shard)
    }
  }

  async grow(request: GrowRequest): Promise<Grown> {
    const epoch = await this.#lock(request.worker)
    try {
      await this.check()
      if (request.url !== undefined) await this.#join(request.url)
      const { shards, count, first } = this.#shardMap
      if (!this.#shardMap.hasGrown) throw new RepriseError('INVALID_ARGUMENT', 'no shard was added to this set', {})
      for (const shard of shards) await shard.ask(() => undefined)
      if (!this.#shardMap.isOpen) {
        await this.#waitForAll(request)
        for (const shard of shards.slice(first)) await this.#holds.cover(shard.index)
        const { version } = (await shards.at(-1)!.ask((store) => membershipOf(store)))!
        // The first shard is last: a process that sees the version there knows that all are ready.
        for (const shard of [...shards].reverse()) {
          const member = (await shard.ask((store) => membershipOf(store)))!
          const wanted = { ...member, count, first, version }
          await shard.ask((store) => renumber(store, wanted, this.#shardMap.newOperation))
        }
        this.#shardMap.isOpen = true
      }
      return await this.#moveAll(request)
    } finally {
      await this.#unlock(epoch).catch(() => undefined)
    }
  }

  /** One at a time: two would take families from each other. */
  async #lock(worker: WorkerId): Promise<number> {
    const shard = this.#shardMap.shards[0]!
    const [head] = await shard.ask((store) => store.head([moverTimeline]))
    const [outcome] = await shard.ask((store) =>
      store.commit([
        {
          operation: this.#shardMap.newOperation(),
          guard: { timeline: moverTimeline, epoch: head?.epoch ?? 0 },
          take: { worker, from: 'dead', create: { digest: noDigest } },
        },
      ]),
    )
    if (outcome!.ok) return outcome!.epoch
    throw new RepriseError('OWNED', `another process is adding a shard (${head?.owner ?? 'it just began'})`, {})
  }

  async #unlock(epoch: number): Promise<void> {
    const guard = { timeline: moverTimeline, epoch }
    const operation = this.#shardMap.newOperation()
    await this.#shardMap.shards[0]!.ask((store) => store.commit([{ operation, guard, release: true }]))
  }

  /** Makes the store at this address the next shard, unless it is one already. */
  async #join(url: string): Promise<void> {
    const { shards, count, first, newOperation } = this.#shardMap
    if (!this.#open)
      throw new RepriseError('STORE_UNSUPPORTED', 'this set was opened without a function that opens another shard', {})
    const { name, open } = this.#open(url)
    const shard = new Shard(count, name, open)
    let isKept = false
    try {
      const member = await shard.ask((store) => membershipOf(store))
      const own = (await shards[0]!.ask((store) => membershipOf(store)))!
      if (member && member.set !== own.set) throw differ(`${name} belongs to another set (${member.set})`)
      if (member && member.index < count) return
      if (member && member.index > count)
        throw differ(`${name} is shard ${member.index}, and ${count} shards were named`)
      if (!this.#shardMap.isOpen)
        throw differ('another shard is being added: add its address, and finish that addition first')
      if (count >= shardsMax)
        throw new RepriseError('INVALID_ARGUMENT', `a set must have at most ${shardsMax} shards`, {})
      if (!member) {
        await this.#reserve(name)
        const wanted = { set: own.set, index: count, count: count + 1, first, version: own.version + 1, isWhole: true }
        const made = await shard.ask((store) => join(store, wanted, newOperation))
        if (made.set !== own.set) throw differ(`${name} has just become part of another set`)
      }
      this.#shardMap.add(shard)
      this.#shardMap.isOpen = false
      isKept = true
    } finally {
      if (!isKept) await shard.close()
    }
  }

  /** Two addresses never get the same number, even if the process that reserved the first died. */
  async #reserve(name: string): Promise<void> {
    const { shards, count, newOperation } = this.#shardMap
    const [head] = await shards[0]!.ask((store) => store.head([mapTimeline]))
    const reserved = head!.attributes[joiningKey]
    const wanted = `${count} ${name}`
    if (reserved === wanted) return
    if (typeof reserved === 'string' && reserved.startsWith(`${count} `)) {
      throw differ(`shard ${reserved} is being added: finish that addition first`)
    }
    const guard = { timeline: mapTimeline, epoch: head!.epoch }
    const attributes = { [joiningKey]: wanted }
    const [outcome] = await shards[0]!.ask((store) => store.commit([{ operation: newOperation(), guard, attributes }]))
    if (!outcome!.ok) await this.#reserve(name)
  }

  /** Workers report the number of their shards with each heartbeat. */
  async #waitForAll({ worker, signal, onProgress }: GrowRequest): Promise<void> {
    for (;;) {
      const rows = await workers(this.#shardMap)
      const others = rows.filter(
        ({ id, isAlive, isRetired, isGone }) => id !== worker && isAlive && !isRetired && !isGone,
      )
      const waitsFor = others.filter(({ info }) => Number(info[knownShards] ?? 0) < this.#shardMap.count)
      if (waitsFor.length === 0) return
      onProgress?.({
        stage: 'waiting',
        moved: 0,
        stays: 0,
        waitsFor: waitsFor.map(({ id, name, host }) => ({ id, name, host })),
      })
      await pause(signal)
    }
  }

  /** Families without an owner move first; those in use are waited for, and then taken over. */
  async #moveAll({ worker, waitMs, signal, onProgress }: GrowRequest): Promise<Grown> {
    const mover = new Mover(this.#shardMap, this.#relay, worker)
    const until = Date.now() + waitMs
    let moved = 0
    for (;;) {
      const isTakeover = Date.now() >= until
      const stays: { timeline: string; reason: string }[] = []
      let again = 0
      for await (const { root, from, to } of mover.candidates()) {
        signal?.throwIfAborted()
        const verdict = await mover.move(root, from, to, isTakeover)
        if (verdict === 'moved') moved += 1
        else if (verdict === 'again') again += 1
        else stays.push({ timeline: root.timeline, reason: verdict.stays })
        onProgress?.({ stage: 'moving', moved, stays: stays.length, waitsFor: [] })
      }
      if (again === 0) return { shards: this.#shardMap.count, moved, stays }
      await pause(signal)
    }
  }
}

async function pause(signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  await sleep(realTime, pollMs)
  signal?.throwIfAborted()
}

async function unlessAway<T>(ask: () => T | Promise<T>): Promise<T | 'away'> {
  try {
    return await ask()
  } catch (error) {
    if (isUnreachable(error)) return 'away'
    throw error
  }
}
