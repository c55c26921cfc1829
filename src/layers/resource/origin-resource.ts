// Objects that another API server holds, presented like local ones: a cache built from a list and every change since, and
// writes that apply only to the object they were decided on. When its position in the changes is gone, it lists again and
// reports the differences as changes in order of revisions, so watchers of the cache see no gap and no duplicate.

import { assert } from '../../core/assert.ts'
import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import type { Host } from '../../engine/host/host.ts'
import { SharedRead, sleep } from '../../lib/waiting.ts'
import { type ChangePage, type ReadPoint, revisionGone } from './history.ts'
import type { ListOptions, ResourceList } from './list.ts'
import type { OriginCollection, OriginEvent, OriginObject } from './origin.ts'
import { Revisions } from './revisions.ts'
import { ChangeWindow } from './rules/change-window.ts'
import { equalJson } from './rules/json.ts'
import type { Draft, ResourceObject } from './rules/object.ts'
import { type SelectorText, selectorOf } from './rules/selector.ts'
import { type Change, checkFence, initialResources, type ResourceState } from './rules/state.ts'
import type { Fence, SharedResource, WriteRequest } from './shared-resource.ts'

const pageItems = 500
const shortestPauseMs = 20
const longestPauseMs = 5000
const conflictsMax = 50

export class OriginResource implements SharedResource {
  readonly engine: Host
  readonly timeline: TimelineId
  readonly kind: string
  readonly #origin: OriginCollection
  readonly #waiters = new Set<() => void>()
  readonly #closing = new AbortController()
  #state: ResourceState = initialResources()
  #window: ChangeWindow
  /** Revisions are the other server's own. */
  readonly revisions = new Revisions(() => ({ era: 0, life: 1, first: 0 }))
  #revision = 0
  #branch = 0
  #hasListed = false
  readonly #reads = new SharedRead(() => this.#relist())
  #followers = 0
  /** The watch in progress. */
  #stream: { readonly stop: AbortController; readonly over: Promise<void> } | null = null

  constructor(engine: Host, kind: string, origin: OriginCollection) {
    this.engine = engine
    this.kind = kind
    this.timeline = timelineId(`resource/${kind}`)
    this.#origin = origin
    this.#window = this.#newWindow()
  }

  get open(): never {
    throw elsewhere(this.#origin)
  }

  get state(): ResourceState {
    return this.#state
  }

  get revision(): number {
    return this.#revision
  }

  get window(): ChangeWindow {
    return this.#window
  }

  get branch(): number {
    return this.#branch
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  get isSettled(): boolean {
    return this.#hasListed
  }

  get trouble(): unknown {
    return null
  }

  /** Decides on the object as the other server has it now, and again if another writer wrote first. */
  async change({ name, decide, fence }: WriteRequest): Promise<Change> {
    const { clock } = this.engine
    for (let conflicts = 0; ; conflicts++) {
      if (fence) await this.#checkFence(fence)
      const read = await this.#origin.read(name)
      const before = read?.object ?? null
      const after = decide(before ?? undefined, clock.now())
      // No write is necessary: the object already has the requested value.
      if (after === null) return { type: 'modified', revision: before!.revision, object: before!, before }
      if (after !== 'gone' && Object.keys(after.fieldOwners ?? {}).length > 0) {
        const what = `field owners are not stored for objects in ${this.#origin.where}: use update or patch`
        throw new RepriseError('INVALID_ARGUMENT', what, { name })
      }
      try {
        const object = await this.#write(read, after)
        const type = object === null ? 'deleted' : before ? 'modified' : 'added'
        return { type, revision: (object ?? before!).revision, object: object ?? before!, before }
      } catch (error) {
        if (!isReprise(error, 'CONFLICT', 'NOT_FOUND', 'EXISTS') || conflicts >= conflictsMax) throw error
      }
      await this.#pause(growingPause(conflicts + 1, 2, 500))
    }
  }

  /** Our own store decides which process is the owner; the status itself is guarded by the revision that was read. */
  async raiseFence(fence: Fence): Promise<Fence> {
    return fence
  }

  refresh(): Promise<void> {
    const read = this.#reads.run()
    const done = () => {
      if (this.#followers > 0 && this.#hasListed && !this.#reads.current && !this.#reads.hasNext) this.#startStream()
    }
    read.then(done, done)
    return read
  }

  async read(name: string): Promise<ResourceObject | undefined> {
    return (await this.#origin.read(name))?.object
  }

  changesAfter({ seq }: ReadPoint): Promise<ChangePage> {
    return Promise.reject(revisionGone(this.timeline, seq, 'it is no longer in memory'))
  }

  checkpoint(): Promise<never> {
    return Promise.reject(elsewhere(this.#origin))
  }

  follow(): () => void {
    this.#followers += 1
    if (this.#hasListed && !this.#reads.current) this.#startStream()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#followers -= 1
      if (this.#followers === 0) void this.#stopStream()
    }
  }

  onNews(call: () => void): () => void {
    this.#waiters.add(call)
    return () => this.#waiters.delete(call)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#wake()
    await this.#stopStream()
    await this.#reads.current?.catch(() => undefined)
  }

  /** Selectors of fields and names are evaluated here, those of labels by the server. */
  async page(options: ListOptions): Promise<ResourceList> {
    const { labels, limit } = options
    if (options.revision !== undefined) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `${this.#origin.where} lists only current objects: omit the revision`,
        {},
      )
    }
    const selector = selectorOf(options)
    const page = await this.#origin.list({ limit, continue: options.continue, labels: labelsText(labels) })
    return { ...page, items: page.items.filter((object) => selector.matches(object)) }
  }

  async #write(read: OriginObject | undefined, after: Draft | 'gone'): Promise<ResourceObject | null> {
    const before = read?.object
    if (!before) return await this.#origin.create(after as Draft)
    if (after === 'gone') {
      // Removing its last finalizer deletes the object; without finalizers it is deleted at once.
      if (before.deletingAt === undefined || before.finalizers.length === 0) return await this.#origin.delete(read)
      return await this.#origin.replace(read, { ...before, finalizers: [] })
    }
    if (after.deletingAt !== before.deletingAt) return await this.#origin.delete(read)
    const isStatus = ['status', 'observedGeneration', 'conditions'].some((field) => {
      return !equalJson(Reflect.get(after, field), Reflect.get(before, field))
    })
    return await (isStatus ? this.#origin.report(read, after) : this.#origin.replace(read, after))
  }

  async #checkFence({ by, epoch }: Fence): Promise<void> {
    const [head] = await this.engine.heads([timelineId(by)])
    const fences = initialResources().fences
    fences.set(by, head?.epoch ?? 0)
    checkFence({ fences }, { by, epoch })
  }

  /** Lists all objects in pages of one revision; starts over if that revision expires before the last page. */
  async #relist(): Promise<void> {
    await this.#stopStream()
    for (;;) {
      if (this.isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
      try {
        const items: ResourceObject[] = []
        let page = await this.#origin.list({ limit: pageItems })
        items.push(...page.items)
        while (page.continue !== null) {
          page = await this.#origin.list({ limit: pageItems, continue: page.continue })
          items.push(...page.items)
        }
        this.#take(items, page.revision)
        return
      } catch (error) {
        if (!isReprise(error, 'REVISION_GONE')) throw error
      }
    }
  }

  #take(items: readonly ResourceObject[], revision: number): void {
    const changes = this.#hasListed ? this.#differences(items, revision) : null
    if (changes) {
      for (const change of changes) this.#apply(change)
      if (revision > this.#revision) this.#reach(revision, null)
    } else {
      if (this.#hasListed) this.#branch += 1
      this.#hasListed = true
      this.#state = initialResources()
      for (const object of items) this.#state.objects.set(object.name, object)
      this.#revision = revision
      this.#window = this.#newWindow()
    }
    this.#wake()
  }

  /**
   * The changes since the last list, in order of revisions. The time of a deletion is unknown, but each deletion had its own
   * revision after the last one seen, so enough revisions are free for them. Null: this is a different history.
   */
  #differences(items: readonly ResourceObject[], to: number): Change[] | null {
    const from = this.#revision
    if (to < from) return null
    const { objects } = this.#state
    const changes: Change[] = []
    const gone = new Map([...objects.values()].map((object) => [object.name, object]))
    for (const object of items) {
      const before = objects.get(object.name)
      if (before?.uid === object.uid) gone.delete(object.name)
      if (before?.revision === object.revision) continue
      if (object.revision <= from || object.revision > to) return null
      const isSame = before?.uid === object.uid
      const type = isSame ? ('modified' as const) : ('added' as const)
      changes.push({ revision: object.revision, type, object, before: isSame ? before! : null })
    }
    const taken = new Map(changes.map((change) => [change.revision, change.object.name]))
    let free = to
    for (const before of gone.values()) {
      while (taken.has(free)) free -= 1
      // The deletion of an object that was created again precedes its creation.
      const again = changes.find(({ object }) => object.name === before.name)
      const at = again ? freeBefore(again.revision, taken) : free
      if (at <= from) return null
      taken.set(at, before.name)
      changes.push({ revision: at, type: 'deleted', object: { ...before, revision: at }, before })
    }
    return changes.sort((a, b) => a.revision - b.revision)
  }

  #startStream(): void {
    if (this.#stream || this.isClosed) return
    const stop = new AbortController()
    const signal = AbortSignal.any([stop.signal, this.#closing.signal])
    this.#stream = { stop, over: this.#read(signal) }
  }

  async #stopStream(): Promise<void> {
    const stream = this.#stream
    this.#stream = null
    stream?.stop.abort()
    await stream?.over
  }

  async #read(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        for await (const event of this.#origin.watch(this.#revision, signal)) {
          if (signal.aborted) return
          failures = 0
          this.#onEvent(event)
        }
        failures += 1
      } catch (error) {
        if (signal.aborted) return
        failures += 1
        if (isReprise(error, 'REVISION_GONE')) {
          // Not awaited: the new list waits for this stream to end.
          this.#stream = null
          this.#listAgain(failures)
          return
        }
        this.engine.events.emit('problem', { where: this.timeline, error })
      }
      await this.#pause(growingPause(failures, shortestPauseMs, longestPauseMs), signal)
    }
  }

  #listAgain(failures: number): void {
    if (this.isClosed) return
    this.refresh().catch(async (error: unknown) => {
      if (this.isClosed) return
      this.engine.events.emit('problem', { where: this.timeline, error })
      await this.#pause(growingPause(failures, shortestPauseMs, longestPauseMs))
      if (this.#followers > 0) this.#listAgain(failures + 1)
    })
  }

  #onEvent(event: OriginEvent): void {
    if (event.type === 'bookmark') {
      if (event.revision > this.#revision) this.#reach(event.revision, null)
    } else if (event.object.revision > this.#revision) {
      const { object } = event
      const before = this.#state.objects.get(object.name) ?? null
      if (event.type === 'put') {
        this.#apply({ revision: object.revision, type: before ? 'modified' : 'added', object, before })
      } else if (before) {
        this.#apply({ revision: object.revision, type: 'deleted', object, before })
      } else this.#reach(object.revision, null)
    }
    this.#wake()
  }

  #apply(change: Change): void {
    const { object, type, revision } = change
    assert(revision > this.#revision, 'the changes of an origin arrive in order')
    if (type === 'deleted') this.#state.objects.delete(object.name)
    else this.#state.objects.set(object.name, object)
    this.#reach(revision, change)
  }

  #reach(revision: number, change: Change | null): void {
    this.#revision = revision
    this.#window.add(revision, change)
  }

  #wake(): void {
    for (const call of [...this.#waiters]) call()
  }

  #newWindow(): ChangeWindow {
    const { watchedChanges, watchedBytes } = this.engine.limits
    return new ChangeWindow(this.#revision, { changes: watchedChanges, bytes: watchedBytes })
  }

  #pause(ms: number, signal: AbortSignal = this.#closing.signal): Promise<void> {
    return sleep(this.engine.clock, ms, { signal, isAwaited: false })
  }
}

function freeBefore(revision: number, taken: ReadonlyMap<number, string>): number {
  let free = revision - 1
  while (taken.has(free)) free -= 1
  return free
}

function labelsText(labels: SelectorText['labels']): string | undefined {
  if (labels === undefined || typeof labels === 'string') return labels
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(',')
}

function elsewhere({ where }: OriginCollection): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `these objects are in ${where}, and have no history in this store`, {})
}
