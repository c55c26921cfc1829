// Typed events of the engine. Traces, metrics, logs and the dashboard are built on them; an error thrown by a listener
// never disturbs the engine.

import type { Coordinate } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { namesOf, nearestName } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
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
  /** Damaged or missing bytes were read from their redundancy. A disk that fails once may fail again. */
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
  /** Chunks of older checkpoints were moved to a colder tier. */
  readonly 'tiers-moved': { readonly chunks: number; readonly bytes: number }
  /** A segment of history was moved from the store to the history tier. */
  readonly 'history-moved': {
    readonly timeline: string
    readonly segment: string
    readonly from: number
    readonly to: number
    readonly bytes: number
  }
  /** The chunks of a running capture were touched again because a collector may have removed them; `missing` are put again. */
  readonly 'chunks-renewed': { readonly chunks: number; readonly missing: number }
  /** A large plain state was captured in one slice: it was folded during the capture and is not declared `immutable`. */
  readonly 'capture-held': { readonly timeline: string; readonly ms: number; readonly bytes: number }
  readonly 'checkpoint-verified': { readonly timeline: string; readonly id: string }
  readonly 'checkpoint-failed': { readonly timeline: string; readonly error: unknown; readonly failuresInARow: number }
  /** The declared policy differs from the stored one. */
  readonly declared: { readonly timeline: string; readonly from: unknown; readonly to: unknown }
  /** `freedBytes`: estimated size of the chunks that no manifest names any more. */
  readonly retained: {
    readonly timeline: string
    readonly dropped: number
    readonly floor: number
    readonly freedBytes: number
  }
  readonly collected: { readonly chunks: number; readonly bytes: number }
  /** `isErased`: nothing of the timeline is kept, not even its id. */
  readonly deleted: { readonly timeline: string; readonly freedBytes: number; readonly isErased: boolean }
  readonly drilled: { readonly timeline: string; readonly ok: boolean; readonly ms: number; readonly note: string }
  /** Every member of a group was saved at one consistent moment. */
  readonly 'cut-completed': { readonly cut: string; readonly members: readonly string[]; readonly ms: number }
  /** A cut did not complete in time and is discarded. */
  readonly 'cut-abandoned': {
    readonly cut: string
    readonly members: readonly string[]
    readonly missing: readonly string[]
    readonly because: string
  }
  /** All members of a group were rolled back together. */
  readonly 'group-restored': { readonly restore: string; readonly members: readonly string[] }
  /**
   * A memo returned a result, or failed to. `stale`: the stored result had expired and was returned anyway. `failed`:
   * no result was stored, and computing it failed.
   */
  readonly recalled: {
    readonly memo: string
    readonly from: 'memory' | 'store' | 'stale' | 'remote' | 'computed' | 'failed'
    /** For a miss: the reason, as text for people. Reads the store. */
    readonly why?: () => Promise<string>
  }
  readonly 'store-retry': { readonly error: unknown; readonly attempt: number }
  readonly 'worker-retired': { readonly worker: string; readonly because: string }
  readonly 'worker-renewed': { readonly worker: string }
  /** An event to keep in the store's log (report-log.ts). `kind` is one word; `what` is text for people. */
  readonly report: {
    readonly kind: string
    readonly timeline: string | null
    readonly what: string
    readonly data?: unknown
  }
  /** Progress of long work: a verification, or the loading of a state. */
  readonly progress: {
    readonly work: 'verify' | 'load'
    /** The timeline whose state is loaded. Null: the whole store. */
    readonly timeline: string | null
    /** One word: structures, timelines, …; restore, replay. */
    readonly part: string
    readonly done: number
    /** An estimate. Null: unknown. */
    readonly total: number | null
    readonly at: string | null
  }
  readonly problem: { readonly where: string; readonly error: unknown }
}

export type EventName = keyof EngineEvents

const known = namesOf<EngineEvents>()(
  'opened closed committed appended fenced recovered checkpoint-damaged healed checkpoint-published tiers-moved history-moved chunks-renewed capture-held checkpoint-verified checkpoint-failed declared retained collected deleted drilled cut-completed cut-abandoned group-restored recalled store-retry worker-retired worker-renewed report progress problem',
)
export type Listener<Name extends EventName> = (event: EngineEvents[Name]) => void

export class Events {
  readonly #listeners = new Map<EventName, Set<Listener<EventName>>>()
  #isClosing = false

  /** @example const off = rp.events.on('fenced', ({ timeline }) => console.warn(timeline)) */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    if (!known.has(name)) {
      const near = nearestName(String(name), known)
      const what = `there is no event ${String(name)}${near ? `; did you mean ${near}?` : ''}`
      throw new RepriseError('INVALID_ARGUMENT', what, { event: name })
    }
    checkFunction(listener, `on('${name}')`)
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
        warnOnReject(listener(event), `on('${name}')`)
      } catch {
        // An error in a listener must not affect the engine.
      }
    }
  }

  has(name: EventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0
  }

  /** Marks the engine as closing: CLOSED errors are then not emitted as problems. @internal */
  closing(): void {
    this.#isClosing = true
  }
}

function isOfClosing(name: EventName, event: EngineEvents[EventName]): boolean {
  return name === 'problem' && isReprise((event as EngineEvents['problem']).error, 'CLOSED')
}
