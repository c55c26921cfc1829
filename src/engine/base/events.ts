// What the engine tells about itself, typed. Traces, metrics, logs and the dashboard are built on these; a listener
// that throws never disturbs the work.

import type { Coordinate } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { RecoveryReport } from './recovery-report.ts'

export interface EngineEvents {
  readonly opened: { readonly timeline: string; readonly epoch: number; readonly report: RecoveryReport }
  readonly closed: { readonly timeline: string }
  readonly committed: {
    readonly commits: number
    readonly entries: number
    readonly bytes: number
    readonly ms: number
  }
  readonly appended: { readonly timeline: string; readonly first: number; readonly count: number }
  readonly fenced: { readonly timeline: string; readonly epoch: number }
  readonly recovered: { readonly timeline: string; readonly report: RecoveryReport }
  readonly 'checkpoint-damaged': { readonly timeline: string; readonly id: string; readonly reason: string }
  /** Something stored was damaged or missing, and was read from its redundancy: a disk that does this once may do it again. */
  readonly healed: { readonly what: string; readonly from: string; readonly isPutBack: boolean }
  readonly 'checkpoint-published': {
    readonly coordinate: Coordinate
    readonly id: string
    readonly trigger: string
    readonly because: string
    readonly totalBytes: number
    readonly addedBytes: number
    readonly ms: number
    readonly longestStallMs: number
  }
  /** A collector may have taken chunks of a capture under way: they were touched, and those missing are put again. */
  /** Chunks of older checkpoints that went to colder places. */
  readonly 'tiers-moved': { readonly chunks: number; readonly bytes: number }
  /** A stretch of history now lies in the tier that takes history, and no longer in the store. */
  readonly 'history-moved': {
    readonly timeline: string
    readonly segment: string
    readonly from: number
    readonly to: number
    readonly bytes: number
  }
  readonly 'chunks-renewed': { readonly chunks: number; readonly missing: number }
  /** A large plain state had to be captured in one go, for it was folded meanwhile and is not declared `immutable`. */
  readonly 'capture-held': { readonly timeline: string; readonly ms: number; readonly bytes: number }
  readonly 'checkpoint-verified': { readonly timeline: string; readonly id: string }
  readonly 'checkpoint-failed': { readonly timeline: string; readonly error: unknown; readonly failuresInARow: number }
  /** Code declared another policy than the one that was stored. */
  readonly declared: { readonly timeline: string; readonly from: unknown; readonly to: unknown }
  /** `freedBytes`: about so much nobody names any more. */
  readonly retained: {
    readonly timeline: string
    readonly dropped: number
    readonly floor: number
    readonly freedBytes: number
  }
  readonly collected: { readonly chunks: number; readonly bytes: number }
  /** `isErased`: nothing of it is to be kept, not even its id. */
  readonly deleted: { readonly timeline: string; readonly freedBytes: number; readonly isErased: boolean }
  readonly drilled: { readonly timeline: string; readonly ok: boolean; readonly ms: number }
  /** Every member of a group was saved at its place in one moment. */
  readonly 'cut-completed': { readonly cut: string; readonly members: readonly string[]; readonly ms: number }
  /** A cut did not come to its end in time, and nothing of it is kept. */
  readonly 'cut-abandoned': {
    readonly cut: string
    readonly members: readonly string[]
    readonly missing: readonly string[]
    readonly because: string
  }
  /** A group went back, together. */
  readonly 'group-restored': { readonly restore: string; readonly members: readonly string[] }
  /**
   * Somebody asked a memo for a result, and where it was. `stale`: it had grown old, and was given all the same. `failed`: it
   * was nowhere, and could not be computed.
   */
  readonly recalled: {
    readonly memo: string
    readonly from: 'memory' | 'store' | 'stale' | 'remote' | 'computed' | 'failed'
    /** Where nothing was there: why, in words. Asks the store, and is for those who show it to people. */
    readonly why?: () => Promise<string>
  }
  readonly 'store-retry': { readonly error: unknown; readonly attempt: number }
  readonly 'worker-retired': { readonly worker: string; readonly because: string }
  readonly 'worker-renewed': { readonly worker: string }
  /** Something worth keeping in the store's log (report-log.ts): `kind` is one word, `what` is for people. */
  readonly report: {
    readonly kind: string
    readonly timeline: string | null
    readonly what: string
    readonly data?: unknown
  }
  /** Work that may take long is so far: a verify, or the loading of a state. */
  readonly progress: {
    readonly work: 'verify' | 'load'
    /** Whose state is loaded; null: the store as a whole. */
    readonly timeline: string | null
    /** In a word: structures, timelines, …; restore, replay. */
    readonly part: string
    readonly done: number
    /** About so many there are; null: nobody knows. */
    readonly total: number | null
    readonly at: string | null
  }
  readonly problem: { readonly where: string; readonly error: unknown }
}

export type EventName = keyof EngineEvents
export type Listener<Name extends EventName> = (event: EngineEvents[Name]) => void

export class Events {
  readonly #listeners = new Map<EventName, Set<Listener<EventName>>>()
  #isClosing = false

  /** @example const off = rp.events.on('fenced', ({ timeline }) => console.warn(timeline)) */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    const set = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, set)
    set.add(listener as Listener<EventName>)
    return () => set.delete(listener as Listener<EventName>)
  }

  /** @internal */
  emit<Name extends EventName>(name: Name, event: EngineEvents[Name]): void {
    const set = this.#listeners.get(name)
    if (!set || (this.#isClosing && isOfClosing(name, event))) return
    for (const listener of set) {
      try {
        listener(event)
      } catch {
        // A broken observer is the observer's problem; history must not depend on it.
      }
    }
  }

  has(name: EventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0
  }

  /** The engine is being closed: that something finds it closed is no problem. @internal */
  closing(): void {
    this.#isClosing = true
  }
}

function isOfClosing(name: EventName, event: EngineEvents[EventName]): boolean {
  return name === 'problem' && isReprise((event as EngineEvents['problem']).error, 'CLOSED')
}
