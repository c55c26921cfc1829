// A lease: this process owns a timeline on behalf of one client, while that client renews it. The epoch is the fencing token:
// every write names it, and an outdated one is refused, here and in the store.

import { assert } from '../../core/assert.ts'
import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { leaseMark, noLease } from '../../engine/writing/leased.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { type Appended, type AppendRequest, appendOnce, entriesOf } from './append.ts'
import { foldOf } from './fold.ts'

export interface LeaseView {
  readonly timeline: string
  readonly epoch: number
  readonly seq: number
  readonly digest: string
  readonly holder: string
  /** By this server's clock: without a renewal by then, other clients may take the lease. */
  readonly until: number
}

export interface LeaseRequest {
  readonly holder: string
  readonly ttlMs: number
  /** Also takes the lease from a live holder, whose further writes are refused. */
  readonly takeover: boolean
  /** How long to wait for a live owner in another process to release the timeline. */
  readonly waitMs: number
}

export class Lease {
  readonly holder: string
  readonly epoch: number
  readonly #engine: Reprise
  readonly #open: OpenTimeline<unknown>
  readonly #onOver: () => void
  readonly #ttlMs: number
  #until = 0
  #timer: NodeJS.Timeout | undefined

  private constructor(
    engine: Reprise,
    open: OpenTimeline<unknown>,
    { holder, ttlMs }: LeaseRequest,
    onOver: () => void,
  ) {
    this.#engine = engine
    this.#open = open
    this.epoch = open.epoch
    this.holder = holder
    this.#ttlMs = ttlMs
    this.#onOver = onOver
    this.renew()
  }

  static async take(engine: Reprise, id: TimelineId, request: LeaseRequest, onOver: () => void): Promise<Lease> {
    const { takeover, waitMs } = request
    const open = await hostOf(engine).openTimeline(id, foldOf(engine, id), { takeover, wait: waitMs })
    // Processes that write the timeline in turns must not treat it as free between two writes.
    await open.write([], { attributes: leaseMark(open.epoch, request.holder) }).catch(async (error) => {
      await open.shut().catch(() => undefined)
      throw error
    })
    return new Lease(engine, open, request, onOver)
  }

  get view(): LeaseView {
    const { timeline, epoch, seq, digest } = this.#open.coordinate
    return { timeline, epoch, seq, digest, holder: this.holder, until: this.#until }
  }

  /** Another owner took over, or this process was declared dead. */
  get isLost(): boolean {
    return this.#open.broken !== null || this.#open.closing !== null
  }

  /** Refuses an epoch other than this lease's. */
  check(epoch: number): void {
    const { timeline } = this.#open.coordinate
    if (epoch === this.epoch && !this.isLost) return
    const what = `the epoch ${epoch} of ${timeline} is over: take a new lease`
    throw new RepriseError('FENCED', what, { timeline, epoch })
  }

  renew(ttlMs = this.#ttlMs): LeaseView {
    clearTimeout(this.#timer)
    this.#until = Date.now() + ttlMs
    this.#timer = setTimeout(() => void this.end().catch(() => undefined), ttlMs)
    this.#timer.unref()
    return this.view
  }

  async append(request: AppendRequest): Promise<Appended> {
    const open = this.#open
    assert(open.epoch === this.epoch, 'a lease writes under the epoch that its holder was told')
    const { expect, signal } = request
    const options = { ...(signal && { signal }), ...(expect !== undefined && { expect }) }
    const write = () => open.write(entriesOf(request), options)
    return await appendOnce(
      { engine: this.#engine, id: timelineId(open.coordinate.timeline) },
      request,
      () => open,
      write,
      async () => undefined,
    )
  }

  /** Ends the lease after the writes under way; the timeline is free at once. */
  async end(): Promise<void> {
    clearTimeout(this.#timer)
    this.#onOver()
    await this.#open.shut({ attributes: noLease })
  }
}
