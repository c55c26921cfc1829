// An open timeline: the handle a user (or a layer) holds while it owns one. It keeps head and state in memory, writes
// through the group commit, checkpoints by policy, and stops for good when it is fenced. A shared one
// (turn-timeline.ts) may be read without owning, takes the timeline with its first write, and goes on after
// others have written.

import { keysLastOf } from '../../core/checkpoint/retention.ts'
import { type Coordinate, type TimelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { EffectLedger } from '../../core/history/effects.ts'
import { keysForgottenType, slackOf } from '../../core/history/forgetting.ts'
import { type Inherited, inheritedBy } from '../../core/history/inheritance.ts'
import type { Attribute, Head, Inbox, ManifestMark, Message, NewManifest, Take } from '../../core/store/ports.ts'
import { throwIfAborted } from '../base/aborting.ts'
import type { RecoveryReport } from '../base/recovery-report.ts'
import { Checkpointer, type CheckpointRequest, type PublishedCheckpoint } from '../checkpoint/checkpointer.ts'
import { Effects } from '../history/effects.ts'
import { erasureOf } from '../history/erasures.ts'
import type { Point } from '../history/history.ts'
import type { Recovered } from '../history/recover.ts'
import type { TimelineState } from '../history/state.ts'
import type { Fold } from '../model/definition.ts'
import type { Entry, NewEntry } from '../model/entry.ts'
import { carriedBy } from '../storage/carried-identity.ts'
import { checkMade } from '../storage/committer.ts'
import { type Kernel, newOperation } from '../storage/kernel.ts'
import type { Identified, Origin } from '../storage/store-identity.ts'
import { AttributeBudget } from './attribute-budget.ts'
import { DraftMaker, noDrafts } from './drafts.ts'
import { commitAside, publishAside } from './shared-commit.ts'
import { type Asker, type CommitExtras, Writer, type Written } from './writer.ts'

export type { NewEntry } from '../model/entry.ts'

export interface WriteOptions extends CommitExtras {
  readonly signal?: AbortSignal
  /** Only if this is the last sequence when their turn comes, else CONFLICT. Entries whose key is known are no conflict. */
  readonly expect?: number
}

/** For one that is written in turns with other processes. */
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
  /** More dedupe keys than this: some are forgotten. */
  readonly #keysMax: number
  #isForgetting = false
  readonly #writer: Writer
  readonly #drafts: DraftMaker
  /** Without a policy it is made when somebody asks for a checkpoint: most timelines end without one. */
  #checkpointer: Checkpointer<State> | null = null
  readonly #recovered: Recovered<State>
  readonly #onClosed: () => void
  readonly #head: Identified
  /** The stretches of its history that the timelines wrote that it was forked from. */
  readonly inherited: readonly Inherited[]
  readonly #sharing: Sharing | null
  /** The last erasure when its state was read. */
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
    // Asked for too late: it says so.
    if (this.broken || this.closing) void this.#checkpointer.stop()
    return this.#checkpointer
  }

  get state(): State {
    return this.#state.value
  }

  /** Made when somebody asks for it: most timelines call nothing outside. */
  get effects(): Effects {
    this.#effects ??= new Effects(this, this.#kernel)
    return this.#effects
  }

  /** Its history began as that of another one. */
  get isFork(): boolean {
    return this.#head.base !== null
  }

  /** How often a timeline was made under its id, this one included. */
  get life(): number {
    return this.#head.life
  }

  /** What its keys are derived from; needs the identity of the store. */
  get origin(): Origin {
    return this.#kernel.identity.origin(this.#head)
  }

  /** The identity of a copy beside its original (carried-identity.ts); null: that of its history, or of its head. */
  get ownIdentity(): string | null {
    const carried = carriedBy(this.#head.attributes)
    return carried?.isOwn ? carried.identity : null
  }

  /** Whether this process owns it, as far as it knows. */
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

  /** Why it can no longer be written through, if so. */
  get broken(): RepriseError | null {
    return this.#writer.broken
  }

  /** For paged folds: brings in the pages that applying this entry would touch; null if nothing is missing. */
  fetch(entry: NewEntry): Promise<unknown> | null {
    const { seq, epoch } = this.#writer.head
    const { type, time = 0, key, data } = entry
    const version = this.#drafts.versionOf(entry)
    return this.#state.fetch([{ timeline: this.id, seq: seq + 1, epoch, type, version, time, key, data }])
  }

  hasKey(key: string): boolean {
    return this.#state.hasKey(key, this.#kernel.hash)
  }

  /** Where the entry with this key is, as far as history was read. */
  seqOfKey(key: string): number | undefined {
    return this.#state.seqOfKey(key)
  }

  /** Entries and whatever goes along with them, in one commit. Durable when it resolves. */
  write(entries: readonly NewEntry[], options?: WriteOptions): Promise<Written> {
    // Not an async function: this is the hot path, and each of those costs a promise more.
    try {
      this.checkWritable()
      const drafts = this.#drafts.make(entries)
      if (options === undefined) return this.#writer.write(drafts, null)
      const { signal, expect, ...given } = options
      throwIfAborted(signal, this.id)
      const along = given.release ? this.#releasing(given) : given
      if (along.attributes) this.#attributes.take(along.attributes)
      return this.#writer.write(drafts, Object.keys(along).length > 0 ? along : null, signal, expect)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Entries alone, without a promise: the asker is told when they are durable. Throws if they cannot be stored. */
  ask(entries: readonly NewEntry[], asker: Asker): void {
    this.checkWritable()
    this.#writer.ask(this.#drafts.make(entries), null, asker)
  }

  /** Throws if it was closed or somebody else owns it: known without asking the store. */
  checkWritable(): void {
    if (this.#writer.broken) throw this.#writer.broken
    if (this.closing) throw new RepriseError('CLOSED', `${this.id} was closed`, { timeline: this.id })
  }

  /** Captures state now and publishes it with its coordinate. */
  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#checkpoints.now(request)
  }

  /** What the automatic checkpoints last decided, and why (A4.3). */
  get checkpointing() {
    return this.#checkpoints.status
  }

  /** Since when every checkpoint of it fails, and why. */
  get failing(): Checkpointer<State>['failing'] {
    return this.#checkpointer?.failing ?? null
  }

  /** The parts that a checkpoint would capture; for the checkpointer and for comparisons. */
  captureParts() {
    return this.#state.parts()
  }

  /** Grows with every entry that is folded into the state. */
  get touches(): number {
    return this.#state.touches
  }

  /**
   * For the checkpointer: the fence of this handle guards what it publishes. Where others write in between, what guards it is
   * that its digest is part of their history.
   */
  async publish(record: NewManifest): Promise<void> {
    if (this.#sharing) await publishAside(this.#kernel, this.id, record, this.#erasure)
    else await this.#writer.write(noDrafts, { publish: [record] })
  }

  async mark(mark: ManifestMark, attributes: CommitExtras['attributes'] = {}): Promise<void> {
    await this.#aside({ marks: [mark], ...(Object.keys(attributes).length > 0 && { attributes }) })
  }

  /** For the checkpointer: what it measured, as attributes of the engine's own. */
  async note(attributes: CommitExtras['attributes'] & object): Promise<void> {
    await this.#aside({ attributes })
  }

  /** For one that is shared and not owned: the next write takes it. */
  attempt(take: Take, attributes: Record<string, Attribute> | null): void {
    this.declared(attributes)
    checkMade({ guard: { timeline: this.id, epoch: 0 }, take }, this.#kernel.limits)
    this.#writer.attempt(take, attributes)
  }

  /** What this process declares of it when it takes it. */
  declared(attributes: Record<string, Attribute> | null): void {
    if (attributes) this.#checkpoints.declared(attributes)
  }

  /** For one that is shared: entries that others wrote, in order, up to `point`. */
  async follow(entries: readonly Entry[], point: Point, epoch: number): Promise<void> {
    await this.#state.fetch(entries)
    this.#state.replay(entries)
    this.#writer.renew({ ...point, epoch }, false)
    this.#checkpoints.followed(entries.length)
    for (const call of this.#watchers) call(entries)
  }

  /** For one that is shared, when all is followed: it can be written again, as its owner or with an attempt to take it. */
  renew(epoch: number, isOwner: boolean): void {
    this.#writer.renew({ ...this.#writer.head, epoch }, isOwner)
    if (isOwner) this.#taken()
  }

  /** Unread messages; consume them with `write(…, { consume })`. */
  async inbox(limit = 100): Promise<Message[]> {
    return (await this.mail(limit)).messages
  }

  /** The same, with the store's time at which the reading began: for whoever has a deadline to compare it with. */
  mail(limit = 100): Promise<Inbox> {
    return this.#kernel.store.inbox(this.id, limit)
  }

  /** Called after entries became durable and were applied. */
  watch(call: (entries: readonly Entry[]) => void): () => void {
    this.#watchers.add(call)
    return () => this.#watchers.delete(call)
  }

  /** The same value again, as replay would read it. */
  copyOf(value: unknown): unknown {
    return this.#kernel.codec.decode(this.#kernel.codec.encode(value))
  }

  /** One more holder in this process; each of them closes. */
  share(): this {
    this.#holders += 1
    return this
  }

  /** The last holder lets go: what was queued is written, the timeline is free for others at once. */
  async close(along: CommitExtras = {}): Promise<void> {
    this.#holders -= 1
    if (this.#holders <= 0) await this.shut(along)
  }

  /** Lets go whoever else holds it in this process. */
  shut(along: CommitExtras = {}): Promise<void> {
    this.#closing ??= this.#shut(along)
    return this.#closing
  }

  /** Settles when its last write did, if it is being closed or was closed. */
  get closing(): Promise<void> | null {
    return this.#closing
  }

  async #aside(along: CommitExtras): Promise<void> {
    if (this.#sharing) await commitAside(this.#kernel, this.id, along)
    else await this.#writer.write(noDrafts, along)
  }

  async #shut(along: CommitExtras): Promise<void> {
    try {
      await this.#checkpointer?.stop()
      if (this.isOwner) await this.#writer.write(noDrafts, this.#releasing({ ...along, release: true }))
      else if (this.#isLeftOwned) await this.#letGo()
    } finally {
      this.#end()
    }
  }

  /** It broke for another reason than that somebody else took it: in the store it is still this process's. */
  get #isLeftOwned(): boolean {
    const { broken } = this.#writer
    return broken !== null && broken.code !== 'FENCED' && !this.#sharing && this.#writer.isOwner
  }

  /** For others at once, not only when this process ends. Under a newer epoch it is refused, and nothing is lost. */
  async #letGo(): Promise<void> {
    const guard = { timeline: this.id, epoch: this.epoch }
    const release = { operation: newOperation(this.#kernel.random), guard, release: true }
    await this.#kernel.committer.submit(release).catch(() => undefined)
  }

  #releasing(along: CommitExtras): CommitExtras {
    const own = this.#checkpointer?.releasing() ?? {}
    return Object.keys(own).length > 0 ? { ...along, attributes: { ...along.attributes, ...own } } : along
  }

  /** Someone else owns it now, or this process must stop: refuses further writes without touching the store. */
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
    for (const call of this.#watchers) call(entries)
    this.#checkpointer?.wrote(entries, bytes)
    if (this.#state.keyCount > this.#keysMax && !this.#isForgetting) void this.#forgetKeys()
  }

  /** An entry of its own: whoever folds this history forgets at the same place. */
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
