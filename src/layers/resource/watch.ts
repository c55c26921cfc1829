// A watch: every change after a revision, in order, without gaps or duplicates. It pulls: new changes come from the
// window that all watchers of a kind share, or from history for a watcher that is too far behind. A slow reader therefore
// delays no other reader and costs no memory. A revision whose history was trimmed is reported, never skipped.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import type { Point } from '../../engine/history/history.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { insideOf, revisionGone } from './history.ts'
import type { ResourceObject } from './rules/object.ts'
import { type Selector, type SelectorText, selectorOf } from './rules/selector.ts'
import type { Change } from './rules/state.ts'
import type { SharedResource } from './shared-resource.ts'

export interface WatchOptions extends SelectorText {
  /**
   * Every change after this revision; REVISION_GONE if that history is no longer available. Default: first every existing
   * object as `added`, then a bookmark with `isInitialEnd`, then every change.
   */
  readonly from?: number
  /** Reports progress even when no object matched: every 10 seconds, or at this interval. */
  readonly bookmarks?: boolean | Duration
  readonly signal?: AbortSignal
}

export type WatchEvent<Spec = unknown, Status = unknown> =
  | {
      readonly type: 'added' | 'modified' | 'deleted'
      readonly revision: number
      /** The object after the change; for one that was deleted (or no longer matches), its last state. */
      readonly object: ResourceObject<Spec, Status>
    }
  | { readonly type: 'bookmark'; readonly revision: number; readonly isInitialEnd?: true }

/** Number of events in memory at a time. */
const pageChanges = 256
const bookmarkMs = 10_000

export class Watch<Spec = unknown, Status = unknown> implements AsyncIterable<WatchEvent<Spec, Status>> {
  readonly #resource: SharedResource
  readonly #kernel: Kernel
  readonly #selector: Selector
  readonly #bookmarkMs: number | null
  readonly #signal: AbortSignal | undefined
  readonly #unfollow: () => void
  readonly #close = () => this.close()
  #initial: Iterator<ResourceObject> | null = null
  #initialRevision = 0
  #events: WatchEvent<Spec, Status>[] = []
  #taken = 0
  /** Every change up to here was read. */
  #at: { readonly seq: number; readonly digest?: Point['digest'] | undefined } | null = null
  /** The external start revision, until it is checked. */
  #from: number | null
  /** The history in which the watch began. */
  #history: number | null = null
  /** The external revision of the last event returned. */
  #given: number
  #branch = 0
  #reportedAt: number
  #isClosed = false

  /** @internal */
  constructor(resource: SharedResource, options: WatchOptions) {
    this.#resource = resource
    this.#kernel = resource.engine.kernel
    this.#selector = selectorOf(options)
    const { bookmarks = false, from, signal } = options
    if (from !== undefined && (!Number.isSafeInteger(from) || from < 0)) {
      const what = `watch: from must be a revision, 0 or more (got ${String(from)})`
      throw new RepriseError('INVALID_ARGUMENT', what, { from: String(from) })
    }
    this.#bookmarkMs = bookmarks === false ? null : bookmarks === true ? bookmarkMs : toMs(bookmarks, 'bookmarks')
    this.#from = from ?? null
    this.#given = from ?? 0
    this.#reportedAt = this.#kernel.clock.elapsed()
    this.#unfollow = resource.follow()
    this.#signal = signal
    if (signal?.aborted) this.close()
    else signal?.addEventListener('abort', this.#close, { once: true })
  }

  /** Every change up to this revision was returned; another watch can continue from here. */
  get revision(): number {
    return this.#given
  }

  /** The next event; null after close or abort. */
  async next(): Promise<WatchEvent<Spec, Status> | null> {
    for (;;) {
      if (this.#isClosed || this.#resource.isClosed) return null
      if (this.#kernel.planted.has('bookmark-ahead') && this.#at && this.#isBookmarkDue(this.#at.seq)) {
        return this.#give({ type: 'bookmark', revision: this.#outside(this.#resource.revision) })
      }
      const event = this.#initialEvent() ?? this.#pending()
      if (event) return this.#give(event)
      await this.#fill()
      if (this.#taken < this.#events.length || this.#initial || this.#isClosed) continue
      const at = this.#at!.seq
      if (this.#isBookmarkDue(at)) return this.#give({ type: 'bookmark', revision: this.#outside(at) })
      if (at >= this.#resource.revision && this.#resource.isSettled) await this.#news()
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent<Spec, Status>> {
    try {
      for (let event = await this.next(); event; event = await this.next()) yield event
    } finally {
      this.close()
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#unfollow()
    this.#signal?.removeEventListener('abort', this.#close)
    this.#wakeUp?.()
  }

  #wakeUp: (() => void) | null = null
  #rests = false

  /**
   * @internal Every change up to here was returned and processed, and the watch waits for more; null: an event is being
   * processed.
   */
  get resting(): number | null {
    return this.#rests ? this.#outside(this.#at!.seq) : null
  }

  #pending(): WatchEvent<Spec, Status> | null {
    if (this.#taken >= this.#events.length) return null
    return this.#events[this.#taken++]!
  }

  #initialEvent(): WatchEvent<Spec, Status> | null {
    if (!this.#initial) return null
    for (let step = this.#initial.next(); !step.done; step = this.#initial.next()) {
      const object = step.value as ResourceObject<Spec, Status>
      if (this.#selector.matches(object)) return this.#shown({ type: 'added', revision: object.revision, object })
    }
    this.#initial = null
    if (this.#kernel.planted.has('gap-after-list')) this.#at = { seq: this.#resource.revision }
    return { type: 'bookmark', revision: this.#outside(this.#initialRevision), isInitialEnd: true }
  }

  #give(event: WatchEvent<Spec, Status>): WatchEvent<Spec, Status> {
    // Before the last of the initial objects there is no revision to continue from.
    if (!this.#initial) this.#given = event.revision
    this.#reportedAt = this.#kernel.clock.elapsed()
    return event
  }

  #outside(seq: number): number {
    return this.#resource.revisions.outside(seq)
  }

  #shown(event: WatchEvent<Spec, Status>): WatchEvent<Spec, Status> {
    if (event.type === 'bookmark') return event
    const { revisions } = this.#resource
    return { ...event, revision: this.#outside(event.revision), object: revisions.shown(event.object) }
  }

  /** Reads at most one page of new changes. */
  async #fill(): Promise<void> {
    const resource = this.#resource
    if (resource.trouble) throw resource.trouble
    if (this.#at === null) {
      if (this.#from === null) return await this.#begin()
      if (!resource.isSettled) await resource.refresh()
      this.#at = { seq: await insideOf(resource, this.#from) }
    }
    this.#history ??= resource.revisions.number
    if (this.#history !== resource.revisions.number) {
      const why = 'the store was restored, or the kind was created again'
      throw revisionGone(resource.timeline, this.#given, why, true)
    }
    if (!resource.isSettled || resource.revision < this.#at.seq) await resource.refresh()
    if (this.#branch === 0) this.#branch = resource.branch + 1
    const { seq } = this.#at
    if (this.#branch !== resource.branch + 1 || resource.revision < seq) {
      const why = `the resource now has another history, which ends at ${this.#outside(resource.revision)}`
      throw revisionGone(resource.timeline, this.#outside(seq), why, true)
    }
    this.#events = []
    this.#taken = 0
    if (seq >= resource.revision) return
    const held = resource.window.after(seq, pageChanges)
    if (held) {
      const isAll = held.length < pageChanges
      this.#at = { seq: isAll ? resource.window.revision : held[held.length - 1]!.revision }
      this.#take(held)
      return
    }
    const page = await resource.changesAfter(this.#at, pageChanges)
    this.#at = page.at
    this.#take(page.changes)
  }

  async #begin(): Promise<void> {
    await this.#resource.refresh()
    const { state, revision, branch } = this.#resource
    this.#initial = state.objects.snapshot().values({ prefix: this.#selector.prefix })
    this.#initialRevision = revision
    this.#history = this.#resource.revisions.number
    this.#branch = branch + 1
    this.#at = { seq: revision }
  }

  #take(changes: readonly Change[]): void {
    for (const change of changes) {
      const event = seenBy(this.#selector, change)
      if (event) this.#events.push(this.#shown(event as WatchEvent<Spec, Status>))
    }
    // None of these changes matches this reader, but its position advances past them.
    if (this.#events.length === 0 && !this.#initial) this.#given = this.#outside(this.#at!.seq)
  }

  #isBookmarkDue(at: number): boolean {
    if (this.#bookmarkMs === null || this.#given > this.#outside(at)) return false
    return this.#kernel.clock.elapsed() - this.#reportedAt >= this.#bookmarkMs
  }

  /** Waits until there are new changes, the watch is closed, or a bookmark is due. */
  async #news(): Promise<void> {
    const { clock } = this.#kernel
    const seen = this.#resource.revision
    this.#rests = true
    await whileAwaited(
      new Promise<void>((resolve) => {
        const dueMs = this.#bookmarkMs === null ? null : this.#reportedAt + this.#bookmarkMs - clock.elapsed()
        const cancel = dueMs === null ? null : clock.after(Math.max(0, dueMs), () => this.#wakeUp?.())
        const stop = this.#resource.onNews(() => this.#wakeUp?.())
        this.#wakeUp = () => {
          this.#wakeUp = null
          this.#rests = false
          cancel?.()
          stop()
          resolve()
        }
        if (this.#isClosed || this.#resource.isClosed || this.#resource.revision !== seen) this.#wakeUp()
      }),
      clock,
    )
  }
}

/** The event that a change causes for a selector; null: the change concerns none of the selected objects. */
export function seenBy(selector: Selector, change: Change): WatchEvent | null {
  const { revision, object, before } = change
  const was = before !== null && selector.matches(before)
  const is = change.type !== 'deleted' && selector.matches(object)
  if (is) return { type: was ? 'modified' : 'added', revision, object }
  if (!was) return null
  return { type: 'deleted', revision, object: change.type === 'deleted' ? object : { ...before, revision } }
}
