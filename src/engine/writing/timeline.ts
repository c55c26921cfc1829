// An open timeline: the handle that a user (or a layer) holds while this process owns it. It keeps head and state in
// memory, writes through the group commit, checkpoints by policy, and stops permanently when it is fenced. A shared one
// (turn-timeline.ts) can be read without ownership, takes the timeline with its first write, and continues after other
// processes have written.

import { keysLastOf } from '../../core/checkpoint/retention.ts'
import { type Coordinate, type TimelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { EffectLedger } from '../../core/history/effects.ts'
import { keysForgottenType, slackOf } from '../../core/history/forgetting.ts'
import { type Inherited, inheritedBy } from '../../core/history/inheritance.ts'
import { type AttributeLimits, checkAttributes, tooManyAttributes } from '../../core/store/argument-checks.ts'
import type { Attribute, Head, Inbox, ManifestMark, Message, NewManifest, Take } from '../../core/store/ports.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import { throwIfAborted } from '../base/abortable-wait.ts'
import type { RecoveryReport } from '../base/recovery-report.ts'
import { Checkpointer, type CheckpointRequest, type PublishedCheckpoint } from '../checkpoint/checkpointer.ts'
import { Effects } from '../history/effects.ts'
import { erasureOf } from '../history/erasures.ts'
import type { Point } from '../history/history.ts'
import { type Recovered, rebuild } from '../history/recover.ts'
import type { CapturedParts, TimelineState } from '../history/state.ts'
import type { Fold } from '../model/definition.ts'
import type { Entry, NewEntry } from '../model/entry.ts'
import { carriedBy } from '../storage/carried-identity.ts'
import { checkMade } from '../storage/committer.ts'
import { type Kernel, releaseLeft } from '../storage/kernel.ts'
import type { Identified, Origin } from '../storage/store-identity.ts'
import { DraftMaker, noDrafts } from './drafts.ts'
import { commitAside, publishAside } from './shared-commit.ts'
import { type CommitExtras, type OutcomeReceiver, Writer, type Written } from './writer.ts'

export type { NewEntry } from '../model/entry.ts'

export interface WriteOptions extends CommitExtras {
  readonly signal?: AbortSignal
  /** CONFLICT unless this is the last sequence when the write's turn comes. Entries with a known key never conflict. */
  readonly expect?: number
}

/** For a timeline that is written in turns with other processes. */
export interface Sharing {
  readonly isOwner: boolean
  onTaken(): void
  onLost(): void
}

export class OpenTimeline<State> {
  readonly id: TimelineId
  readonly recovery: RecoveryReport
  readonly #attributes: AttributeBudget
  readonly #kernel: Kernel
  readonly #fold: Fold<State>
  readonly #state: TimelineState<State>
  /** Above this many dedupe keys, old ones are forgotten. */
  readonly #keysMax: number
  #isForgetting = false
  readonly #writer: Writer
  readonly #drafts: DraftMaker
  /** Without a policy, created on the first request for a checkpoint: most timelines end without one. */
  #checkpointer: Checkpointer<State> | null = null
  readonly #recovered: Recovered<State>
  readonly #onClosed: () => void
  readonly #head: Identified
  /** The parts of its history that were written by the timelines it was forked from. */
  readonly inherited: readonly Inherited[]
  readonly #sharing: Sharing | null
  /** The last erasure at the time its state was read. */
  readonly #erasure: string | null
  #effects: Effects | null = null
  readonly #watchers = new Set<(entries: readonly Entry[]) => void>()
  #holders = 1
  #closing: Promise<void> | null = null

  constructor(
    kernel: Kernel,
    head: Pick<Head, 'timeline' | 'life' | 'epoch' | 'base'> & Partial<Pick<Head, 'attributes'>>,
    fold: Fold<State>,
    recovered: Recovered<State>,
    onClosed: () => void,
    sharing: Sharing | null = null,
  ) {
    this.id = head.timeline
    this.#kernel = kernel
    this.#fold = fold
    this.#state = recovered.state
    const keysLast = keysLastOf(fold.retain ?? {})
    this.#keysMax = keysLast + slackOf(keysLast)
    this.recovery = recovered.report
    this.#onClosed = onClosed
    this.#attributes = new AttributeBudget(kernel.limits, head.attributes)
    this.#sharing = sharing
    this.#writer = new Writer(kernel, head.timeline, { ...recovered.point, epoch: head.epoch }, recovered.state, {
      onBroken: (error) => this.#broke(error),
      onWritten: (entries, bytes) => this.#wrote(entries, bytes),
      onTaken: () => this.#taken(),
      rebuild: async () => recovered.state.mend(await rebuild(kernel, head.timeline, fold, this.#writer.head)),
      compressAboveBytes: fold.compressAboveBytes,
      isOwner: sharing?.isOwner ?? true,
    })
    this.#drafts = new DraftMaker(kernel, head.timeline, fold.upcasters)
    this.#recovered = recovered
    if (fold.checkpoint || sharing) {
      if (this.isOwner) this.#checkpoints.start()
      else this.#checkpoints.startReading()
    }
    const { timeline, life, base, attributes = {} } = head
    this.#head = { timeline, life, base, attributes }
    const lineage = recovered.lineage.length > 0 ? recovered.lineage : [head]
    this.inherited = kernel.planted.has('fork-inherits') ? [] : inheritedBy(lineage)
    this.#erasure = erasureOf(head)
  }

  get #checkpoints(): Checkpointer<State> {
    if (this.#checkpointer) return this.#checkpointer
    this.#checkpointer = new Checkpointer(this.#kernel, this, this.#fold, this.#recovered)
    // Requested too late: the stopped checkpointer refuses.
    if (this.broken || this.closing) void this.#checkpointer.stop()
    return this.#checkpointer
  }

  get state(): State {
    return this.#state.value
  }

  /** Created on first use: most timelines make no outside calls. */
  get effects(): Effects {
    this.#effects ??= new Effects(this, this.#kernel)
    return this.#effects
  }

  /** True if its history began as that of another timeline. */
  get isFork(): boolean {
    return this.#head.base !== null
  }

  /** How many timelines were created under its id, this one included. */
  get life(): number {
    return this.#head.life
  }

  /** The origin of its keys; needs the identity of the store. */
  get origin(): Origin {
    return this.#kernel.identity.origin(this.#head)
  }

  /** The identity of a copy beside its original (carried-identity.ts). Null: that of its history, or of its head. */
  get ownIdentity(): string | null {
    const carried = carriedBy(this.#head.attributes)
    return carried?.isOwn ? carried.identity : null
  }

  /** True if this process believes that it owns the timeline. */
  get isOwner(): boolean {
    return this.#writer.isOwner && !this.#writer.broken
  }

  get isShared(): boolean {
    return this.#sharing !== null
  }

  get ledger(): EffectLedger {
    return this.#state.ledger
  }

  get seq(): number {
    return this.#writer.head.seq
  }

  get epoch(): number {
    return this.#writer.head.epoch
  }

  get coordinate(): Coordinate {
    const { seq, epoch, digest } = this.#writer.head
    return { timeline: this.id, seq, epoch, digest: toHex(digest) }
  }

  /** The bytes behind `coordinate.digest`. */
  get digest(): Uint8Array {
    return this.#writer.head.digest
  }

  /** The reason it can no longer be written, if any. */
  get broken(): RepriseError | null {
    return this.#writer.broken
  }

  /** For paged folds: reads the pages that applying this entry would touch; null if none is missing. */
  fetch(entry: NewEntry): Promise<unknown> | null {
    const { seq, epoch } = this.#writer.head
    const { type, time = 0, key, data } = entry
    const version = this.#drafts.versionOf(entry)
    return this.#state.fetch([{ timeline: this.id, seq: seq + 1, epoch, type, version, time, key, data }])
  }

  hasKey(key: string): boolean {
    return this.#state.hasKey(key, this.#kernel.hash)
  }

  /** The sequence of the entry with this key, as far as history was read. */
  seqOfKey(key: string): number | undefined {
    return this.#state.seqOfKey(key)
  }

  /** Writes entries and extras in one commit. Durable when it resolves. */
  write(entries: readonly NewEntry[], options?: WriteOptions): Promise<Written> {
    // Not an async function: this is the hot path, and an async function costs one more promise.
    try {
      this.checkWritable()
      const drafts = this.#drafts.make(entries)
      if (options === undefined) return this.#writer.write(drafts, null)
      const { signal, expect, ...given } = options
      throwIfAborted(signal, this.id)
      const extras = given.release ? this.#releasing(given) : given
      if (extras.attributes) this.#attributes.take(extras.attributes)
      return this.#writer.write(drafts, Object.keys(extras).length > 0 ? extras : null, signal, expect)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Writes entries alone, without a promise: the asker is called when they are durable. Throws if they cannot be stored. */
  ask(entries: readonly NewEntry[], asker: OutcomeReceiver): void {
    this.checkWritable()
    this.#writer.ask(this.#drafts.make(entries), null, asker)
  }

  /** Throws if it was closed or is known to have lost ownership, without reading the store. */
  checkWritable(): void {
    if (this.#writer.broken) throw this.#writer.broken
    if (this.closing) throw new RepriseError('CLOSED', `${this.id} was closed`, { timeline: this.id })
  }

  /** Captures state now and publishes it with its coordinate. */
  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#checkpoints.now(request)
  }

  /** The last decision of the automatic checkpoints, and why (A4.3). */
  get checkpointing() {
    return this.#checkpoints.status
  }

  /** Since when every checkpoint of it fails, and why. */
  get failing(): Checkpointer<State>['failing'] {
    return this.#checkpointer?.failing ?? null
  }

  /** The state could not be rebuilt after a refused write: it must be read again. */
  get isTorn(): boolean {
    return this.#state.isTorn
  }

  /** For the checkpointer: captures at a moment at which the state is exactly that of the coordinate. */
  atHead<T>(capture: (parts: CapturedParts) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#writer.atHead(() => {
        try {
          const { broken } = this
          if (broken && (this.isTorn || !this.isShared)) throw broken
          resolve(capture(this.#state.parts()))
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  /** Grows with every folded entry. */
  get touches(): number {
    return this.#state.touches
  }

  /**
   * For the checkpointer: the fence of this handle guards the publication. On a shared timeline, the guard is that the
   * checkpoint's digest is part of the current history.
   */
  async publish(record: NewManifest): Promise<void> {
    if (this.#sharing) await publishAside(this.#kernel, this.id, record, this.#erasure)
    else await this.#writer.write(noDrafts, { publish: [record] })
  }

  async mark(mark: ManifestMark, attributes: CommitExtras['attributes'] = {}): Promise<void> {
    await this.#writeExtras({ marks: [mark], ...(Object.keys(attributes).length > 0 && { attributes }) })
  }

  /** For the checkpointer: stores its measurements as engine attributes. */
  async note(attributes: CommitExtras['attributes'] & object): Promise<void> {
    await this.#writeExtras({ attributes })
  }

  /** For a shared timeline without ownership: the next write takes it. */
  attempt(take: Take, attributes: Record<string, Attribute> | null): void {
    this.declared(attributes)
    checkMade({ guard: { timeline: this.id, epoch: 0 }, take }, this.#kernel.limits)
    this.#writer.attempt(take, attributes)
  }

  /** The attributes that this process declares when it takes the timeline. */
  declared(attributes: Record<string, Attribute> | null): void {
    if (attributes) this.#checkpoints.declared(attributes)
  }

  /** For a shared timeline: applies entries of other processes, in order, up to `point`. */
  async follow(entries: readonly Entry[], point: Point, epoch: number): Promise<void> {
    await this.#state.fetch(entries)
    this.#state.replay(entries)
    this.#writer.renew({ ...point, epoch }, false)
    this.#checkpoints.followed(entries.length)
    for (const call of this.#watchers) warnOnReject(call(entries), 'watch()')
  }

  /**
   * For a shared timeline that has followed everything: it can be written again, as its owner or with an attempt to
   * take it.
   */
  renew(epoch: number, isOwner: boolean): void {
    this.#writer.renew({ ...this.#writer.head, epoch }, isOwner)
    if (isOwner) this.#taken()
  }

  /** Unread messages; consume them with `write(…, { consume })`. */
  async inbox(limit = 100): Promise<Message[]> {
    return (await this.mail(limit)).messages
  }

  /** The same, with the store's time at which the read began, to compare deadlines with. */
  mail(limit = 100): Promise<Inbox> {
    return this.#kernel.store.inbox(this.id, limit)
  }

  /** Called after entries are durable and applied. */
  watch(call: (entries: readonly Entry[]) => void): () => void {
    this.#watchers.add(call)
    return () => this.#watchers.delete(call)
  }

  /** A copy of the value, as replay would decode it. */
  copyOf(value: unknown): unknown {
    return this.#kernel.codec.decode(this.#kernel.codec.encode(value))
  }

  /** Adds a holder in this process; each of them must close. */
  share(): this {
    this.#holders += 1
    return this
  }

  /** The last holder releases the timeline: queued entries are written, and other processes can take it at once. */
  async close(extras: CommitExtras = {}): Promise<void> {
    this.#holders -= 1
    if (this.#holders <= 0) await this.shut(extras)
  }

  /** Releases it for all holders in this process. */
  shut(extras: CommitExtras = {}): Promise<void> {
    this.#closing ??= this.#shut(extras)
    return this.#closing
  }

  /** Settles with its last write. Null: it is not being closed. */
  get closing(): Promise<void> | null {
    return this.#closing
  }

  async #writeExtras(extras: CommitExtras): Promise<void> {
    if (this.#sharing) await commitAside(this.#kernel, this.id, extras)
    else await this.#writer.write(noDrafts, extras)
  }

  async #shut(extras: CommitExtras): Promise<void> {
    try {
      await this.#checkpointer?.stop()
      if (this.isOwner) await this.#writer.write(noDrafts, this.#releasing({ ...extras, release: true }))
      else if (this.#isLeftOwned) await this.#releaseBroken()
      else if (this.#writer.broken && this.#writer.broken.code !== 'FENCED') this.#kernel.onStray?.(this.id)
    } catch (error) {
      if (!isReprise(error, 'FENCED', 'NOT_FOUND')) this.#kernel.onStray?.(this.id)
      throw error
    } finally {
      this.#end()
    }
  }

  /** It broke without being taken over: in the store, this process still owns it. */
  get #isLeftOwned(): boolean {
    const { broken } = this.#writer
    return broken !== null && broken.code !== 'FENCED' && !this.#sharing && this.#writer.isOwner
  }

  /** Releases it at once instead of at the end of this process. */
  async #releaseBroken(): Promise<void> {
    await releaseLeft(this.#kernel, { timeline: this.id, epoch: this.epoch })
  }

  #releasing(extras: CommitExtras): CommitExtras {
    const own = this.#checkpointer?.releasing() ?? {}
    return Object.keys(own).length > 0 ? { ...extras, attributes: { ...extras.attributes, ...own } } : extras
  }

  /** Refuses further writes without a commit: another process owns it now, or this process must stop. */
  break(error: RepriseError): void {
    this.#writer.break(error)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #wrote(entries: readonly Entry[], bytes: number): void {
    const { events } = this.#kernel
    if (entries.length > 0 && events.has('appended')) {
      events.emit('appended', { timeline: this.id, first: entries[0]!.seq, count: entries.length })
    }
    for (const call of this.#watchers) warnOnReject(call(entries), 'watch()')
    this.#checkpointer?.wrote(entries, bytes)
    if (this.#state.keyCount > this.#keysMax && !this.#isForgetting) void this.#forgetKeys()
  }

  /** Recorded as an entry, so that every fold of this history forgets at the same place. */
  async #forgetKeys(): Promise<void> {
    this.#isForgetting = true
    try {
      const below = this.#state.keysBelow(keysLastOf(this.#fold.retain ?? {}))
      if (below !== null && this.isOwner) await this.write([{ type: keysForgottenType, data: { below } }])
    } catch (error) {
      // The next write tries again.
      if (!this.broken) this.#kernel.events.emit('problem', { where: `${this.id}: forgetting keys`, error })
    } finally {
      this.#isForgetting = false
    }
  }

  #taken(): void {
    this.#sharing?.onTaken()
    this.#checkpoints.start()
  }

  #broke(error: RepriseError): void {
    if (this.#sharing) {
      this.#sharing.onLost()
      return
    }
    if (error.code === 'FENCED') this.#kernel.events.emit('fenced', { timeline: this.id, epoch: this.epoch })
    void this.#checkpointer?.stop()
    this.#end()
  }

  #end(): void {
    this.#onClosed()
    this.#kernel.events.emit('closed', { timeline: this.id })
  }
}

/** Counts the searchable attributes of an open timeline, so that one too many is refused when it is written. */
type Changes = Readonly<Record<string, Attribute | null | undefined>>

class AttributeBudget {
  readonly #limits: AttributeLimits
  /** The attributes at the start, until the first change: most of the many timelines never change theirs. */
  readonly #first: Changes
  #known: Set<string> | null = null

  constructor(limits: AttributeLimits, attributes: Changes = {}) {
    this.#limits = limits
    this.#first = attributes
  }

  /** Throws LIMIT_EXCEEDED; otherwise they are treated as written. */
  take(changes: Changes): void {
    checkAttributes(changes, this.#limits)
    const before = this.#known ?? new Set(Object.keys(this.#first))
    const names = new Set(before)
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) names.delete(name)
      else if (value !== undefined) names.add(name)
    }
    if (names.size > Math.max(this.#limits.attributes, before.size)) throw tooManyAttributes(names.size, this.#limits)
    this.#known = names
  }
}
