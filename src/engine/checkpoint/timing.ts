// When the next checkpoint of one timeline is due: the entries since the last one, the time to replay them, the
// measured costs, and the decision (core/checkpoint/checkpoint-policy.ts) with its explanation. Makes no checkpoint and
// sets no timer.
// The measured costs are stored with the timeline, in one attribute: a new process starts with them, and the card shows
// them.

import {
  beginsAt,
  type CheckpointDecision,
  type CheckpointInterval,
  type CheckpointPolicy,
  chooseInterval,
  decideCheckpoint,
  type SinceCheckpoint,
  usesCosts,
} from '../../core/checkpoint/checkpoint-policy.ts'
import { decodeCosts, encodeCosts, type MeasuredCosts, observe, readMsOf } from '../../core/checkpoint/costs.ts'
import type { Attribute, Clock } from '../../core/store/ports.ts'
import { ReplayMeter } from '../history/replay-meter.ts'
import { observedMs, onRelease } from './observed-failures.ts'

export const costsAttribute = '$costs'

/** Costs that changed by more than this share are stored again even without a checkpoint. */
const driftMax = 0.25
/** The minimum time between two such writes. */
const keepEachMs = 10_000

const entriesPerCheck = 256
/** A burst counts less with each checkpoint after it. */
const fades = 0.9

type Attributes = Readonly<Record<string, Attribute>>

/** A position in the counters: everything before it is captured, everything after it is not. */
export interface TimingMark {
  readonly entries: number
  readonly replayMs: number
}

export class CheckpointTiming {
  readonly policy: CheckpointPolicy
  readonly meter: ReplayMeter
  readonly #clock: Clock
  readonly #isMeasuring: boolean
  readonly #now: () => number
  #attributes: Attributes
  #costs: MeasuredCosts
  #entries = 0
  #replayMs = 0
  #bytes = 0
  #isFirst = true
  /** The most entries written during one of the last checkpoints, and in one of the last commits. */
  #duringMost = 0
  #commitMost = 1
  /** When any process made the last checkpoint. */
  #lastAt: number
  /** When this process began to count arrivals and load, and the arrivals since. */
  #startedAt: number
  #arrived = 0
  #activeAt: number
  #decision: CheckpointDecision | null = null
  /** Entry count at which costs are evaluated again, even if no limit is near. */
  #nextCheck = 0
  #keptAt: number

  constructor(clock: Clock, policy: CheckpointPolicy, attributes: Attributes, now: () => number) {
    this.policy = policy
    this.#clock = clock
    this.#now = now
    this.#isMeasuring = usesCosts(policy)
    this.#attributes = attributes
    this.#costs = decodeCosts(attributes[costsAttribute])
    this.meter = new ReplayMeter(clock, this.#costs.applyMsPerEntry)
    this.#lastAt = clock.elapsed()
    this.#startedAt = this.#lastAt
    this.#keptAt = this.#lastAt
    this.#activeAt = this.#activeMs
  }

  /** Records a recovery. `entries` come after the restored checkpoint and took `replayMs`; null: unknown. */
  recovered(from: {
    /** Null: the timeline was just created. */
    readonly openMs: number | null
    readonly restore: { readonly ms: number; readonly bytes: number } | null
    readonly entries: number
    readonly replayMs: number | null
    /** The age of the checkpoint, or of the timeline if there is none. */
    readonly ageMs: number
  }): void {
    this.#isFirst = from.restore === null
    this.#lastAt = this.#clock.elapsed() - Math.max(0, from.ageMs)
    this.#entries = from.entries
    // There are many timelines, and most policies need no costs.
    if (!this.#isMeasuring) return
    if (from.openMs !== null) this.#costs = observe(this.#costs, { kind: 'open', ms: from.openMs })
    if (from.restore) this.#costs = observe(this.#costs, { kind: 'restore', ...from.restore })
    if (from.replayMs !== null) {
      this.#costs = observe(this.#costs, { kind: 'replay', ms: from.replayMs, entries: from.entries })
    }
    this.#replayMs = from.replayMs ?? this.#estimated(from.entries, 0)
  }

  /** The attributes written with the take, failures included. */
  declared(attributes: Attributes): void {
    this.#attributes = { ...this.#attributes, ...attributes }
  }

  get costs(): MeasuredCosts {
    return this.#costs
  }

  get entries(): number {
    return this.#entries
  }

  get isFirst(): boolean {
    return this.#isFirst
  }

  /** The last decision; null: none since the last checkpoint. */
  get decision(): CheckpointDecision | null {
    return this.#decision
  }

  get interval(): CheckpointInterval {
    return chooseInterval(this.policy, this.#costs, this.#sinceCheckpoint)
  }

  get failureEveryMs(): number | null {
    return observedMs(this.policy, this.#attributes, this.#now())
  }

  /** For the hot path: counts, and returns whether a decision should be made. */
  wrote(entries: number, bytes: number): boolean {
    this.#entries += entries
    this.#commitMost = Math.max(this.#commitMost, entries)
    this.#arrived += entries
    this.#bytes += bytes
    if (!this.#isMeasuring) return this.isNear
    this.#replayMs += this.#estimated(entries, bytes)
    return this.#entries >= this.#nextCheck || this.isNear
  }

  /** Entries that other processes wrote and this one read. */
  followed(entries: number): void {
    this.#entries += entries
    if (this.#isMeasuring) this.#replayMs += this.#estimated(entries, 0)
  }

  /** A limit is reached, or no decision was made since the last checkpoint. */
  get isNear(): boolean {
    const decision = this.#decision
    if (decision === null) return this.#entries > 0
    const { every = Number.POSITIVE_INFINITY, first = 0 } = this.policy
    if (this.#entries >= Math.max(beginsAt(every, this.#expected), this.#isFirst ? first : 0)) return true
    return decision.replayMs !== null && this.#replayMs >= decision.replayMs
  }

  decide(types: readonly string[] = []): CheckpointDecision {
    const { mean, timed } = this.meter
    if (this.#isMeasuring && mean !== null && timed > 0) {
      this.#costs = observe(this.#costs, { kind: 'apply', ms: mean })
    }
    this.#nextCheck = this.#entries + entriesPerCheck
    const ms = this.#clock.elapsed() - this.#lastAt
    this.#decision = decideCheckpoint(this.policy, this.#costs, {
      ...this.#sinceCheckpoint,
      entries: this.#entries,
      ms,
      replayMs: this.#replayMs,
      types,
    })
    return this.#decision
  }

  /** Taken together with the capture. */
  mark(): TimingMark {
    return { entries: this.#entries, replayMs: this.#replayMs }
  }

  /** Everything before the mark is captured. */
  published(mark: TimingMark, made: { readonly ms: number; readonly bytes: number; readonly stallMs: number }): void {
    if (this.#isMeasuring) {
      const sinceMs = this.#clock.elapsed() - this.#startedAt
      const active = this.#clock.activeMs ? this.#activeMs - this.#activeAt : made.ms
      this.#costs = observe(this.#costs, { kind: 'checkpoint', ...made })
      this.#costs = observe(this.#costs, { kind: 'load', ms: sinceMs, activeMs: active })
      const arrived = { ms: sinceMs, entries: this.#arrived, bytes: this.#bytes }
      this.#costs = observe(this.#costs, { kind: 'arrivals', ...arrived })
    }
    const during = this.#entries - mark.entries
    this.#duringMost = Math.max(during, this.#duringMost * fades)
    this.#commitMost = Math.max(1, this.#commitMost * fades)
    this.restartAt(during, Math.max(0, this.#replayMs - mark.replayMs))
  }

  /** Another process may have made a checkpoint: it is this many entries back. */
  restartAt(entries: number, replayMs = this.#estimated(entries, 0)): void {
    this.#entries = entries
    this.#replayMs = replayMs
    this.#isFirst = false
    this.#lastAt = this.#clock.elapsed()
    this.#startedAt = this.#lastAt
    this.#arrived = 0
    this.#bytes = 0
    this.#activeAt = this.#activeMs
    this.#decision = null
  }

  /** The costs as an attribute of the timeline, to be written now. From then on the card shows them. */
  kept(): Attributes {
    if (!this.#isMeasuring) return {}
    const text = encodeCosts(this.#costs)
    this.#costs = decodeCosts(text)
    this.#keptAt = this.#clock.elapsed()
    this.#attributes = { ...this.#attributes, [costsAttribute]: text }
    return { [costsAttribute]: text }
  }

  /** The attributes to write with a release: that it was one, and the costs measured since the last checkpoint. */
  releasing(epoch: number): Record<string, Attribute> {
    const observed = onRelease(this.policy, this.#attributes, epoch, this.#now())
    return { ...(this.meter.timed > 0 && this.kept()), ...observed }
  }

  /** True if the stored costs differ from the measured ones. */
  get hasDrifted(): boolean {
    if (!this.#isMeasuring || this.#clock.elapsed() - this.#keptAt < keepEachMs) return false
    const kept = decodeCosts(this.#attributes[costsAttribute]).applyMsPerEntry
    const { mean, timed } = this.meter
    if (mean === null || timed === 0) return false
    return kept === null ? mean > 0 : Math.abs(mean - kept) > driftMax * kept
  }

  get #sinceCheckpoint(): SinceCheckpoint {
    const failureEveryMs = this.failureEveryMs
    const since = { entries: 0, ms: 0, isFirst: this.#isFirst, expected: this.#expected }
    return { ...since, ...(failureEveryMs !== null && { failureEveryMs }) }
  }

  /** Entries that may follow before the next checkpoint is published, once it is due. */
  get #expected(): number {
    return Math.ceil(this.#duringMost + this.#commitMost - 1)
  }

  get #activeMs(): number {
    return this.#isMeasuring ? (this.#clock.activeMs?.() ?? 0) : 0
  }

  #estimated(entries: number, bytes: number): number {
    return this.meter.take(entries) + readMsOf(this.#costs, entries, bytes)
  }
}

/** The interval that a policy and the stored costs result in, for processes that do not have the timeline open. */
export function keptInterval(
  policy: CheckpointPolicy,
  attributes: Attributes,
  at: { readonly isFirst: boolean; readonly now: number },
): { readonly costs: MeasuredCosts; readonly interval: CheckpointInterval; readonly failureEveryMs: number | null } {
  const costs = decodeCosts(attributes[costsAttribute])
  const failureEveryMs = observedMs(policy, attributes, at.now)
  const since = { entries: 0, ms: 0, isFirst: at.isFirst, ...(failureEveryMs !== null && { failureEveryMs }) }
  return { costs, interval: chooseInterval(policy, costs, since), failureEveryMs }
}
