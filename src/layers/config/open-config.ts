// One pushed configuration that is open in this process, shared by its handles, streams and rollouts: the three timelines as
// last read, one poll of the store for all waiters, and one queue of changes to client records. Changes requested in the same
// tick are decided on the current state and written as one commit; if another process wrote first, they are decided again.

import { equalBytes } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { historyMark } from '../../core/identity.ts'
import { WakeUp } from '../../engine/feed/wake-up.ts'
import type { Host } from '../../engine/host/host.ts'
import { turnWaitMs } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { newId } from '../../engine/storage/kernel.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import type { TurnTimeline } from '../../engine/writing/turn-timeline.ts'
import { TurnWriter } from '../../engine/writing/turn-writer.ts'
import { sleep } from '../../lib/waiting.ts'
import { clientsFold, configModels, idsOf, keptFold } from './model.ts'
import { isCounted, targetOf } from './rules/rollout.ts'
import type { ClientRecord, ConfigEntry, ConfigState, ConfigVersion, History, Rollout } from './rules/state.ts'

/** A change to the record of one client. Called again on newer state; throws to refuse. */
export interface Change<T> {
  /** Two changes of one client are not decided on the same state. */
  readonly client: string
  decide(clients: ConfigState['clients'], now: number): { readonly entries: readonly ConfigEntry[]; readonly result: T }
}

interface ChangeRequest {
  readonly change: Change<unknown>
  resolve(result: never): void
  reject(error: unknown): void
}

interface Part {
  readonly turns: TurnTimeline<ConfigState>
  readonly writer: TurnWriter<ConfigState>
}

const pollMs = 500
/** Notifications of the store are processed at this interval. */
const heedMs = 10
const batchMax = 500
const namesPerEntry = 1000

export class OpenConfig {
  readonly name: string
  readonly engine: Host
  readonly forgetAfterMs: number
  readonly #versions: Part
  readonly #clients: Part
  readonly #rollout: Part
  #queue: ChangeRequest[] = []
  #isWriting = false
  #followers = 0
  #wake: WakeUp | null = null
  #isClosed = false
  /** Called at every change and every poll: waiters for many clients, or for time to pass. */
  readonly #waiters = new Set<() => void>()
  /** Streams of this process, by client. */
  readonly #streams = new Map<string, Set<() => void>>()
  #sweptAt = Number.NEGATIVE_INFINITY

  private constructor(engine: Host, name: string, forgetAfterMs: number, parts: readonly TurnTimeline<ConfigState>[]) {
    this.engine = engine
    this.name = name
    this.forgetAfterMs = forgetAfterMs
    const [versions, clients, rollout] = parts.map((turns) => ({ turns, writer: new TurnWriter(turns, turnWaitMs) }))
    this.#versions = versions!
    this.#clients = clients!
    this.#rollout = rollout!
    for (const { turns } of [this.#versions, this.#rollout]) turns.watch(() => this.#ringAll())
    this.#clients.turns.watch((entries) => this.#ringClients(entries))
    engine.onClose(async () => this.#close())
  }

  /** Reads the existing timelines; creates nothing and takes no ownership. */
  static async open(engine: Host, name: string, forgetAfterMs: number): Promise<OpenConfig> {
    for (const model of configModels(name)) engine.declare(model)
    const ids = idsOf(name)
    const parts = await Promise.all([
      engine.openTurns(ids.versions, keptFold),
      engine.openTurns(ids.clients, clientsFold),
      engine.openTurns(ids.rollout, keptFold),
    ])
    return new OpenConfig(engine, name, forgetAfterMs, parts)
  }

  get versions(): ConfigState {
    return this.#versions.turns.open.state
  }

  get clients(): ConfigState['clients'] {
    return this.#clients.turns.open.state.clients
  }

  get rollout(): Rollout | null {
    return this.#rollout.turns.open.state.rollout
  }

  get ended(): ConfigState['ended'] {
    return this.#rollout.turns.open.state.ended
  }

  get now(): number {
    return this.engine.now(this.#rollout.turns.open.id)
  }

  /** The history that streams and versions belong to, as this process knows it. */
  get history(): History {
    const { hash, identity } = this.engine
    const known = identity.known
    const [versions, clients] = [this.#versions.turns.open, this.#clients.turns.open]
    return {
      mark: known ? historyMark(hash, known, [versions.origin, clients.origin]) : '',
      isFirst: known?.era === 0 && versions.life === 1 && clients.life === 1,
    }
  }

  /** Undefined: so long ago that only history has it. */
  digestOf(version: number): string | undefined {
    return this.versions.recent.find((note) => note.version === version)?.digest
  }

  targetOf(client: string): ConfigVersion | null {
    return targetOf(this.name, client, this.versions, this.rollout)
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  check(): void {
    this.engine.check()
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the engine was closed')
  }

  /** Writes an entry about versions, decided on the current state. `make` may be called several times. */
  async writeVersion(make: (state: ConfigState) => ConfigEntry | null, key: string): Promise<void> {
    await this.#versions.writer.write((state) => {
      const entry = make(state)
      return entry ? [{ ...entry, key, time: this.now }] : []
    })
  }

  /** Resolves when the change is durable. */
  change<T>(change: Change<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ change, resolve, reject })
      if (!this.#isWriting) void this.#writeAll()
    })
  }

  /** Reads the commits of other processes; takes over no ownership. */
  async refresh(): Promise<void> {
    const parts = [this.#versions, this.#clients, this.#rollout]
    // Before the heads: the entries read below belong to this incarnation, or to a later one that the next read detects.
    await this.engine.identity.current()
    const heads = await this.engine.heads(parts.map(({ turns }) => turns.id))
    await Promise.all(
      parts.map(async ({ turns, writer }, i) => {
        const head = heads[i]
        const { open } = turns
        const isSame = head
          ? head.epoch === open.epoch && head.seq === open.seq && equalBytes(head.digest, open.digest)
          : !turns.exists
        if (!isSame || open.broken) await writer.inTurn(() => turns.refresh())
      }),
    )
  }

  /** Polls the store until the returned function is called; calls `call` at every change and every poll. */
  watch(call: () => void): () => void {
    this.#waiters.add(call)
    const unfollow = this.#follow()
    return () => {
      this.#waiters.delete(call)
      unfollow()
    }
  }

  /** The same for a stream of one client: called when its record, its target or its validity may have changed. */
  attend(client: string, call: () => void): () => void {
    const calls = this.#streams.get(client) ?? new Set()
    this.#streams.set(client, calls.add(call))
    const unfollow = this.#follow()
    return () => {
      calls.delete(call)
      if (calls.size === 0 && this.#streams.get(client) === calls) this.#streams.delete(client)
      unfollow()
    }
  }

  /** Removes clients that were absent for too long; clients with a stream in this process count as seen. */
  async sweep(): Promise<void> {
    const { now, forgetAfterMs } = this
    if (now - this.#sweptAt < forgetAfterMs / 4) return
    this.#sweptAt = now
    await this.change({
      client: '',
      decide: (clients, at) => {
        const here = namesWhere(clients, (record, client) => {
          return record.isOpen && this.#streams.has(client) && at - record.seenAt > forgetAfterMs / 8
        })
        const seen = new Set(here)
        const away = namesWhere(clients, (record, client) => {
          return !seen.has(client) && !isCounted(record, at, forgetAfterMs)
        })
        return { entries: [...entriesOf('seen', here), ...entriesOf('forgotten', away)], result: undefined }
      },
    })
  }

  #follow(): () => void {
    this.#followers += 1
    if (this.#followers === 1) void this.#look()
    let isFollowing = true
    return () => {
      if (!isFollowing) return
      isFollowing = false
      this.#followers -= 1
      if (this.#followers === 0) this.#wake?.ring()
    }
  }

  async #look(): Promise<void> {
    if (this.#wake) return
    const { kernel, events } = this.engine
    const wake = new WakeUp(kernel)
    this.#wake = wake
    try {
      while (this.#followers > 0 && !this.#isClosed) {
        wake.hush()
        await this.refresh()
          .then(() => (this.#streams.size > 0 ? this.sweep() : undefined))
          .catch((error) => this.#isClosed || events.emit('problem', { where: `config/${this.name}`, error }))
        for (const call of [...this.#waiters]) call()
        await wake.wait(Math.min(pollMs, Math.max(heedMs, this.forgetAfterMs / 8)))
        await sleep(kernel.clock, heedMs, { isAwaited: false })
      }
    } finally {
      this.#wake = null
      wake.close()
      // A new follower arrived during the end of the loop.
      if (this.#followers > 0 && !this.#isClosed) void this.#look()
    }
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true
    while (this.#queue.length > 0) await this.#writeBatch(this.#takeBatch())
    this.#isWriting = false
  }

  /** All queued changes, at most one per client. */
  #takeBatch(): ChangeRequest[] {
    const batch: ChangeRequest[] = []
    const later: ChangeRequest[] = []
    const names = new Set<string>()
    for (const waiting of this.#queue) {
      const { client } = waiting.change
      if (batch.length < batchMax && !names.has(client)) batch.push(waiting)
      else later.push(waiting)
      names.add(client)
    }
    this.#queue = later
    return batch
  }

  async #writeBatch(batch: readonly ChangeRequest[]): Promise<void> {
    let verdicts: (() => void)[] = []
    // The key prevents a batch whose reply was lost from being written twice.
    const key = newId(this.engine.random)
    try {
      await this.#clients.writer.write((state) => {
        verdicts = []
        const entries: NewEntry[] = []
        const time = this.now
        for (const { change, resolve, reject } of batch) {
          try {
            const decided = change.decide(state.clients, time)
            for (const entry of decided.entries) {
              entries.push({ ...entry, time, ...(entries.length === 0 ? { key } : { partOf: key }) })
            }
            verdicts.push(() => resolve(decided.result as never))
          } catch (error) {
            verdicts.push(() => reject(error))
          }
        }
        return entries
      })
      for (const verdict of verdicts) verdict()
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  #ringAll(): void {
    for (const calls of [...this.#streams.values()]) for (const call of [...calls]) call()
    for (const call of [...this.#waiters]) call()
  }

  /** Without entries the state was reloaded, and any client may have changed. */
  #ringClients(entries: readonly Entry[]): void {
    if (entries.length === 0) {
      this.#ringAll()
      return
    }
    for (const entry of entries) {
      const { client, clients } = (entry.data ?? {}) as { client?: string; clients?: readonly string[] }
      for (const name of clients ?? [client ?? '']) for (const call of [...(this.#streams.get(name) ?? [])]) call()
    }
    for (const call of [...this.#waiters]) call()
  }

  #close(): void {
    this.#isClosed = true
    this.#wake?.ring()
    this.#ringAll()
  }
}

function namesWhere(
  clients: ConfigState['clients'],
  isWanted: (record: ClientRecord, client: string) => boolean,
): string[] {
  const names: string[] = []
  for (const [client, record] of clients.entries()) if (isWanted(record, client)) names.push(client)
  return names
}

function entriesOf(type: 'seen' | 'forgotten', names: readonly string[]): ConfigEntry[] {
  const entries: ConfigEntry[] = []
  for (let i = 0; i < names.length; i += namesPerEntry) {
    entries.push({ type, data: { clients: names.slice(i, i + namesPerEntry) } })
  }
  return entries
}
