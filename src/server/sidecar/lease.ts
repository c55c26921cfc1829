// A lease: this process owns a timeline on behalf of one client, while that client renews it. The epoch under which the client
// got it, bound to the history, is the fencing token: every write names it, and an outdated one, or one of another history, is
// refused, here and in the store. Another server on the store continues the lease when the client writes there, under a newer
// epoch of the timeline and the same token.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { epochOfLease, historyMark, leaseNumber } from '../../core/identity.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { type LeaseMark, leaseAt, leaseMark, noLease } from '../../engine/ownership/lease-mark.ts'
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
  /** The fencing token: the epoch of the timeline when the client got the lease, and the history it belongs to. */
  readonly token: number
  readonly #engine: Reprise
  readonly #open: OpenTimeline<unknown>
  readonly #onOver: () => void
  readonly #ttlMs: number
  #until = 0
  #timer: NodeJS.Timeout | undefined

  private constructor(
    engine: Reprise,
    open: OpenTimeline<unknown>,
    { holder, ttlMs, token }: Pick<LeaseRequest, 'holder' | 'ttlMs'> & { readonly token: number },
    onOver: () => void,
  ) {
    this.#engine = engine
    this.#open = open
    this.token = token
    this.holder = holder
    this.#ttlMs = ttlMs
    this.#onOver = onOver
    this.renew()
  }

  static async take(engine: Reprise, id: TimelineId, request: LeaseRequest, onOver: () => void): Promise<Lease> {
    const { takeover, waitMs, holder, ttlMs } = request
    const open = await hostOf(engine).openTimeline(id, foldOf(engine, id), { takeover, wait: waitMs })
    const token = leaseNumber(await markOf(engine, () => open.origin), open.epoch)
    await marked(open, { token, holder, ttlMs })
    return new Lease(engine, open, { ...request, token }, onOver)
  }

  /** Continues a lease that a client got from another server. Null: the lease is over. */
  static async continue(engine: Reprise, id: TimelineId, token: number, onOver: () => void): Promise<Lease | null> {
    const head = await engine.head(id)
    if (!head || leaseAt(head)?.token !== token) return null
    // A restored store contains the mark of a lease from before its backup.
    const origin = () => hostOf(engine).identity.origin(head)
    if (epochOfLease(await markOf(engine, origin), token) === null) return null
    const open = await hostOf(engine).openTimeline(id, foldOf(engine, id), { takeover: true })
    // Compares with the mark of the previous epoch, so that a lease that began after the read is not displaced permanently.
    const mark = leaseAt(await engine.head(id), open.epoch - 1)
    if (mark) await marked(open, mark)
    if (mark?.token === token) return new Lease(engine, open, { ...mark, token }, onOver)
    await open.shut()
    return null
  }

  get view(): LeaseView {
    const { timeline, seq, digest } = this.#open.coordinate
    return { timeline, epoch: this.token, seq, digest, holder: this.holder, until: this.#until }
  }

  /** Another owner took over, or this process was declared dead. */
  get isLost(): boolean {
    return this.#open.broken !== null || this.#open.closing !== null
  }

  /** The current epoch of the timeline, under which this process writes. */
  get epoch(): number {
    return this.#open.epoch
  }

  /** FENCED: another server continued the lease, or another client took it. The store decides. */
  async checkHeld(): Promise<void> {
    const { timeline } = this.#open.coordinate
    if (!this.isLost && (await this.#engine.head(timeline))?.epoch === this.epoch) return
    await this.leave().catch(() => undefined)
    throw new RepriseError('FENCED', `${timeline} was taken over`, { timeline, epoch: this.token })
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

  /** Ends the lease after the writes in progress; the timeline is free at once. */
  async end(): Promise<void> {
    clearTimeout(this.#timer)
    this.#onOver()
    await this.#open.shut({ attributes: noLease })
  }

  /** Releases the timeline when this server closes: the client continues at another one, unless the timeline is taken first. */
  async leave(): Promise<void> {
    clearTimeout(this.#timer)
    this.#onOver()
    await this.#open.shut()
  }
}

/** Without the rollbacks of the timeline: its holder may roll it back under the lease. */
async function markOf(engine: Reprise, origin: () => { readonly identity: string }): Promise<string> {
  const { hash, identity } = hostOf(engine)
  // The origin needs the identity of the store.
  const store = await identity.current()
  return historyMark(hash, store, [{ identity: origin().identity, generation: 0 }])
}

/** Processes that write the timeline in turns must not treat it as free between two writes. */
async function marked(open: OpenTimeline<unknown>, mark: Omit<LeaseMark, 'epoch'>): Promise<void> {
  await open.write([], { attributes: leaseMark({ ...mark, epoch: open.epoch }) }).catch(async (error) => {
    await open.shut().catch(() => undefined)
    throw error
  })
}
