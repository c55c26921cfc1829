// Checkpoints of one open timeline: decides when (by policy and measured costs), captures without stopping the work,
// publishes state and coordinate together under the fence, reads back the written chunks, and then runs retention. Only
// one checkpoint runs at a time. A failed checkpoint loses nothing: dirty data stays dirty, and it is retried after a pause.

import { assert } from '../../core/assert.ts'
import { type CheckpointInterval, usesCosts } from '../../core/checkpoint/checkpoint-policy.ts'
import type { MeasuredCosts } from '../../core/checkpoint/costs.ts'
import { encodeManifest, type Manifest } from '../../core/checkpoint/manifest.ts'
import { effectsLastOf, type RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Coordinate, ManifestId, TimelineId } from '../../core/coordinate.ts'
import { isReprise, isSignal, RepriseError } from '../../core/errors.ts'
import { type EffectLedger, forgottenType } from '../../core/history/effects.ts'
import { effectsBelow } from '../../core/history/forgetting.ts'
import { defaultKeyedPlanSettings } from '../../core/keyed-state/plan.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { growingPause } from '../../core/retry/pause.ts'
import type { Attribute, Commit, ManifestMark, ManifestRecord, NewManifest } from '../../core/store/ports.ts'
import { type Entry, floorOf } from '../history/history.ts'
import type { Recovered } from '../history/recover.ts'
import type { CapturedParts } from '../history/state.ts'
import { refuseInvalid } from '../history/validity.ts'
import type { Fold } from '../model/definition.ts'
import type { NewEntry } from '../model/entry.ts'
import {
  abandonCapture,
  type CaptureBase,
  type CaptureSettings,
  captureState,
  TouchedValue,
  writeCapture,
} from '../snapshot/capture.ts'
import { defaultOutputSettings } from '../snapshot/chunk-output.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { verifyChunks } from '../snapshot/restore.ts'
import { ChunkHold } from '../storage/chunk-hold.ts'
import { type Kernel, newId } from '../storage/kernel.ts'
import { retain } from './retain.ts'
import { CheckpointTiming } from './timing.ts'

const firstPauseMs = 100
const longestPauseMs = 60_000
/** A capture that blocked the process for longer is reported. */
const heldMs = 50

export interface CheckpointRequest {
  /** Shown in the catalog. Default: "manual". */
  readonly trigger?: string
  readonly label?: string
  /** Chosen by the caller, so that the catalog can be searched for it. Throws EXISTS if it is taken. */
  readonly id?: string
  /** Keep until released: a savepoint. */
  readonly pin?: boolean
  /** Write the whole state, without building on an earlier checkpoint. */
  readonly full?: boolean
}

const knownRequest = namesOf<CheckpointRequest>()('trigger label id pin full')

export interface PublishedCheckpoint {
  readonly id: ManifestId
  readonly coordinate: Coordinate
  readonly totalBytes: number
  readonly addedBytes: number
  readonly ms: number
  readonly longestStallMs: number
  readonly kind: 'full' | 'incremental'
}

export interface CheckpointingStatus {
  readonly lastSeq: number | null
  readonly entriesSince: number
  readonly costs: MeasuredCosts
  /** The last decision as text, with the underlying figures. */
  readonly because: string
  /** The current interval by policy and measured costs, one sentence per trigger. */
  readonly interval: CheckpointInterval
  /** Mean time between failures, if the policy observes it; else null. */
  readonly failureEveryMs: number | null
  readonly failuresInARow: number
}

export class Checkpointer<State> {
  readonly #kernel: Kernel
  readonly #timeline: CheckpointedTimeline<State>
  readonly #fold: Fold<State>
  #base: { readonly id: string; readonly capture: CaptureBase } | null
  readonly #timing: CheckpointTiming
  #lastSeq: number | null
  #failuresInARow = 0
  #failing: { readonly since: number; readonly failures: number; readonly reason: string } | null = null
  #underWay: Promise<unknown> = Promise.resolve()
  #isQueued = false
  #milestone: string | null = null
  #isStopped = false
  /** Other processes have written since the catalog was last read. */
  #isFollowing = false
  /** A limit is reached and has to wait: the timer decides, not every append. */
  #isWaiting = false
  #isKeeping = false
  #cancelTimer: (() => void) | null = null
  /** Set after a failure until the retry: an immediate retry would not help. */
  #cancelPause: (() => void) | null = null

  constructor(kernel: Kernel, timeline: CheckpointedTimeline<State>, fold: Fold<State>, recovered: Recovered<State>) {
    this.#kernel = kernel
    this.#timeline = timeline
    this.#fold = fold
    this.#base = recovered.base
    const { report, replayMsPerEntry } = recovered
    this.#lastSeq = report.checkpoint?.seq ?? null
    const [head] = recovered.lineage
    const { attributes = {}, createdAt = kernel.worker.now() } = head ?? {}
    const floorSeq = recovered.lineage.length > 0 ? floorOf(recovered.lineage).seq : 0
    this.#timing = new CheckpointTiming(kernel.clock, fold.checkpoint ?? {}, attributes, () => kernel.worker.now())
    this.#timing.recovered({
      openMs: recovered.lineage.length > 0 ? report.planMs : null,
      restore: report.checkpoint && { ms: report.restoreMs, bytes: recovered.restored?.bytes ?? report.bytesRead },
      // Time also counts while no process runs: an hourly checkpoint becomes due even if every process lives for ten
      // minutes.
      ageMs: kernel.worker.now() - (recovered.restored?.at ?? createdAt),
      // A replica that takes over replayed most entries earlier: all entries since the checkpoint are counted, not only the
      // last ones.
      entries: recovered.point.seq - (report.checkpoint?.seq ?? floorSeq),
      replayMs: replayMsPerEntry > 0 ? report.replayMs : null,
    })
    if (usesCosts(fold.checkpoint ?? {})) recovered.state.timeWith(this.#timing.meter)
  }

  /** This process may checkpoint the timeline from now on. */
  start(): void {
    if (this.#timing.entries > 0) this.#decide()
  }

  /** The entries just read took long to replay: checkpoints them for the next reader, whichever process owns the timeline. */
  startReading(): void {
    this.#isFollowing = true
    if (this.#timing.entries > 0) this.#decide(true)
  }

  declared(attributes: Record<string, Attribute>): void {
    this.#timing.declared(attributes)
  }

  /** Entries of other processes, which may have made checkpoints, too. */
  followed(entries: number): void {
    this.#timing.followed(entries)
    this.#isFollowing ||= entries > 0
  }

  get status(): CheckpointingStatus {
    const timing = this.#timing
    return {
      lastSeq: this.#lastSeq,
      entriesSince: timing.entries,
      costs: timing.costs,
      because: timing.decision?.because ?? 'nothing was decided since the last checkpoint',
      interval: timing.interval,
      failureEveryMs: timing.failureEveryMs,
      failuresInARow: this.#failuresInARow,
    }
  }

  /** Since when every checkpoint fails, manual or by policy, and why. Null: the last one succeeded. */
  get failing(): { readonly since: number; readonly failures: number; readonly reason: string } | null {
    return this.#failing
  }

  /** Entries became durable: checks whether a checkpoint is due. Hot path, so the full decision is made only near a limit. */
  wrote(entries: readonly Entry[], bytes: number): void {
    if (entries.length === 0 || !this.#fold.checkpoint) return
    const isNear = this.#timing.wrote(entries.length, bytes)
    const { on } = this.#fold.checkpoint
    const milestone = on && entries.find((entry) => on.includes(entry.type))?.type
    if (milestone !== undefined) this.#milestone = milestone
    if (this.#isQueued || this.#isStopped) return
    if (milestone !== undefined || (isNear && !this.#isWaiting)) this.#decide()
  }

  async now(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    checkOptions('checkpoint', request, knownRequest)
    if (this.#isStopped) throw new RepriseError('CLOSED', `${this.#timeline.id} was closed`)
    const next = this.#underWay.then(() => this.#make(request, request.trigger ?? 'manual', 'asked for'))
    // The caller gets the error, and so does the store's log.
    next.catch((error) => {
      const what = `requested: ${error instanceof Error ? error.message : String(error)}`
      this.#kernel.events.emit('report', { kind: 'checkpoint-failed', timeline: this.#timeline.id, what })
    })
    this.#underWay = next
      .catch(() => undefined)
      .then(() => {
        if (this.#timing.entries > 0) this.#decide()
      })
    return next
  }

  /** The attributes to write with the commit that releases the timeline. */
  releasing(): Record<string, Attribute> {
    if (!this.#fold.checkpoint) return {}
    return this.#timing.releasing(this.#timeline.epoch)
  }

  /** Waits for a running checkpoint; starts no other. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#endTimer()
    await this.#underWay
    this.#endPause()
  }

  #decide(isReader = false): void {
    const timing = this.#timing
    if (!this.#fold.checkpoint || this.#isQueued || this.#isStopped || this.#cancelPause) return
    if (!isReader && !this.#timeline.isOwner) return
    const decision = timing.decide(this.#milestone === null ? [] : [this.#milestone])
    this.#endTimer()
    if (!decision.isDue) {
      this.#isWaiting = timing.isNear && decision.dueInMs !== null
      if (decision.dueInMs !== null) this.#startTimer(decision.dueInMs)
      if (timing.hasDrifted) this.#keep()
      return
    }
    const milestone = this.#milestone
    this.#milestone = null
    this.#isQueued = true
    const trigger = decision.trigger ?? 'policy'
    const next = this.#underWay.then(async () => {
      if (this.#isStopped || (this.#isFollowing && (await this.#isDone()))) return null
      return await this.#make({}, trigger, decision.because)
    })
    this.#underWay = next
      .catch((error) => {
        // Another process now owns the timeline, and its checkpoints are counted as well.
        if (this.#timeline.isShared && !this.#timeline.isOwner) return
        this.#failuresInARow += 1
        const { id } = this.#timeline
        this.#kernel.events.emit('checkpoint-failed', { timeline: id, error, failuresInARow: this.#failuresInARow })
        this.#milestone ??= milestone
        this.#pause()
      })
      .finally(() => {
        this.#isQueued = false
        // The entries written during this checkpoint may need another one, now or later.
        if (timing.entries > 0) this.#decide()
      })
  }

  /** Another process has made the checkpoint that would be due. */
  async #isDone(): Promise<boolean> {
    this.#isFollowing = false
    const { version } = this.#fold
    const known = (await this.#kernel.store.checkpoints(this.#timeline.id)).find(
      ({ seq, invalid, foldVersion }) => seq <= this.#timeline.seq && invalid === null && foldVersion === version,
    )
    if (!known || known.seq <= (this.#lastSeq ?? 0)) return false
    this.#lastSeq = known.seq
    this.#timing.restartAt(this.#timeline.seq - known.seq)
    return !this.#timing.decide().isDue
  }

  #pause(): void {
    if (this.#isStopped || this.#timeline.broken) return
    const pauseMs = growingPause(this.#failuresInARow, firstPauseMs, longestPauseMs)
    this.#cancelPause = this.#kernel.clock.after(pauseMs, () => {
      this.#cancelPause = null
      this.#decide()
    })
  }

  #endPause(): void {
    this.#cancelPause?.()
    this.#cancelPause = null
  }

  /** For limits by time, or limits that had to wait: they become due without an append. */
  #startTimer(delayMs: number): void {
    // Whole milliseconds: a rounded-off remainder would be waited for again and again.
    this.#cancelTimer = this.#kernel.clock.after(Math.ceil(delayMs) + 1, () => {
      this.#cancelTimer = null
      this.#decide()
    })
  }

  #endTimer(): void {
    this.#isWaiting = false
    this.#cancelTimer?.()
    this.#cancelTimer = null
  }

  /** Stores costs that changed between two checkpoints, for the card and the next process. */
  #keep(): void {
    if (this.#isKeeping) return
    this.#isKeeping = true
    this.#timeline
      .note(this.#timing.kept())
      // Best effort: the next checkpoint stores them again.
      .catch(() => undefined)
      .finally(() => {
        this.#isKeeping = false
      })
  }

  async #make(request: CheckpointRequest, trigger: string, because: string): Promise<PublishedCheckpoint> {
    try {
      const made = await this.#attempt(request, trigger, because).catch(async (error) => {
        const isTouched = error instanceof TouchedValue
        // Retention dropped the base, or a collector removed chunks while this process was suspended: retry without a
        // base.
        if (!isTouched && !isSignal(error, 'BASE_GONE', 'SWEPT')) throw error
        if (!isTouched) this.#base = null
        return await this.#attempt(request, trigger, because, isTouched)
      })
      this.#failing = null
      return made
    } catch (error) {
      const { since = this.#kernel.clock.elapsed(), failures = 0 } = this.#failing ?? {}
      this.#failing = { since, failures: failures + 1, reason: error instanceof Error ? error.message : String(error) }
      throw error
    }
  }

  /** `isHeld`: the state is captured in one slice, however long that takes. */
  async #attempt(
    request: CheckpointRequest,
    trigger: string,
    because: string,
    isHeld = false,
  ): Promise<PublishedCheckpoint> {
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      return await this.#attemptUnder(hold, request, trigger, because, isHeld)
    } finally {
      hold.end()
    }
  }

  async #attemptUnder(
    hold: ChunkHold,
    request: CheckpointRequest,
    trigger: string,
    because: string,
    isHeld: boolean,
  ): Promise<PublishedCheckpoint> {
    const { clock, events } = this.#kernel
    const started = clock.elapsed()
    const base = request.full ? null : this.#base
    const io = stateIo(this.#kernel, hold)
    // Captured synchronously with the coordinate: nothing can be appended in between.
    const { coordinate, digest, mark, capture } = await this.#timeline.atHead((parts) => {
      const { coordinate, digest, state, touches } = this.#timeline
      refuseInvalid(this.#kernel, this.#fold, state, coordinate)
      const isTouched = () => !this.#fold.immutable && this.#timeline.touches !== touches
      const capture = captureState(parts, base?.capture ?? null, io, isHeld ? undefined : isTouched)
      return { coordinate, digest, mark: this.#timing.mark(), capture }
    })
    let isPublished = false
    try {
      const written = await writeCapture(capture, io, settingsOf(this.#fold))
      const manifest: Manifest = { ...coordinate, digest, foldVersion: this.#fold.version, parts: written.parts }
      const record = this.#record(manifest, written, request, trigger, base?.id ?? null)
      assert(record.seq <= this.#timeline.seq, 'state never runs ahead of its history')
      await hold.publish(written.addedChunks, (chunksSince) => this.#timeline.publish({ ...record, chunksSince }))
      isPublished = true
      this.#base = { id: record.id, capture: written.base }
      this.#lastSeq = coordinate.seq
      const ms = clock.elapsed() - started
      const { totalBytes, addedBytes, kind, longestStallMs } = written
      this.#timing.published(mark, { ms, bytes: totalBytes, stallMs: longestStallMs })
      if (isHeld && capture.stallMs > heldMs) {
        events.emit('capture-held', { timeline: coordinate.timeline, ms: capture.stallMs, bytes: totalBytes })
      }
      this.#endTimer()
      events.emit('checkpoint-published', {
        coordinate,
        id: record.id,
        trigger,
        because,
        totalBytes,
        addedBytes,
        ms,
        longestStallMs,
      })
      await this.#verifyPublished(record, manifest, written.addedChunks)
      this.#failuresInARow = 0
      this.#endPause()
      await this.#retain()
      return { id: record.id, coordinate, totalBytes, addedBytes, ms, longestStallMs, kind }
    } catch (error) {
      if (!isPublished) abandonCapture(capture)
      throw error
    }
  }

  #record(
    manifest: Manifest,
    written: { readonly totalBytes: number; readonly addedBytes: number },
    request: CheckpointRequest,
    trigger: string,
    baseId: string | null,
  ): ManifestRecord {
    const body = encodeManifest(manifest)
    return {
      id: (request.id ?? newId(this.#kernel.random)) as ManifestId,
      seq: manifest.seq,
      epoch: manifest.epoch,
      digest: manifest.digest,
      body,
      bodyDigest: this.#kernel.hash(body),
      baseId: baseId as ManifestId | null,
      createdAt: this.#kernel.worker.now(),
      trigger,
      label: request.label ?? null,
      isPinned: request.pin ?? false,
      foldVersion: manifest.foldVersion,
      totalBytes: written.totalBytes,
      addedBytes: written.addedBytes,
      verifiedAt: null,
      invalid: null,
      drilledAt: null,
      drill: null,
    }
  }

  /** Reads back the chunks that this checkpoint added. Only then does retention count it. */
  async #verifyPublished(record: ManifestRecord, manifest: Manifest, added: readonly Uint8Array[]): Promise<void> {
    try {
      await verifyChunks(manifest, stateIo(this.#kernel), added)
    } catch (error) {
      // The next checkpoint builds on verified chunks, or on nothing.
      this.#base = null
      // A store that does not answer proves nothing about the chunks.
      if (!isReprise(error) || error.remedy === 'retry') throw error
      const reason = error.message
      await this.#timeline.mark({ id: record.id, invalid: reason })
      this.#kernel.events.emit('checkpoint-damaged', { timeline: this.#timeline.id, id: record.id, reason })
      throw error
    }
    await this.#timeline.mark({ id: record.id, verifiedAt: this.#kernel.worker.now() }, this.#timing.kept())
    this.#kernel.events.emit('checkpoint-verified', { timeline: this.#timeline.id, id: record.id })
  }

  async #retain(): Promise<void> {
    const [head] = await this.#kernel.store.head([this.#timeline.id])
    if (!head || (head.epoch !== this.#timeline.epoch && !this.#timeline.isShared)) return
    const { floor } = await retain(this.#kernel, head, this.#fold.retain ?? {}, this.#fold.version)
    await forgetEffects(this.#kernel, this.#timeline, this.#fold.retain ?? {}, floor)
  }
}

/** Layers must be read completely before anything else: a paged state has none. */
function settingsOf({ paged }: Pick<Fold<unknown>, 'paged'>): CaptureSettings {
  if (!paged) return defaultOutputSettings
  const plan = { ...defaultKeyedPlanSettings, pagesOverLayer: Number.POSITIVE_INFINITY }
  return { ...defaultOutputSettings, pageBytes: paged.pageBytes, plan }
}

/** The part of an open timeline that its checkpointer needs. */
interface CheckpointedTimeline<State> {
  readonly id: TimelineId
  readonly seq: number
  readonly epoch: number
  readonly coordinate: Coordinate
  readonly digest: Uint8Array
  readonly state: State
  readonly ledger: EffectLedger
  readonly isOwner: boolean
  readonly isShared: boolean
  readonly broken: RepriseError | null
  /** Grows with each change of the state. */
  readonly touches: number
  atHead<T>(capture: (parts: CapturedParts) => T): Promise<T>
  publish(record: NewManifest): Promise<void>
  mark(mark: ManifestMark, attributes?: Commit['attributes']): Promise<void>
  note(attributes: NonNullable<Commit['attributes']>): Promise<void>
  write(entries: readonly NewEntry[]): Promise<unknown>
}

/** Removes effects from the ledger of an open timeline that its policy no longer keeps, after history was trimmed. */
async function forgetEffects(
  { planted }: Pick<Kernel, 'planted'>,
  timeline: { readonly ledger: EffectLedger; write(entries: readonly NewEntry[]): Promise<unknown> },
  policy: RetentionPolicy,
  floor: number,
): Promise<void> {
  const below = effectsBelow(timeline.ledger, floor, effectsLastOf(policy), planted)
  // Recorded as an entry, so that every fold of this history forgets at the same place.
  if (below !== null) await timeline.write([{ type: forgottenType, data: { below } }])
}
