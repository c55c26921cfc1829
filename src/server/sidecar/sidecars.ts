// The timelines that clients write through this server: leased to one client, or written in turns with other writers. The
// number of open timelines is bounded; the least recently used one is closed.

import { assert } from '../../core/assert.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { TurnTimeline } from '../../engine/writing/turn-timeline.ts'
import { TurnWriter } from '../../engine/writing/turn-writer.ts'
import { Mutexes } from '../../lib/waiting.ts'
import { type Appended, type AppendRequest, appendOnce, entriesOf } from './append.ts'
import { foldOf } from './fold.ts'
import { Lease, type LeaseRequest, type LeaseView } from './lease.ts'

const turnWaitMs = 20_000
/** Attempts of a write under a lease that other servers continue at the same time. */
const attemptsMax = 10

interface Shared {
  readonly opening: Promise<{ readonly turns: TurnTimeline<unknown>; readonly writer: TurnWriter<unknown> }>
  busy: number
}

export class Sidecars {
  readonly #engine: Reprise
  readonly #openMax: number
  readonly #leases = new Map<string, Lease>()
  /** In order of last use. */
  readonly #shared = new Map<string, Shared>()
  /** Acquiring and releasing a timeline are serialized per timeline. */
  readonly #mutexes = new Mutexes()

  constructor(engine: Reprise, openMax: number) {
    this.#engine = engine
    this.#openMax = openMax
  }

  /** Appends under the epoch of a lease, or without an epoch if the timeline is not leased. */
  async append(id: TimelineId, request: AppendRequest, epoch: number | undefined): Promise<Appended> {
    if (epoch !== undefined) return await this.#leased(id, epoch, (lease) => lease.append(request))
    const lease = this.#lease(id)
    if (lease) throw owned(id, lease)
    // Invalid entries are refused before the timeline is opened.
    const entries = entriesOf(request)
    return await this.#inTurns(id, async ({ turns, writer }) => {
      const { expect, signal } = request
      return await appendOnce(
        { engine: this.#engine, id },
        request,
        () => turns.open,
        () => writer.append(entries, { expect, signal }),
        () => writer.inTurn(() => turns.refresh()),
      )
    })
  }

  async lease(id: TimelineId, request: LeaseRequest): Promise<LeaseView> {
    return await this.#mutexes.run(id, async () => {
      const held = this.#lease(id)
      if (held && !request.takeover) throw owned(id, held)
      if (!held && this.#leases.size >= this.#openMax) throw full(this.#openMax)
      foldOf(this.#engine, id)
      // Another server may have continued it: then there is nothing to end here.
      await held?.end().catch(() => undefined)
      await this.#release(id)
      const lease = await Lease.take(this.#engine, id, request, () => this.#over(id, lease))
      return this.#keep(id, lease).view
    })
  }

  async renew(id: TimelineId, epoch: number, ttlMs: number | undefined): Promise<LeaseView> {
    return await this.#leased(id, epoch, async (lease) => {
      await lease.checkHeld()
      return lease.renew(ttlMs)
    })
  }

  async release(id: TimelineId, epoch: number): Promise<void> {
    await this.#leased(id, epoch, (lease) => this.#mutexes.run(id, () => lease.end()))
  }

  /**
   * A write other than an append, with the epoch of the timeline under which the lease writes: FENCED with a stale one, OWNED
   * without one if there is a lease.
   */
  async write<T>(
    id: TimelineId,
    epoch: number | undefined,
    work: (epoch: number | undefined) => Promise<T>,
  ): Promise<T> {
    if (epoch === undefined) {
      const lease = this.#lease(id)
      if (lease) throw owned(id, lease)
      return await work(undefined)
    }
    return await this.#leased(id, epoch, async (lease) => {
      await lease.checkHeld()
      return await work(lease.epoch)
    })
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#leases.values()].map((lease) => lease.leave()))
    await Promise.allSettled([...this.#shared.keys()].map((id) => this.#release(id)))
  }

  #lease(id: string): Lease | null {
    const lease = this.#leases.get(id)
    if (lease?.isLost) this.#leases.delete(id)
    return lease && !lease.isLost ? lease : null
  }

  #keep(id: TimelineId, lease: Lease): Lease {
    assert(!this.#leases.has(id), 'a timeline has one lease')
    this.#leases.set(id, lease)
    return lease
  }

  #over(id: TimelineId, lease: Lease): void {
    if (this.#leases.get(id) === lease) this.#leases.delete(id)
  }

  /** Works under a lease, which counts as a heartbeat. A client whose writes arrive at several servers moves its lease. */
  async #leased<T>(id: TimelineId, token: number, work: (lease: Lease) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const lease = await this.#under(id, token)
      lease.renew()
      try {
        return await work(lease)
      } catch (error) {
        // Another server continued the lease, or another client took it: the head of the timeline decides which.
        if (!isReprise(error, 'FENCED') || attempt >= attemptsMax) throw error
      }
    }
  }

  /** The lease with this token, from another server if it is not held here. FENCED: it is over. */
  async #under(id: TimelineId, token: number): Promise<Lease> {
    const known = this.#lease(id)
    if (known?.token === token) return known
    return await this.#mutexes.run(id, async () => {
      const held = this.#lease(id)
      if (held?.token === token) return held
      if (held) throw fenced(id, token)
      if (this.#leases.size >= this.#openMax) throw full(this.#openMax)
      await this.#release(id)
      const lease = await Lease.continue(this.#engine, id, token, () => lease && this.#over(id, lease))
      if (!lease) throw fenced(id, token)
      return this.#keep(id, lease)
    })
  }

  async #inTurns<T>(id: TimelineId, work: (open: Awaited<Shared['opening']>) => Promise<T>): Promise<T> {
    const shared = this.#shared.get(id) ?? this.#share(id)
    this.#shared.delete(id)
    this.#shared.set(id, shared)
    shared.busy += 1
    try {
      return await work(await shared.opening)
    } finally {
      shared.busy -= 1
      assert(shared.busy >= 0, 'only an entered timeline is left')
      void this.#trim()
    }
  }

  #share(id: TimelineId): Shared {
    const open = async () => {
      const turns = await hostOf(this.#engine).openTurns(id, foldOf(this.#engine, id))
      return { turns, writer: new TurnWriter(turns, turnWaitMs) }
    }
    const shared: Shared = { opening: open(), busy: 0 }
    shared.opening.catch(() => {
      if (this.#shared.get(id) === shared) this.#shared.delete(id)
    })
    return shared
  }

  async #trim(): Promise<void> {
    for (const [id, { busy }] of this.#shared) {
      if (this.#shared.size <= this.#openMax) return
      if (busy === 0) await this.#release(id)
    }
  }

  async #release(id: string): Promise<void> {
    const shared = this.#shared.get(id)
    this.#shared.delete(id)
    const open = await shared?.opening.catch(() => null)
    if (open) await open.writer.inTurn(() => open.turns.close()).catch(() => undefined)
  }
}

function fenced(timeline: string, epoch: number): RepriseError {
  const what = `the epoch ${epoch} of ${timeline} has ended: take a new lease`
  return new RepriseError('FENCED', what, { timeline, epoch })
}

function owned(timeline: string, { holder, token: epoch }: Lease): RepriseError {
  const what = `${holder} holds the lease of ${timeline}: wait, or take it over`
  return new RepriseError('OWNED', what, { timeline, holder, epoch })
}

function full(max: number): RepriseError {
  return new RepriseError('OVERLOADED', `too many leases (limit ${max})`, { max })
}
