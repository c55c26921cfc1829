// The open timelines of this process: each once, shared by all callers that open it with the same fold; opened under a
// new epoch and recovered, or adopted from a claim. All are released when the engine closes, and lost when the worker
// is declared dead.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { isHeadLost } from '../../core/history/lost-head.ts'
import type { Head } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import type { Failing } from '../base/worker.ts'
import { policyToStore } from '../checkpoint/stored-policy.ts'
import { type Recovered, recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import type { Fold, OpenOptions } from '../model/definition.ts'
import { madeAgain } from '../ownership/lost-head.ts'
import { giveBack, headUnder, takeTimeline } from '../ownership/take-timeline.ts'
import { type Kernel, submit } from '../storage/kernel.ts'
import { createTimeline, type FirstEntries } from './create.ts'
import { OpenTimeline } from './timeline.ts'
import type { CommitExtras } from './writer.ts'

interface Held {
  readonly fold: Fold<unknown>
  /** The timeline itself once it is open. */
  opening: Promise<OpenTimeline<unknown>> | OpenTimeline<unknown>
}

export class OpenTimelines {
  readonly #kernel: Kernel
  readonly #held = new Map<TimelineId, Held>()
  /** Timelines written in turns, whichever process owns them now. */
  readonly #shared = new Set<OpenTimeline<unknown>>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    kernel.worker.watchFailing(() => this.#failing())
  }

  has(id: TimelineId): boolean {
    return this.#held.has(id)
  }

  /** The timeline that is open (or being opened) under this id. */
  async get(id: TimelineId): Promise<OpenTimeline<unknown> | undefined> {
    return await this.#held.get(id)?.opening
  }

  async open<State>(id: TimelineId, fold: Fold<State>, options: OpenOptions): Promise<OpenTimeline<State>> {
    for (let held = this.#held.get(id); held && !options.takeover; held = this.#held.get(id)) {
      if (held.fold !== fold) {
        throw new RepriseError('OWNED', `${id} is open in this process with another definition`, { timeline: id })
      }
      const open = (await held.opening) as OpenTimeline<State>
      if (!open.broken && !open.closing) return open.share()
      // A closing timeline still writes its last commit: a new epoch before that would fence it.
      await open.closing?.catch(() => undefined)
      if (this.#held.get(id) === held) this.#held.delete(id)
    }
    return await this.#keep(id, fold, this.#take(id, fold, options))
  }

  /** Opens it under the epoch of a claim. */
  async adopt<State>(head: Head, fold: Fold<State>): Promise<OpenTimeline<State>> {
    return await this.#keep(head.timeline, fold, this.#adopt(head, fold))
  }

  /** Opens it with state that was already read. */
  promote<State>(head: Head, fold: Fold<State>, recovered: Recovered<State>): OpenTimeline<State> {
    return this.#keepOpen(fold, this.#make(head, fold, recovered))
  }

  /** Read, and written in turns with other processes (turn-timeline.ts): held here only while this process owns it. */
  share<State>(
    head: Pick<Head, 'timeline' | 'life' | 'epoch' | 'base'>,
    fold: Fold<State>,
    recovered: Recovered<State>,
  ): OpenTimeline<State> {
    const forget = () => {
      if (this.#held.get(head.timeline)?.opening === (open as unknown)) this.#held.delete(head.timeline)
    }
    const end = () => {
      forget()
      this.#shared.delete(open as unknown as OpenTimeline<unknown>)
    }
    let { damaged } = recovered
    const open: OpenTimeline<State> = new OpenTimeline(this.#kernel, head, fold, recovered, end, {
      isOwner: false,
      onTaken: () => {
        this.#keepOpen(fold, open)
        this.#markDamaged(open, damaged)
        damaged = []
      },
      onLost: forget,
    })
    this.#shared.add(open as unknown as OpenTimeline<unknown>)
    return open
  }

  /** Creates it with its first entries, in one commit. Null if it exists already. */
  create<State>(
    id: TimelineId,
    fold: Fold<State>,
    entries: FirstEntries,
    extras: CommitExtras,
  ): Promise<OpenTimeline<State> | 'released' | null> {
    return createTimeline(this.#kernel, id, fold, entries, extras, (created) => {
      if (!created) return null
      return extras.release ? 'released' : this.promote(created.head, fold, created.recovered)
    })
  }

  /** Releases all timelines. */
  async shut(): Promise<void> {
    const open = await Promise.allSettled([...this.#held.values()].map((held) => held.opening))
    await Promise.allSettled(open.map((result) => (result.status === 'fulfilled' ? result.value.shut() : undefined)))
    await Promise.allSettled([...this.#shared].map((each) => each.shut()))
  }

  /** This worker was declared dead: it must no longer write. */
  fenceAll(): void {
    for (const [timeline, held] of this.#held) {
      const error = new RepriseError('FENCED', `${timeline}: this worker was declared dead`, { timeline })
      Promise.resolve(held.opening)
        .then((open) => open.break(error))
        .catch(() => undefined)
    }
  }

  *#failing(): Generator<Failing> {
    for (const [timeline, { opening }] of this.#held) {
      const failing = opening instanceof OpenTimeline ? opening.failing : null
      if (failing) yield { timeline, ...failing }
    }
  }

  async #keep<State>(
    id: TimelineId,
    fold: Fold<State>,
    opening: Promise<OpenTimeline<State>>,
  ): Promise<OpenTimeline<State>> {
    const held: Held = {
      fold: fold as Fold<unknown>,
      opening: opening as unknown as Promise<OpenTimeline<unknown>>,
    }
    this.#held.set(id, held)
    try {
      const open = await opening
      held.opening = open as unknown as OpenTimeline<unknown>
      // The timeline failed during its opening, before it was registered here.
      if (open.broken && this.#held.get(id) === held) this.#held.delete(id)
      return open
    } catch (error) {
      if (this.#held.get(id) === held) this.#held.delete(id)
      throw error
    }
  }

  #keepOpen<State>(fold: Fold<State>, open: OpenTimeline<State>): OpenTimeline<State> {
    this.#held.set(open.id, { fold: fold as Fold<unknown>, opening: open as unknown as OpenTimeline<unknown> })
    return open
  }

  async #take<State>(id: TimelineId, fold: Fold<State>, options: OpenOptions): Promise<OpenTimeline<State>> {
    const head = await takeTimeline(this.#kernel, id, options)
    try {
      return await this.#recover(head, fold, !options.evenInvalid)
    } catch (error) {
      await giveBack(this.#kernel, head)
      throw error
    }
  }

  /**
   * A claim writes only the epoch: if this code's declaration differs from the stored one, it is written now from the stored one.
   */
  async #adopt<State>(claimed: Head, fold: Fold<State>): Promise<OpenTimeline<State>> {
    const head = isHeadLost(claimed) ? await madeAgain(this.#kernel, claimed) : claimed
    const attributes = policyToStore(this.#kernel, head.timeline, head, true)
    if (!attributes) return await this.#recover(head, fold, true)
    const guard = { timeline: head.timeline, epoch: head.epoch }
    const outcome = await submit(this.#kernel, { guard, attributes })
    if (!outcome.ok) throw refusalError(head.timeline, outcome)
    return await this.#recover({ ...head, attributes: { ...head.attributes, ...attributes } }, fold, true)
  }

  async #recover<State>(head: Head, fold: Fold<State>, mustBeValid: boolean): Promise<OpenTimeline<State>> {
    let known: Head | null = head
    const recovered = await retryWithFreshHead(async () => {
      const current = known ?? (await headUnder(this.#kernel, head.timeline, head.epoch))
      known = null
      return await recover(this.#kernel, current, fold, { isPaged: true, mustBeValid })
    })
    const open = this.#make(head, fold, recovered)
    for (const { record, reason } of recovered.damaged) await open.mark({ id: record.id, invalid: reason })
    if (recovered.cleared) await open.mark({ id: recovered.cleared.id, invalid: null })
    const { events } = this.#kernel
    events.emit('recovered', { timeline: head.timeline, report: recovered.report })
    events.emit('opened', { timeline: head.timeline, epoch: head.epoch, report: recovered.report })
    return open
  }

  /** Found during the recovery, before this process owned the timeline: marked once it does. */
  #markDamaged<State>(open: OpenTimeline<State>, damaged: Recovered<State>['damaged']): void {
    for (const { record, reason } of damaged) {
      open.mark({ id: record.id, invalid: reason }).catch((error) => {
        this.#kernel.events.emit('problem', { where: open.id, error })
      })
    }
  }

  #make<State>(head: Head, fold: Fold<State>, recovered: Recovered<State>): OpenTimeline<State> {
    const open: OpenTimeline<State> = new OpenTimeline(this.#kernel, head, fold, recovered, () => {
      const held = this.#held.get(head.timeline)
      if (held?.opening === (open as unknown)) this.#held.delete(head.timeline)
    })
    return open
  }
}
