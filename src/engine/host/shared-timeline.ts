// A timeline that several processes use in turns, as adapters for third-party frameworks need: the writer owns it,
// under an epoch; a process that was overtaken notices by that epoch, waits for its turn (shared-turns.ts), takes the
// timeline and retries on the current state. Reads take nothing, and never miss an acknowledged write: the head is read
// each time, and a timeline that this process does not own is followed.

import type { TimelineId } from '../../core/coordinate.ts'
import { ignoring, isReprise, orElse, RepriseError } from '../../core/errors.ts'
import { UnreadPages } from '../../core/keyed-state/page.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Head } from '../../core/store/ports.ts'
import { Condition, Mutex } from '../../lib/waiting.ts'
import { refusalError } from '../base/refusal-error.ts'
import type { Replica } from '../feed/replica.ts'
import { archivesOf } from '../history/locate.ts'
import { damageOf, isDamage, recover } from '../history/recover.ts'
import type { Fold } from '../model/definition.ts'
import { TurnOrder } from '../ownership/shared-turns.ts'
import { submit } from '../storage/kernel.ts'
import type { NewEntry, OpenTimeline } from '../writing/timeline.ts'
import type { Written } from '../writing/writer.ts'
import type { Host } from './host.ts'

/** The entry to write on a state, and the result once it is written. */
export interface Intended<T> {
  readonly entry: NewEntry | null
  done(written: Written): T
}

const attemptsMax = 8
/** How long a write waits for its turn before it fails. */
const patienceMs = 30_000
const overtaken = ['FENCED', 'CONFLICT', 'OUTCOME_UNKNOWN', 'OWNED', 'WORKER_RETIRED', 'NOT_FOUND'] as const

export class SharedTimeline<State> {
  readonly id: TimelineId
  readonly #engine: Host
  readonly #fold: Fold<State>
  readonly #onReload: () => void
  #open: OpenTimeline<State> | null = null
  #opening: Promise<OpenTimeline<State>> | null = null
  #replica: Replica<State, OpenTimeline<State>> | null = null
  /** Set after a page was damaged: the state is then read completely, so that damage is found before it is relied on. */
  #isWhole = false
  readonly #turns: TurnOrder
  /** True if anything was written since it was taken. */
  #hasWritten = false
  #writesUnderWay = 0
  readonly #alone = new Mutex()
  readonly #written = new Condition()

  /** `onReload` is called when cached parts of the state may no longer be valid. */
  constructor(engine: Host, id: TimelineId, fold: Fold<State>, onReload: () => void = () => undefined) {
    this.#engine = engine
    this.id = id
    this.#fold = fold
    this.#onReload = onReload
    this.#turns = new TurnOrder(engine.kernel)
  }

  get isBusy(): boolean {
    return this.#writesUnderWay > 0 || this.#opening !== null
  }

  /** The current state; null if there is no such timeline. Use it before the next await. */
  async read(): Promise<State | null> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#read()
      } catch (error) {
        // Following may touch a missing page: a complete read uses another checkpoint.
        const isPageLost = this.#replica !== null && !this.#isWhole && isDamage(error)
        if (attempt >= attemptsMax || !(isPageLost || isReprise(error, ...overtaken))) throw error
        if (isPageLost) this.#isWhole = true
        this.#drop()
      }
    }
  }

  /**
   * The result of `view` on the current state; null if there is no such timeline. For a paged state, `view` is called
   * again once the pages that it needs are read.
   */
  async look<T>(view: (state: State) => T): Promise<T | null> {
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      const state = await this.read()
      if (state === null) return null
      const seen = await this.#see(state, view)
      if (seen) return seen.result
    }
    throw new RepriseError('CHECKPOINT_DAMAGED', `${this.id}: its pages cannot be read`, { timeline: this.id })
  }

  /**
   * Writes the entry that `make` returns for the current state. Called again, on newer state, if this process was
   * overtaken: its entry must therefore be harmless when written twice.
   */
  async write<T>(make: (state: State) => Intended<T>): Promise<T> {
    if (!this.#alone.isFree) await this.#alone.run(() => undefined)
    this.#writesUnderWay += 1
    try {
      return await this.#write(make)
    } finally {
      this.#writesUnderWay -= 1
      this.#written.changed()
    }
  }

  /** Like write, without a concurrent write of this process. */
  async writeAlone<T>(make: (state: State) => Intended<T>): Promise<T> {
    return await this.#alone.run(async () => {
      await this.#written.until(() => this.#writesUnderWay === 0)
      return await this.#write(make)
    })
  }

  async checkpoint(trigger: string): Promise<void> {
    await this.#owning(async (open) => ({ result: await open.checkpoint({ trigger }) }))
  }

  /**
   * Removes it with its history, its checkpoints and the archives of its rollbacks. PINNED if a fork or a savepoint
   * needs any of them, which are then untouched. No write of this process runs at the same time.
   */
  async remove(): Promise<void> {
    await this.#alone.run(async () => {
      await this.#written.until(() => this.#writesUnderWay === 0)
      await this.close()
      await this.#forget(this.id)
      // Newest first: each archive is a fork of the one before it.
      const archives = await archivesOf(this.#engine.kernel, this.id)
      for (const { timeline } of archives.sort((a, b) => numberOf(b) - numberOf(a))) await this.#forget(timeline)
    })
  }

  async #forget(id: TimelineId): Promise<void> {
    const { kernel } = this.#engine
    for (let attempt = 1; ; attempt++) {
      const head = await this.#engine.head(id)
      if (!head) return
      const outcome = await submit(kernel, {
        guard: guardOf(head),
        forget: true,
      })
      if (outcome.ok) return
      const hasMoved = outcome.code === 'FENCED' || outcome.code === 'CONFLICT'
      if (attempt >= attemptsMax || !hasMoved) throw refusalError(id, outcome)
    }
  }

  /** Releases it; the next use opens it again. */
  async close(): Promise<void> {
    const open = this.#open ?? (await this.#opening?.catch(() => null))
    this.#drop()
    // Another process may own it by now: then there is nothing to release.
    await open?.close().catch(ignoring(...overtaken))
  }

  async #read(): Promise<State | null> {
    const head = await this.#engine.head(this.id)
    if (!head) {
      this.#drop()
      return null
    }
    const open = this.#open ?? (await this.#opening)
    if (open && isUsable(open) && open.epoch === head.epoch) return open.state
    const isFirst = this.#replica === null
    const replica = await this.#following()
    const owned = isFirst && replica.recovery.skipped.length > 0 ? await this.#ownToMark(head) : null
    return (owned ?? replica).state
  }

  async #write<T>(make: (state: State) => Intended<T>): Promise<T> {
    return await this.#owning(async (open) => {
      const made = await this.#see(open.state, make, (intended) => intended.entry && open.fetch(intended.entry))
      if (!made) return null
      const { entry, done } = made.result
      const written = await open.write(entry ? [entry] : [])
      this.#hasWritten = true
      this.#turns.written()
      return { result: done(written) }
    })
  }

  /** Runs the work as the owner, again if this process was overtaken. The work returns null if the state must be read again. */
  async #owning<T>(work: (open: OpenTimeline<State>) => Promise<{ readonly result: T } | null>): Promise<T> {
    const { clock } = this.#engine.kernel
    const until = clock.elapsed() + patienceMs
    for (let unread = 0; ; ) {
      try {
        const done = await work(await this.#own(until))
        if (done) return done.result
        unread += 1
        if (unread >= attemptsMax) {
          throw new RepriseError('CHECKPOINT_DAMAGED', `${this.id}: its pages cannot be read`, { timeline: this.id })
        }
      } catch (error) {
        if (!isReprise(error, ...overtaken)) throw error
        if (clock.elapsed() >= until) {
          const seconds = patienceMs / 1000
          throw new RepriseError(
            'TIMEOUT',
            `${this.id}: this process could not write within ${seconds} s: other processes kept writing`,
            {},
            error,
          )
        }
        if (!this.#hasWritten) this.#turns.lost()
        this.#drop()
        await this.#turns.pause(1)
      }
    }
  }

  /** Null: the state was based on damaged pages and dropped, and must be read again. */
  async #see<T>(
    state: State,
    view: (state: State) => T,
    fetch: (seen: T) => Promise<unknown> | null = () => null,
  ): Promise<{ readonly result: T } | null> {
    for (;;) {
      let reading: Promise<unknown> | null
      try {
        const result = view(state)
        reading = fetch(result)
        if (!reading) return { result }
      } catch (error) {
        if (!(error instanceof UnreadPages)) throw error
        reading = error.read()
      }
      // Called again from the start: the state may have changed while its pages were read.
      const damage = await reading.then(() => null, damageOf)
      if (damage === null) continue
      await this.#leave(damage)
      return null
    }
  }

  /**
   * A page cannot be read. If an older checkpoint or history can replace its checkpoint, that one is marked and no
   * longer used.
   * Otherwise the caller that needs the page gets the damage, and the other pages stay readable.
   */
  async #leave(damage: RepriseError): Promise<void> {
    const head = await this.#engine.head(this.id)
    if (head) {
      const { damaged } = await recover(this.#engine.kernel, head, this.#fold).catch((error) => {
        throw isReprise(error, 'UNRECOVERABLE') ? damage : error
      })
      const open = this.#open ?? (damaged.length > 0 ? await this.#ownToMark(head) : null)
      if (open && !open.broken) {
        for (const { record, reason } of damaged) await open.mark({ id: record.id, invalid: reason })
        open.break(new RepriseError('FENCED', `${this.id}: ${damage.message}`, { timeline: this.id }, damage))
      }
      // Nothing is damaged: the page was collected, because its checkpoint was replaced after this state was read.
      this.#isWhole ||= damaged.length > 0
    }
    this.#drop()
  }

  /** A reader takes a timeline without an owner to mark the damage, so that other processes need not find it again. */
  async #ownToMark(head: Head): Promise<OpenTimeline<State> | null> {
    if (this.#isElsewhere(head) || (await this.#engine.kernel.store.upkeep.facts()).isReadOnly) return null
    this.#drop()
    return await this.#own(this.#engine.kernel.clock.elapsed() + patienceMs).catch(orElse(null, ...overtaken))
  }

  /** Reads the entries of other processes up to the current head. */
  async #following(): Promise<Replica<State, OpenTimeline<State>>> {
    const known = this.#replica
    const replica = known ?? (await this.#follow())
    this.#replica = replica
    const { state, coordinate } = replica
    if (known) await replica.refresh()
    // Cached parts of the state may have been changed by other processes, or belong to a branch that was rolled back.
    if (!known || replica.state !== state || replica.coordinate.seq !== coordinate.seq) this.#onReload()
    return replica
  }

  async #follow(): Promise<Replica<State, OpenTimeline<State>>> {
    const cut = this.id.indexOf('/') + 1
    const definition = { prefix: this.id.slice(0, cut), fold: this.#fold }
    return await this.#engine.follow(definition, this.id.slice(cut), { isPassive: true, isWhole: this.#isWhole })
  }

  async #own(until: number): Promise<OpenTimeline<State>> {
    if (this.#open && isUsable(this.#open)) return this.#open
    if (this.#open) this.#drop()
    this.#opening ??= this.#take(until).finally(() => {
      this.#opening = null
    })
    return await this.#opening
  }

  async #take(until: number): Promise<OpenTimeline<State>> {
    const look = () => this.#engine.head(this.id)
    await this.#turns.mine(look, (head) => this.#isElsewhere(head), until)
    this.#hasWritten = false
    const head = await look()
    const isElsewhere = head !== null && this.#isElsewhere(head)
    // Continues with the state already read, unless another handle of this process has the timeline.
    if (head && this.#replica && head.owner !== this.#engine.kernel.worker.id) {
      const replica = this.#replica
      const { state, coordinate } = replica
      this.#replica = null
      const open = await replica.takeOver({ takeover: isElsewhere })
      if (open.state !== state || open.seq !== coordinate.seq) this.#onReload()
      this.#open = open
      return open
    }
    const open = await this.#engine.openTimeline(this.id, this.#fold, { takeover: isElsewhere })
    this.#drop()
    this.#open = open
    return open
  }

  #isElsewhere(head: Head): boolean {
    return head.owner !== null && head.isOwnerAlive && head.owner !== this.#engine.kernel.worker.id
  }

  #drop(): void {
    this.#open = null
    this.#replica?.close()
    this.#replica = null
    this.#onReload()
  }
}

/** A rollback in this process also closes it, for all holders. */
function isUsable(open: OpenTimeline<unknown>): boolean {
  return !open.broken && !open.closing
}

function numberOf({ timeline }: Head): number {
  return Number(/~(\d+)$/.exec(timeline)?.[1])
}
