// The state of one open timeline: the user's folded value, the dedupe keys seen, and the ledger of effects. Entries are
// folded before they are written, so that a fold that throws refuses them; the state changes only when they are
// durable. States with Keyed parts change in place: for them the fold runs after the commit. A fold may also change a plain
// state in place, although it should not: after a throw or a refused commit such a state is torn, and is rebuilt from history.

import { assert } from '../../core/assert.ts'
import { RepriseError } from '../../core/errors.ts'
import {
  applyEffect,
  type Effect,
  type EffectLedger,
  forgottenType,
  getEffect,
  isEffectType,
  ledgerOf,
} from '../../core/history/effects.ts'
import { erasedKey, erasedKeysMark, isErasedKey } from '../../core/history/erased-key.ts'
import { upcast } from '../../core/history/fold.ts'
import { keysBelow, keysForgottenType } from '../../core/history/forgetting.ts'
import { erasedType } from '../../core/history/redact.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Unread } from '../../core/keyed-state/page.ts'
import type { Hash } from '../../core/store/ports.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import { Before, Watch } from '../../lib/in-place-changes.ts'
import { callPure, enterPure, leavePure, PureZone, type Zone } from '../base/guard/zone.ts'
import { type Erased, type Fold, systemPrefix } from '../model/definition.ts'
import type { Entry } from './history.ts'
import type { ReplayMeter } from './replay-meter.ts'

/** The state that follows history. `prepare` may refuse entries before they are written, by throwing. */
export interface Follower {
  begin(): void
  prepare(entries: readonly Entry[]): void
  /** The prepared entries are durable. */
  accept(): void
  /** The prepared entries were not written. */
  discard(): void
  /** A fold that was refused or discarded may have changed the state in place: nothing may be prepared before it is rebuilt. */
  readonly isTorn: boolean
  /**
   * Entries are folded but not durable, and the fold may have changed the visible state: this is not a point at which to capture.
   */
  readonly isAhead: boolean
  /** True even if the key's entry was erased. */
  hasKey(key: string, hash: Hash): boolean
}

/** The content of a checkpoint: parts by name, see core/checkpoint/manifest.ts. */
export type CapturedParts = Record<string, unknown>

export class TimelineState<State> implements Follower {
  readonly #fold: Fold<State>
  /** Null if folds are not guarded. */
  readonly #zone: PureZone | null
  #value: State
  /** Null as long as there are none: most of the many timelines have neither. */
  #keys: Keyed<number> | null
  #ledger: EffectLedger
  /** A copy of the ledger in the form that a checkpoint captures: by id, so that only changed effects are written. */
  #effects: Keyed<Effect> | null
  // Determined once: a state has Keyed parts from the start or never.
  readonly #isInPlace: boolean
  /** Only a restored state can have unread pages. */
  readonly #isRestored: boolean
  #nextValue: State
  #nextLedger: EffectLedger
  /** The array passed with the first of them, until there are more. */
  #pending: readonly Entry[] = none
  #gathered: Entry[] | null = null
  /** Grows with every folded entry: the state may have changed since it was captured. */
  touches = 0
  /** Times the fold, for policies based on its cost. */
  #meter: ReplayMeter | null = null
  /** A plain state that `apply` can reach and change, and that history can rebuild. */
  readonly #mayTear: boolean
  #isTorn = false
  /** Armed by the first throw or discard: only then is it worth a comparison whether the fold changes its state. */
  readonly #watch = new Watch(false)
  #before: Before | null = null

  constructor(fold: Fold<State>, captured?: CapturedParts, isGuarded = false) {
    this.#fold = fold
    this.#zone = isGuarded ? new PureZone('apply') : null
    this.#value = captured ? valueFrom<State>(captured) : callPure(isGuarded, 'initial', () => fold.initial())
    this.#keys = (captured?.keys as Keyed<number> | undefined) ?? null
    this.#effects = (captured?.ledger as Keyed<Effect> | undefined) ?? null
    this.#ledger = ledgerOf(this.#effects?.values() ?? [])
    this.#isInPlace = holdsKeyed(this.#value)
    this.#isRestored = captured !== undefined
    this.#mayTear = !this.#isInPlace && !fold.immutable && !fold.isOurs && fold.authority !== 'state'
    this.#nextValue = this.#value
    this.#nextLedger = this.#ledger
  }

  get value(): State {
    return this.#value
  }

  get ledger(): EffectLedger {
    return this.#ledger
  }

  get isTorn(): boolean {
    return this.#isTorn
  }

  get isAhead(): boolean {
    return this.#mayTear && this.#pending.length > 0
  }

  /** Takes the value that was rebuilt from the same history. Keys and effects changed with durable entries only. */
  mend(rebuilt: TimelineState<State>): void {
    this.touches += 1
    this.#value = rebuilt.#value
    this.#isTorn = false
    this.begin()
  }

  hasKey(key: string, hash: Hash): boolean {
    const keys = this.#keys
    if (!keys) return false
    return keys.has(key) || (keys.has(erasedKeysMark) && keys.has(erasedKey(hash, key)))
  }

  /** The sequence of the entry with this key; undefined: there is none, or its key was forgotten or erased. */
  seqOfKey(key: string): number | undefined {
    return this.#keys?.get(key)
  }

  /** Times the fold from now on. */
  timeWith(meter: ReplayMeter): void {
    this.#meter = meter
  }

  get keyCount(): number {
    return this.#keys?.size ?? 0
  }

  /** Keys at or below this sequence may be forgotten; null if there are none. */
  keysBelow(last: number): number | null {
    return this.#keys ? keysBelow([...this.#keys.values()], last) : null
  }

  /** Reads the pages that these entries touch, before they are applied; null if none is missing. */
  fetch(entries: readonly Entry[]): Promise<unknown> | null {
    const { paged, upcasters } = this.#fold
    if (!paged || !this.#isRestored) return null
    const unread = new Set<Unread>()
    for (const entry of entries) {
      if (entry.type.startsWith(systemPrefix)) continue
      const current = upcasters ? (upcast(entry, upcasters) as Entry) : entry
      for (const [part, key] of paged.touches(current)) {
        const map: unknown = Reflect.get(this.#value as object, part)
        const page = map instanceof Keyed ? Keyed.treeOf(map).unreadAt(key) : null
        if (page) unread.add(page)
      }
    }
    return unread.size > 0 ? Promise.all([...unread].map((page) => page.read())) : null
  }

  /** Applies recorded history, in order. */
  replay(entries: readonly Entry[]): void {
    this.touches += 1
    let value = this.#value
    try {
      for (const entry of entries) value = this.#step(value, entry)
    } catch (error) {
      this.#isTorn = this.#mayTear || this.#isInPlace
      throw error
    }
    this.#value = value
    for (const entry of entries) {
      this.#ledger = applyEffect(this.#ledger, entry)
      this.#follow(entry)
    }
    this.#nextValue = this.#value
    this.#nextLedger = this.#ledger
  }

  begin(): void {
    this.#nextValue = this.#value
    this.#nextLedger = this.#ledger
    this.#pending = none
    this.#gathered = null
    this.#before = null
  }

  prepare(entries: readonly Entry[]): void {
    let ledger = this.#nextLedger
    for (const entry of entries) ledger = applyEffect(ledger, entry)
    if (!this.#isInPlace) {
      this.touches += 1
      const startedAt = this.#meter?.start() ?? -1
      this.#nextValue = this.#foldAll(this.#nextValue, entries)
      this.#meter?.stop(startedAt, entries.length)
    }
    this.#nextLedger = ledger
    if (this.#pending.length === 0) this.#pending = entries
    else {
      this.#gathered ??= [...this.#pending]
      for (const entry of entries) this.#gathered.push(entry)
      this.#pending = this.#gathered
    }
  }

  /** Folds entries that are not durable yet. A throw tears the state, unless it is known to be as before. */
  #foldAll(value: State, entries: readonly Entry[]): State {
    const isWatched = this.#mayTear && isObject(value) && this.#watch.next()
    const before = isWatched ? new Before(value) : null
    if (this.#pending.length === 0) this.#before = before
    try {
      let next = value
      for (const entry of entries) next = this.#step(next, entry)
      return next
    } catch (error) {
      this.#isTorn ||= this.#isTearing(value, before)
      throw error
    }
  }

  #isTearing(value: State, before: Before | null): boolean {
    if (!this.#mayTear || !isObject(value)) return false
    this.#watch.again()
    return before?.isUnchanged() !== true
  }

  accept(): void {
    if (this.#isInPlace) {
      this.touches += 1
      const startedAt = this.#meter?.start() ?? -1
      for (const entry of this.#pending) this.#value = this.#step(this.#value, entry)
      this.#meter?.stop(startedAt, this.#pending.length)
    } else this.#value = this.#nextValue
    this.#ledger = this.#nextLedger
    for (const entry of this.#pending) this.#follow(entry)
    this.#pending = none
    this.#gathered = null
  }

  discard(): void {
    if (this.#pending.length > 0) this.#isTorn ||= this.#isTearing(this.#value, this.#before)
    this.begin()
  }

  /** The parts of a checkpoint. Keyed parts are captured copy-on-write, so this is cheap. */
  parts(): CapturedParts {
    const parts: CapturedParts = { shape: 'value' }
    if (this.#keys) parts.keys = this.#keys
    if (this.#effects) parts.ledger = this.#effects
    if (this.#value instanceof Keyed) return { ...parts, shape: 'keyed', value: this.#value }
    if (!this.#isInPlace) return { ...parts, value: this.#value }
    parts.shape = 'object'
    const rest: Record<string, unknown> = {}
    for (const [name, part] of Object.entries(this.#value as Record<string, unknown>)) {
      if (part instanceof Keyed) parts[`value.${name}`] = part
      else rest[name] = part
    }
    return { ...parts, value: rest }
  }

  /** Keys and effects of a durable entry. The ledger already contains it. */
  #follow(entry: Entry): void {
    if (entry.key !== undefined) {
      this.#keys ??= new Keyed()
      this.#keys.set(entry.key, entry.seq)
      if (isErasedKey(entry.key)) this.#keys.set(erasedKeysMark, entry.seq)
    }
    if (entry.type === keysForgottenType) this.#forgetKeys((entry.data as { readonly below: number }).below)
    if (!isEffectType(entry.type)) return
    if (entry.type === forgottenType) {
      for (const id of [...(this.#effects?.keys() ?? [])]) if (!getEffect(this.#ledger, id)) this.#effects!.delete(id)
      return
    }
    const { id } = entry.data as { readonly id: string }
    this.#effects ??= new Keyed()
    this.#effects.set(id, getEffect(this.#ledger, id)!)
  }

  #forgetKeys(below: number): void {
    for (const [key, seq] of [...(this.#keys?.entries() ?? [])]) if (seq <= below) this.#keys!.delete(key)
  }

  #apply(value: State, entry: Entry): State | void {
    // Without upcasters every type is at version 1: a newer entry must not be read as version 1.
    const { upcasters } = this.#fold
    const current = upcasters || entry.version !== 1 ? upcast(entry, upcasters ?? {}) : entry
    return this.#fold.apply(value, current as Entry)
  }

  #step(value: State, entry: Entry): State {
    const isGone = entry.type === erasedType && this.#fold.erased !== undefined
    if (entry.type.startsWith(systemPrefix) && !isGone) return value
    const zone = this.#zone
    let before: Zone | null = null
    if (zone) {
      zone.entry = entry
      before = enterPure(zone)
    }
    try {
      const next = isGone ? this.#fold.erased!(value, goneOf(entry)) : this.#apply(value, entry)
      refuseThenable(next, 'apply', 'wait before the entry is appended, and put the result into its data')
      zone?.check()
      return next === undefined ? value : (next as State)
    } catch (thrown) {
      const error = zone?.take() ?? thrown
      if (error instanceof RepriseError && error.code !== 'FOLD_FAILED') throw error
      const { timeline, seq, type } = entry
      const reason = error instanceof Error ? error.message : String(error)
      throw new RepriseError(
        'FOLD_FAILED',
        `apply threw at ${timeline}@${seq} (${type}): ${reason}`,
        { timeline, seq, type },
        error,
      )
    } finally {
      if (zone) leavePure(before)
    }
  }
}

const none: readonly never[] = []

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function goneOf(entry: Entry): Erased {
  const { timeline, seq, epoch, time } = entry
  const { type, version } = entry.data as { readonly type: string; readonly version: number }
  return { timeline, seq, epoch, time, type, version }
}

/** The parts with the migrated state; keys and effects belong to the engine and stay. */
export function migrateParts(parts: CapturedParts, migrate: (state: never) => unknown): CapturedParts {
  const { keys, ledger } = parts
  const value = migrate(valueFrom<never>(parts))
  return { ...(keys !== undefined && { keys }), ...(ledger !== undefined && { ledger }), shape: 'value', value }
}

/** True if the fold runs in a zone of the guard. Installing the guard takes longer than folding a short history. */
export function guards(kernel: { guardsFolds(): boolean }, fold: Pick<Fold<never>, 'isOurs'>): boolean {
  return fold.isOurs !== true && kernel.guardsFolds()
}

function holdsKeyed(value: unknown): boolean {
  if (value instanceof Keyed) return true
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  for (const part of Object.values(value)) if (part instanceof Keyed) return true
  return false
}

function valueFrom<State>(captured: CapturedParts): State {
  const { shape, value } = captured
  if (shape !== 'object') return value as State
  assert(typeof value === 'object' && value !== null, 'an object state is captured as an object')
  const whole: Record<string, unknown> = { ...value }
  for (const [name, part] of Object.entries(captured)) if (name.startsWith('value.')) whole[name.slice(6)] = part
  return whole as State
}
