// A projection in memory. Its state is a pure function of the feed up to a position, so any process can have a live
// copy; one of them, the owner of the timeline, writes checkpoints: state and position in one manifest, under the
// fence. The named cursor stays at the checkpoint before the newest: history after it is never trimmed, so a damaged
// newest checkpoint only costs a longer replay. A partition exists in one process only: its owner applies its events,
// and other processes neither hold nor read it.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import { ignoring, isReprise, isSignal } from '../../core/errors.ts'
import { type Validity, whyInvalid } from '../../core/history/validity.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import { type FeedPosition, feedStart, type Head } from '../../core/store/ports.ts'
import { isBehind } from '../../core/store/shards.ts'
import { callPure } from '../../engine/base/guard/zone.ts'
import { CheckpointTiming } from '../../engine/checkpoint/timing.ts'
import type { ShareGate } from '../../engine/feed/fair-share.ts'
import {
  isAside,
  isSame,
  PoisonError,
  placeOf,
  type Quarantined,
  type SubscriptionSink,
  without,
} from '../../engine/feed/sink.ts'
import { readManifest } from '../../engine/history/recover.ts'
import { invalidState } from '../../engine/history/validity.ts'
import {
  abandonCapture,
  type CaptureBase,
  captureState,
  isPlainObject,
  TouchedValue,
  writeCapture,
} from '../../engine/snapshot/capture.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { restoreState } from '../../engine/snapshot/restore.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import { type Kernel, newId, submit } from '../../engine/storage/kernel.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { Mutex } from '../../lib/waiting.ts'
import type { EventAt, Occurrence } from './source.ts'

export interface MemoryModel<State> {
  readonly version: string
  readonly initial: () => State
  readonly on: Readonly<Record<string, ((state: State, event: never, at: EventAt) => State | void) | undefined>>
  readonly checkpoint: CheckpointPolicy
  readonly valid?: Validity<State> | undefined
}

/**
 * The two checkpoints that the cursor relies on, and one before: the cursor is before the entry of the second, so that
 * history can be trimmed only below that.
 */
export const memoryRetain = { checkpoints: 3, history: 'needed' } as const
const stepItemsMax = 1000
const retakeMs = 1000
const askMs = 1000
/** Without new events, the position is still written at this interval, so that history can be trimmed. */
const idleMs = 60_000

export class MemorySink<State> implements SubscriptionSink<Occurrence> {
  readonly #kernel: Kernel
  readonly #timeline: TimelineId
  readonly #model: MemoryModel<State>
  readonly #gate: ShareGate | null
  #state: State
  #position: FeedPosition = feedStart
  #events = 0
  #quarantine: readonly Quarantined[] = []
  #owned: StateTimeline | null = null
  #isLeaving = false
  #base: { readonly id: string; readonly capture: CaptureBase } | null = null
  /** The position of the newest checkpoint. */
  #savedPosition: FeedPosition = feedStart
  #savedAt: number
  /** The same policy and calculation as for every other checkpoint; events count as entries. */
  #timing: CheckpointTiming
  #triedAt = Number.NEGATIVE_INFINITY
  #requestedAt = Number.NEGATIVE_INFINITY
  readonly #saving = new Mutex()
  /** Rejects if entries that were read are no longer in the store. */
  #confirm: () => Promise<void> = async () => undefined

  private constructor(kernel: Kernel, timeline: TimelineId, model: MemoryModel<State>, gate: ShareGate | null) {
    this.#kernel = kernel
    this.#gate = gate
    this.#timeline = timeline
    this.#model = model
    this.#state = callPure(kernel.guardsFolds(), 'initial', model.initial)
    this.#savedAt = kernel.clock.elapsed()
    this.#timing = this.#newTiming({})
  }

  #newTiming(attributes: Head['attributes']): CheckpointTiming {
    const { clock, worker } = this.#kernel
    return new CheckpointTiming(clock, this.#model.checkpoint, attributes, () => worker.now())
  }

  /** The timeline is created only at the first opening: a generation that was removed after a rebuild must not return. */
  static async open<State>(
    kernel: Kernel,
    timeline: TimelineId,
    model: MemoryModel<State>,
    /** The gate of a partition. Default: null, and every process has a full copy. */
    gate: ShareGate | null = null,
  ): Promise<MemorySink<State>> {
    const sink = new MemorySink(kernel, timeline, model, gate)
    await sink.#takeIfFree({})
    await sink.#load()
    return sink
  }

  /** A checkpoint is made between two steps, so frequent checkpoints need short steps. */
  get stepItems(): number {
    return Math.min(this.#model.checkpoint.every ?? stepItemsMax, stepItemsMax)
  }

  get isOwned(): boolean {
    return this.#gate === null || (this.isWriter && !this.#isLeaving)
  }

  get state(): State {
    return this.#state
  }

  get where(): string {
    return this.#timeline
  }

  get position(): FeedPosition {
    return this.#position
  }

  get events(): number {
    return this.#events
  }

  get quarantine(): readonly Quarantined[] {
    return this.#quarantine
  }

  /** Whether this process writes the checkpoints. */
  get isWriter(): boolean {
    return this.#owned !== null && this.#owned.broken === null
  }

  /** The position of the newest checkpoint. Also requests a new checkpoint from the owner. */
  async stored(): Promise<FeedPosition> {
    const { store, clock, random } = this.#kernel
    const [head] = await store.head([this.#timeline])
    if (head && clock.elapsed() - this.#requestedAt >= askMs) {
      this.#requestedAt = clock.elapsed()
      const message = { id: newId(random) as MessageId, to: this.#timeline, kind: 'save', data: new Uint8Array() }
      await submit(this.#kernel, { guard: null, send: [message] })
    }
    return String(head?.attributes.position ?? feedStart)
  }

  /** Another process waits for this partition: writes a checkpoint. */
  async #answer(): Promise<void> {
    const { store } = this.#kernel
    const [head] = await store.head([this.#timeline])
    if (!head || head.mail === 0 || head.epoch !== this.#owned?.head.epoch) return
    const requests = await store.inbox(this.#timeline, 100)
    await this.#save()
    await this.#owned?.write({ consume: requests.messages.map(({ id }) => id) })
  }

  async apply(events: readonly Occurrence[], next: FeedPosition): Promise<void> {
    const hasQuarantine = this.#quarantine.length > 0
    const startedAt = this.#timing.meter.start()
    let state = this.#state
    for (const occurrence of events) {
      if (hasQuarantine && isAside(this.#quarantine, occurrence)) continue
      try {
        state = this.#step(state, occurrence)
      } catch (cause) {
        // The handler may have changed the state in place before it threw, so the checkpoint is loaded again.
        await this.#load()
        throw new PoisonError(occurrence, cause)
      }
    }
    this.#state = state
    this.#position = next
    this.#events += events.length
    if (events.length === 0) return
    this.#timing.meter.stop(startedAt, events.length)
    this.#timing.wrote(events.length, 0)
    if (this.#timing.decide(this.#milestones(events)).isDue) await this.#save()
  }

  #step(state: State, occurrence: Occurrence): State {
    const step = this.#model.on[occurrence.type]
    const call = () => (step?.(state, occurrence.event as never, occurrence.at) ?? state) as State
    return callPure(this.#kernel.guardsFolds(), `${this.#timeline}: handler`, call, placeOf(occurrence))
  }

  /** Applies the event to the current state. Every process with a full copy must do this itself. */
  async redrive(occurrence: Occurrence): Promise<void> {
    const letter = this.#quarantine.find((each) => isSame(each, occurrence.at))
    this.#quarantine = without(this.#quarantine, occurrence.at)
    try {
      await this.apply([occurrence], this.#position)
    } catch (error) {
      if (letter) await this.setAside(letter)
      throw error
    }
    await this.save()
  }

  async discard(letter: Quarantined): Promise<void> {
    this.#quarantine = without(this.#quarantine, letter)
    await this.save()
  }

  #milestones(events: readonly Occurrence[]): readonly string[] {
    const { on } = this.#model.checkpoint
    const found = on && events.find(({ type }) => on.includes(type))
    return found ? [found.type] : []
  }

  async setAside(poison: Quarantined): Promise<void> {
    if (!this.#quarantine.some((letter) => isSame(letter, poison))) {
      this.#quarantine = [...this.#quarantine, poison]
      this.#timing.wrote(1, 0)
    }
  }

  async idle(): Promise<void> {
    const { clock } = this.#kernel
    if (this.isWriter && this.#gate?.shouldGiveUp()) return await this.#giveUp()
    const isDue = !this.isWriter && clock.elapsed() - this.#triedAt >= retakeMs
    if (isDue && (this.#gate === null || this.#gate.mayTake())) {
      const stored = await this.#takeIfFree({ mustExist: true })
      if (this.isWriter) await this.#goOnAfterOthers(stored)
    }
    if (!this.isOwned) return
    if (this.#gate && this.isWriter) await this.#answer()
    const sinceMs = clock.elapsed() - this.#savedAt
    const isMoved = this.#position !== this.#savedPosition
    const isDueNow = this.#timing.entries > 0 && this.#timing.decide().isDue
    if (isDueNow || (isMoved && sinceMs >= idleMs)) await this.#save()
  }

  /** Writes a checkpoint now, if this process is the writer. */
  async save(): Promise<void> {
    if (this.#position !== this.#savedPosition || this.#timing.entries > 0) await this.#save()
  }

  confirmBy(confirm: () => Promise<void>): void {
    this.#confirm = confirm
  }

  async reload(): Promise<void> {
    await this.#saving.run(() => undefined)
    this.#owned = null
    // The quarantine names events of the other copy, and would hide the events that have their positions now.
    this.#quarantine = []
    // The restored copy may be older than this projection, so the timeline is created again.
    if (this.#gate === null || this.#gate.mayTake()) await this.#takeIfFree({})
    await this.#load()
  }

  async close(): Promise<void> {
    await this.#giveUp()
  }

  async #giveUp(): Promise<void> {
    // The partition is no longer treated as owned from here on; otherwise all partitions would see too many owned ones, and
    // all would leave.
    this.#isLeaving = true
    try {
      if (this.isWriter && this.#timing.entries > 0) {
        await this.#save().catch(ignoring('POSITION_GONE'))
      }
      await this.#owned?.release({ attributes: this.#timing.releasing(this.#owned.head.epoch) })
    } finally {
      this.#owned = null
      this.#isLeaving = false
    }
  }

  /** Returns the position of the newest checkpoint. */
  async #takeIfFree(options: { readonly mustExist?: boolean }): Promise<FeedPosition> {
    this.#triedAt = this.#kernel.clock.elapsed()
    try {
      this.#owned = await StateTimeline.take(this.#kernel, this.#timeline, options)
      const [head] = await this.#kernel.store.head([this.#timeline])
      this.#timing.declared(head?.attributes ?? {})
      return String(head?.attributes.position ?? feedStart)
    } catch (error) {
      this.#owned = null
      if (!isReprise(error, 'OWNED', 'FENCED', 'NOT_FOUND')) throw error
      return feedStart
    }
  }

  /**
   * Other processes may have written checkpoints meanwhile. A partition did not follow the feed and is loaded. The
   * whole did follow it, and is loaded only if the stored checkpoint is further: the cursor must not go back behind it.
   */
  async #goOnAfterOthers(stored: FeedPosition): Promise<void> {
    if (this.#gate || isBehind(this.#position, stored)) return await this.#load()
    if (stored === this.#savedPosition) return
    this.#savedPosition = stored
    this.#base = null
  }

  /** Loads the newest complete checkpoint, else the initial state. */
  async #load(): Promise<void> {
    const known = this.#quarantine
    this.#forget()
    const { store, clock } = this.#kernel
    const began = clock.elapsed()
    const [head] = await store.head([this.#timeline])
    const records = await store.checkpoints(this.#timeline)
    const openMs = clock.elapsed() - began
    const timing = this.#newTiming(head?.attributes ?? {})
    let restore: { readonly ms: number; readonly bytes: number } | null = null
    let madeAt: number | null = null
    for (const record of records) {
      if (record.invalid !== null || record.foldVersion !== this.#model.version) continue
      try {
        const started = clock.elapsed()
        const { state, base } = await restoreState(readManifest(this.#kernel, record), stateIo(this.#kernel))
        this.#take(state as Captured & Record<string, unknown>)
        if (this.#isInvalid(record.seq, 'the captured state is not valid')) {
          this.#forget()
          continue
        }
        this.#base = { id: record.id, capture: base }
        madeAt = record.createdAt
        restore = { ms: clock.elapsed() - started, bytes: record.totalBytes }
        break
      } catch (error) {
        if (!isReprise(error, 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED')) throw error
        this.#kernel.events.emit('checkpoint-damaged', {
          timeline: this.#timeline,
          id: record.id,
          reason: error.message,
        })
        if (this.isWriter) await this.#owned!.mark({ id: record.id, invalid: error.message })
      }
    }
    this.#savedPosition = this.#position
    const others = known.filter((one) => !this.#quarantine.some((other) => isSame(one, other)))
    this.#quarantine = [...this.#quarantine, ...others]
    // Events after the checkpoint are counted as they are read again.
    const ageMs = this.#kernel.worker.now() - (madeAt ?? head?.createdAt ?? this.#kernel.worker.now())
    timing.recovered({ openMs, restore, entries: 0, replayMs: null, ageMs })
    this.#timing = timing
  }

  #forget(): void {
    this.#state = callPure(this.#kernel.guardsFolds(), 'initial', this.#model.initial)
    this.#position = feedStart
    this.#events = 0
    this.#base = null
  }

  /** Reports an invalid state: it is neither captured nor resumed from. */
  #isInvalid(seq: number, what: string): boolean {
    const { valid } = this.#model
    const ask = () => whyInvalid(valid, this.#state)
    const why = valid ? callPure(this.#kernel.guardsFolds(), `valid of ${this.#timeline}`, ask) : null
    if (why === null) return false
    const error = invalidState({ timeline: this.#timeline, seq }, why, what)
    this.#kernel.events.emit('checkpoint-failed', { timeline: this.#timeline, error, failuresInARow: 1 })
    return true
  }

  #take(captured: Captured & Record<string, unknown>): void {
    const { position, events, quarantine } = captured
    this.#position = position
    this.#events = events
    this.#quarantine = quarantine
    this.#state = stateOf(captured) as State
  }

  #parts(): Record<string, unknown> {
    return partsOf({ position: this.#position, events: this.#events, quarantine: this.#quarantine }, this.#state)
  }

  /** One capture at a time: a capture that is overtaken counts as abandoned. */
  #save(): Promise<void> {
    // The policy's trigger; without one, the checkpoint was requested or the position had to be written.
    const trigger = this.#timing.decision?.trigger ?? 'projection'
    return this.#saving.run(() => this.#publish(trigger))
  }

  /** `isHeld`: captured without yielding. */
  async #publish(trigger: string, isHeld = false): Promise<void> {
    if (!this.isWriter) return
    if (this.#isInvalid(this.#owned!.head.seq, 'no checkpoint is made, because the state is not valid')) {
      this.#savedAt = this.#kernel.clock.elapsed()
      return
    }
    // A state that includes entries that the store has lost must not become durable.
    await this.#confirm()
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      await this.#publishUnder(hold, trigger, isHeld)
    } finally {
      hold.end()
    }
  }

  async #publishUnder(hold: ChunkHold, trigger: string, isHeld: boolean): Promise<void> {
    const { clock } = this.#kernel
    const started = clock.elapsed()
    const io = stateIo(this.#kernel, hold)
    const position = this.#position
    const mark = this.#timing.mark()
    // Events wait for the checkpoints that they make due; a requested checkpoint runs concurrently with them.
    const events = this.#events
    const isTouched = () => this.#events !== events || this.#position !== position
    const capture = captureState(this.#parts(), this.#base?.capture ?? null, io, isHeld ? undefined : isTouched)
    try {
      const written = await writeCapture(capture, io)
      const { totalBytes, addedBytes, addedChunks, parts } = written
      const record = await this.#owned!.publish({
        entry: { type: 'advanced', data: { position, events: this.#events } },
        parts,
        foldVersion: this.#model.version,
        totalBytes,
        addedBytes,
        addedChunks,
        hold,
        baseId: (this.#base?.id as never) ?? null,
        trigger,
        extras: { cursors: { [this.#timeline]: this.#savedPosition }, attributes: { position } },
      })
      this.#base = { id: record.id, capture: written.base }
      this.#savedPosition = position
      this.#savedAt = clock.elapsed()
      this.#timing.published(mark, { ms: this.#savedAt - started, bytes: totalBytes, stallMs: written.longestStallMs })
      const attributes = this.#timing.kept()
      if (Object.keys(attributes).length > 0) await this.#owned!.write({ attributes })
      await this.#owned!.retain(memoryRetain, this.#model.version)
    } catch (error) {
      abandonCapture(capture)
      if (error instanceof TouchedValue) return await this.#publish(trigger, true)
      this.#base = null
      // The store refuses the checkpoint and may keep refusing it, so the reason is reported.
      if (isReprise(error, 'CONFLICT')) {
        this.#kernel.events.emit('checkpoint-failed', { timeline: this.#timeline, error, failuresInARow: 1 })
      }
      // Another process writes now: this copy continues as a reader.
      const isGone = isSignal(error, 'BASE_GONE', 'SWEPT')
      if (!isGone && !isReprise(error, 'FENCED', 'CONFLICT', 'NOT_FOUND')) throw error
    }
  }
}

/**
 * The parts of a projection's checkpoint in memory: its state and its feed position. A Keyed, alone or as a field of a
 * plain object, is its own part, so that only its changes are written.
 */
interface Bound {
  readonly position: FeedPosition
  readonly events: number
  readonly quarantine: readonly Quarantined[]
}

interface Captured extends Bound {
  readonly layout: 'value' | 'keyed' | 'object'
  readonly state: unknown
}

function partsOf(bound: Bound, state: unknown): Record<string, unknown> {
  if (state instanceof Keyed) return { ...bound, layout: 'keyed', state }
  const keyeds = isPlainObject(state) ? Object.entries(state).filter(([, part]) => part instanceof Keyed) : []
  if (keyeds.length === 0) return { ...bound, layout: 'value', state }
  const rest = Object.fromEntries(Object.entries(state as object).filter(([, part]) => !(part instanceof Keyed)))
  const parts = Object.fromEntries(keyeds.map(([name, part]) => [`state.${name}`, part]))
  return { ...bound, layout: 'object', state: rest, ...parts }
}

function stateOf(captured: Captured & Record<string, unknown>): unknown {
  if (captured.layout !== 'object') return captured.state
  const state = { ...(captured.state as object) } as Record<string, unknown>
  for (const [name, part] of Object.entries(captured)) if (name.startsWith('state.')) state[name.slice(6)] = part
  return state
}
