// One kind of resource that is open in this process, shared by all its handles, watchers and controllers. Changes requested
// in the same tick are decided one after another and written as one commit, which applies only if no other writer wrote since
// the state was read; otherwise all are decided again on the new state. Each object changes at most once per commit.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { type Era, firstRevision } from '../../core/identity.ts'
import { pollEvery } from '../../engine/feed/wake-up.ts'
import type { Point } from '../../engine/history/history.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { isLost } from '../../engine/ownership/contest.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { refuseNotHere } from '../../engine/storage/moved-mark.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import type { TurnTimeline } from '../../engine/writing/turn-timeline.ts'
import { TurnWriter } from '../../engine/writing/turn-writer.ts'
import { SharedRead } from '../../lib/waiting.ts'
import { type ChangePage, changesAfter, isInHistory, type ReadPoint } from './history.ts'
import { Revisions } from './revisions.ts'
import { ChangeWindow } from './rules/change-window.ts'
import type { Draft, ResourceObject } from './rules/object.ts'
import { type Change, changeOf, checkFence, checkRaised, entryFor, type ResourceState } from './rules/state.ts'
import type { Fence, SharedResource, WriteRequest } from './shared-resource.ts'

interface Request extends Partial<WriteRequest> {
  /** Written instead of a change of an object. */
  readonly entry?: NewEntry
  resolve(change: Change | null): void
  reject(error: unknown): void
}

/** Decisions made on one state. Callers receive their results only after the state is known to be current. */
interface Round {
  readonly entries: readonly NewEntry[]
  readonly written: readonly { readonly request: Request; readonly index: number }[]
  readonly verdicts: readonly (() => void)[]
  readonly rest: readonly Request[]
}

const batchMax = 1000
const pollMs = 500

export class OpenResource implements SharedResource {
  readonly timeline: TimelineId
  readonly engine: Host
  readonly #turns: TurnTimeline<ResourceState>
  readonly #writer: TurnWriter<ResourceState>
  readonly #waitMs: number
  readonly revisions = new Revisions(() => this.#era())
  #eraOf: { readonly store: unknown; readonly open: unknown; readonly era: Era } | null = null
  readonly #waiters = new Set<() => void>()
  #queue: Request[] = []
  #isWriting = false
  #window: ChangeWindow
  /** The last point of history that was read, and a point that must be confirmed because the state was reloaded. */
  #seen: Point
  #suspect: Point | null = null
  /** Incremented when history turned out to be a different one. */
  #branch = 0
  readonly #reads = new SharedRead(() => this.#read())
  #followers = 0
  #stopFollowing: (() => void) | null = null
  #isClosed = false

  constructor(engine: Host, turns: TurnTimeline<ResourceState>, waitMs: number) {
    this.engine = engine
    this.timeline = turns.id
    this.#turns = turns
    this.#writer = new TurnWriter(turns, waitMs)
    this.#waitMs = waitMs
    this.#window = this.#newWindow()
    this.#seen = this.#point()
    turns.watch((entries) => this.#onEntries(entries))
  }

  /** Cached while the store and the timeline stay the same, because every object of a long list needs it. */
  #era(): Era {
    const { known } = this.engine.identity
    const { open } = this.#turns
    if (this.#eraOf?.store !== known || this.#eraOf?.open !== open) {
      const era = { era: known?.era ?? 0, life: open.life, first: firstRevision(open.origin.identity) }
      this.#eraOf = { store: known, open, era }
    }
    return this.#eraOf!.era
  }

  get kind(): string {
    return this.timeline.slice(this.timeline.indexOf('/') + 1)
  }

  get open() {
    return this.#turns.open
  }

  /** The state as this process last read it. */
  get state(): ResourceState {
    return this.#turns.open.state
  }

  get revision(): number {
    return this.#turns.open.seq
  }

  get window(): ChangeWindow {
    return this.#window
  }

  get branch(): number {
    return this.#branch
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Resolves when the change is durable, with the changed object, or null if nothing changed. */
  change(request: WriteRequest): Promise<Change | null> {
    return this.#submit(request)
  }

  /**
   * From here on, writes of an earlier owner of the controller are refused. Objects imported from another store keep that
   * store's fences, which may be higher: then this owner receives the next one.
   */
  async raiseFence({ by, epoch: owned }: Fence): Promise<Fence> {
    for (let epoch = owned; ; ) {
      try {
        await this.#submit({ entry: { type: 'fence', data: { by, epoch } } })
        return { by, epoch }
      } catch (error) {
        if (!isReprise(error, 'FENCED') || error.data.by !== by) throw error
        const [head] = await this.engine.heads([timelineId(by)])
        if (head?.epoch !== owned) throw error
        epoch = (error.data.epoch as number) + 1
      }
    }
  }

  /** Reads the commits of other processes; takes over no ownership. */
  refresh(): Promise<void> {
    return this.#reads.run()
  }

  async read(name: string): Promise<ResourceObject | undefined> {
    await this.refresh()
    return this.state.objects.get(name)
  }

  changesAfter(after: ReadPoint, limit: number): Promise<ChangePage> {
    return changesAfter(this.engine.kernel, this.timeline, after, limit, {
      outside: (seq) => this.revisions.outside(seq),
    })
  }

  /** Publishes a checkpoint of the current state. */
  checkpoint(request: Parameters<TurnTimeline<ResourceState>['open']['checkpoint']>[0]) {
    return this.#writer.inTurn(async () => {
      await this.#turns.refresh()
      if (!this.#turns.exists) await this.#turns.own(this.#waitMs, () => true)
      return await this.#turns.open.checkpoint(request)
    })
  }

  /** Until the returned function is called, changes of other processes are noticed as they happen. */
  follow(): () => void {
    this.#followers += 1
    this.#stopFollowing ??= this.#startFollowing()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#followers -= 1
      if (this.#followers > 0) return
      this.#stopFollowing?.()
      this.#stopFollowing = null
    }
  }

  /** False: history must be read again before any change counts as new. */
  get isSettled(): boolean {
    return this.#suspect === null
  }

  /** Calls `call` at the next change or on close. The returned function cancels the wait. */
  onNews(call: () => void): () => void {
    this.#waiters.add(call)
    return () => this.#waiters.delete(call)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#stopFollowing?.()
    this.#stopFollowing = null
    this.#wake()
    await this.#writer.inTurn(() => this.#turns.close())
  }

  #submit(request: Omit<Request, 'resolve' | 'reject'>): Promise<Change | null> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...request, resolve, reject })
      if (this.#isWriting) return
      this.#isWriting = true
      // Deferred: all changes requested in this tick belong to one batch.
      queueMicrotask(() => void this.#work())
    })
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) await this.#settle(this.#queue.splice(0, batchMax))
    this.#isWriting = false
  }

  async #settle(batch: readonly Request[]): Promise<void> {
    for (let waiting = batch; waiting.length > 0; ) {
      const key = newId(this.engine.random)
      const decided: { round: Round | null } = { round: null }
      try {
        const written = await this.#writer.write((state) => {
          // The reply to an earlier attempt was lost, but its commit is in history.
          if (decided.round !== null && this.#turns.open.hasKey(key)) return []
          decided.round = this.#decide(waiting, state, key)
          return decided.round.entries
        })
        const isNew = written.count > 0 && !written.isDuplicate
        const first = isNew ? written.first : (this.#turns.open.seqOfKey(key) ?? 0)
        waiting = this.#answer(decided.round!, first)
      } catch (error) {
        if (waiting.length === 1 || isLost(error) || isReprise(error, 'CONTENDED', 'CLOSED')) {
          for (const { reject } of waiting) reject(error)
          return
        }
        // One request is at fault, for example with a value that is too large: write each one separately.
        for (const request of waiting) await this.#settle([request])
        return
      }
    }
  }

  #decide(batch: readonly Request[], state: ResourceState, key: string): Round {
    const now = this.engine.clock.now()
    const entries: NewEntry[] = []
    const written: { request: Request; index: number }[] = []
    const verdicts: (() => void)[] = []
    const rest: Request[] = []
    const touched = new Set<string>()
    for (const request of batch) {
      const { name, decide, fence, entry } = request
      // The second change of an object is decided on the result of the first, including its revision.
      if (name !== undefined && touched.has(name)) {
        rest.push(request)
        continue
      }
      try {
        if (fence && !this.engine.planted.has('unfenced-status')) checkFence(state, fence)
        if (entry) checkRaised(state, entry.data as Fence)
        const before = name === undefined ? undefined : state.objects.get(name)
        const after = decide?.(before, now) ?? null
        if (name !== undefined && after === null) {
          verdicts.push(() => request.resolve(null))
          continue
        }
        const { type, data } = entry ?? entryFor(before ?? null, before ? after! : this.#named(after!))
        written.push({ request, index: entries.length })
        entries.push({ type, data, ...(entries.length === 0 ? { key } : { partOf: key }) })
        if (name !== undefined) touched.add(name)
      } catch (error) {
        verdicts.push(() => request.reject(error))
      }
    }
    return { entries, written, verdicts, rest }
  }

  /** A new object has a uid of its own: after a restore or a delete of the kind, a sequence is used again. */
  #named(made: Draft | 'gone'): Draft | 'gone' {
    if (made === 'gone' || made.uid !== undefined) return made
    return {
      ...made,
      uid: `${this.timeline.slice(this.timeline.indexOf('/') + 1)}@${newId(this.engine.random)}`,
    }
  }

  #answer({ entries, written, verdicts, rest }: Round, first: number): readonly Request[] {
    const { timeline } = this
    for (const { request, index } of written) {
      const { type, data } = entries[index]!
      request.resolve(changeOf({ timeline, seq: first + index, type, data }))
    }
    for (const notify of verdicts) notify()
    return rest
  }

  #read(): Promise<void> {
    return this.#writer.inTurn(async () => {
      await this.#turns.refresh()
      const suspect = this.#suspect
      if (!suspect) return
      if (!(await isInHistory(this.engine.kernel, this.timeline, suspect))) this.#branch += 1
      if (this.#suspect === suspect) this.#suspect = null
      this.#wake()
    })
  }

  #startFollowing(): () => void {
    const { store, clock } = this.engine.kernel
    const look = () => this.#lookForNews()
    const stops = [store.listen(() => void look()), pollEvery(clock, pollMs, look, undefined, true)]
    return () => {
      for (const stop of stops) stop()
    }
  }

  #isLooking = false
  #mustLookAgain = false
  #trouble: unknown = null

  /** An error that waiting does not resolve: the timeline was moved or cannot be read. Null: no such error. */
  get trouble(): unknown {
    return this.#trouble
  }

  /** Reads the head without blocking writes, and reads history only if it has new entries. Errors are retried. */
  async #lookForNews(): Promise<void> {
    this.#mustLookAgain = true
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      while (this.#mustLookAgain && !this.#isClosed) {
        this.#mustLookAgain = false
        const [head] = await this.engine.heads([this.timeline])
        if (head) refuseNotHere(head)
        const { open } = this
        const isNew = head ? head.seq !== open.seq || head.epoch !== open.epoch : open.seq > 0
        if (isNew || this.#suspect) await this.refresh()
        this.#trouble = null
      }
    } catch (error) {
      if (this.#isClosed || isReprise(error, 'CLOSED')) return
      this.engine.events.emit('problem', { where: this.timeline, error })
      if (isReprise(error) && (error.remedy === 'retry' || error.remedy === 'reload')) return
      this.#trouble = error
      this.#wake()
    } finally {
      this.#isLooking = false
    }
  }

  #onEntries(entries: readonly Entry[]): void {
    if (entries.length === 0) {
      // The state was reloaded: history may only have been trimmed beyond this process's position, or may be a different one.
      this.#suspect ??= this.#seen
      this.#window = this.#newWindow()
    }
    const { objects } = this.state
    for (const entry of entries) {
      const change = changeOf(entry)
      if (!change) {
        this.#window.add(entry.seq, null)
        continue
      }
      // The state and all watchers share one value.
      const held = objects.get(change.object.name)
      const object = held?.revision === change.revision ? held : change.object
      this.#window.add(entry.seq, { ...change, object })
    }
    this.#seen = this.#point()
    this.#wake()
  }

  #wake(): void {
    for (const call of [...this.#waiters]) call()
  }

  #point(): Point {
    const { seq, digest } = this.#turns.open
    return { seq, digest }
  }

  #newWindow(): ChangeWindow {
    const { watchedChanges, watchedBytes } = this.engine.limits
    return new ChangeWindow(this.#turns.open.seq, { changes: watchedChanges, bytes: watchedBytes })
  }
}
