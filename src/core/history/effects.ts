// The effect ledger: the effects on the outside world, folded from marker entries in history.
//
//   outcome unknown   <- intended             -> done · failed · settled (the outcome was found out)
//   failed            <- failed, settled      -> intended (a retry, with the same key)
//   done              <- done, settled        -> compensating · compensation-failed · compensated · settled (undone by hand)
//   compensated       <- compensated, settled    final
//
// An effect that is intended and has no outcome is in doubt unless it is running right now. Any other step is MALFORMED:
// this code did not write such a history. Values are immutable; one entry costs a few small nodes.

import { toHex } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { Hash } from '../store/ports.ts'
import { type Inherited, inheritedSeq, ownerOf } from './inheritance.ts'
import { getFrom, putInto, type Trie, valuesOf } from './trie.ts'

export const effectTypes = [
  '$effect.intended',
  '$effect.done',
  '$effect.failed',
  '$effect.settled',
  '$effect.compensating',
  '$effect.compensated',
  '$effect.compensation-failed',
] as const
export type EffectType = (typeof effectTypes)[number]

/** How it can be undone: by a declared compensation; no compensation is declared; or it is declared irreversible. */
export type Reversal = 'compensate' | 'none' | 'irreversible'

export interface EffectIntended {
  readonly id: string
  readonly name: string
  /** The idempotency key for the outside system (identity.ts). */
  readonly key: string
  readonly reversal?: Reversal
  readonly input?: unknown
  /** In a fork: intended again under a key of the fork, since the original's intent has no outcome or failed. */
  readonly anew?: true
}
export interface EffectDone {
  readonly id: string
  readonly result?: unknown
}
/** The effect is known not to have happened. */
export interface EffectFailed {
  readonly id: string
  readonly error?: unknown
}
/** A person or a probe found out the outcome. */
export interface EffectSettled {
  readonly id: string
  readonly outcome: 'done' | 'failed' | 'compensated'
  readonly by: string
  readonly result?: unknown
}

export type EffectState = 'intended' | 'done' | 'failed' | 'compensating' | 'compensated' | 'settled'

export interface Effect {
  readonly id: string
  readonly name: string
  readonly key: string
  readonly reversal: Reversal
  readonly input: unknown
  readonly state: EffectState
  /** The known outcome; null while in doubt. */
  readonly outcome: 'done' | 'failed' | 'compensated' | null
  /** Sequence of the first intent, from which the key is derived. */
  readonly intendedSeq: number
  /** Sequence at which the outcome was recorded; it decides the order of compensation. */
  readonly endedSeq: number | null
  /** Sequence of the last marker. */
  readonly changedSeq: number
  readonly attempts: number
  readonly result: unknown
  readonly error: unknown
  readonly compensationFailures: number
  /** The person or probe that settled it. */
  readonly by: string | null
}

export interface EffectLedger {
  readonly effects: Trie<Effect>
}

export interface CompensationPlan {
  /** To undo, in this order: the last completed effect first. */
  readonly compensate: readonly Effect[]
  /** Happened and cannot be undone: report these. */
  readonly cannot: readonly Effect[]
  /** Outcome unknown: resolve these before undoing anything. */
  readonly inDoubt: readonly Effect[]
  /**
   * Intended at or before the coordinate, with an outcome after it: the branch does not know the outcome and would call
   * again under the same key. Record the outcome there (settled) instead of undoing it.
   */
  readonly carry: readonly Effect[]
  /** Done by the timeline that this one was forked from: only the original may undo them. */
  readonly inherited: readonly InheritedEffect[]
}

/** An effect of the fork's original. */
export type InheritedEffect = Effect & { readonly inheritedFrom: string }

const empty: EffectLedger = Object.freeze({ effects: undefined })

/** Always returns the same object. */
export function emptyLedger(): EffectLedger {
  return empty
}

/** The ledger of these effects, as stored in a checkpoint. */
export function ledgerOf(effects: Iterable<Effect>): EffectLedger {
  let made: Trie<Effect>
  for (const effect of effects) made = putInto(made, effect.id, effect)
  return made === undefined ? empty : { effects: made }
}

/** Includes markers of a later version, which applyEffect then refuses. */
export function isEffectType(type: string): boolean {
  return type.startsWith('$effect.')
}

/** Entries that are not effect markers do not change the ledger. */
export function applyEffect(
  ledger: EffectLedger,
  entry: { readonly seq: number; readonly type: string; readonly data: unknown },
): EffectLedger {
  if (!isEffectType(entry.type)) return ledger
  if (entry.type === forgottenType) return forget(ledger, belowOf(entry))
  const data = markerOf(entry)
  const before = getFrom(ledger.effects, data.id)
  const after = step(before, entry.type as EffectType, entry.seq, data)
  return { effects: putInto(ledger.effects, after.id, after) }
}

/** Recorded when history is trimmed: settled effects that last changed at or below `below` are no longer kept. */
export const forgottenType = '$effect.forgotten'

/** An effect in doubt stays until its outcome is known, and an effect that is being undone stays too. */
export function isSettled(effect: Effect): boolean {
  return effect.outcome !== null && effect.state !== 'compensating'
}

function isForgotten(effect: Effect, below: number): boolean {
  return isSettled(effect) && effect.changedSeq <= below
}

function forget(ledger: EffectLedger, below: number): EffectLedger {
  return ledgerOf(listEffects(ledger).filter((effect) => !isForgotten(effect, below)))
}

function belowOf(entry: { readonly seq: number; readonly data: unknown }): number {
  const below = (entry.data as { readonly below?: unknown } | null)?.below
  if (typeof below === 'number' && Number.isSafeInteger(below)) return below
  throw new RepriseError('MALFORMED', `the data of ${forgottenType} at sequence ${entry.seq} has no sequence`, {
    seq: entry.seq,
  })
}

export function getEffect(ledger: EffectLedger, id: string): Effect | undefined {
  return getFrom(ledger.effects, id)
}

/** Sorted by the sequence of the first intent. */
export function listEffects(ledger: EffectLedger): Effect[] {
  return [...valuesOf(ledger.effects)].sort((a, b) => a.intendedSeq - b.intendedSeq)
}

/** Intended, without an outcome, and not running in this process. */
export function inDoubt(ledger: EffectLedger, runningNow: Iterable<string> = []): Effect[] {
  const running = new Set(runningNow)
  return listEffects(ledger).filter((effect) => effect.state === 'intended' && !running.has(effect.id))
}

/**
 * The effects that a rollback to `afterSeq` must undo, and the outcomes that its branch needs. Effects in an inherited part of
 * history belong to the original: neither undone nor in doubt here.
 */
export function compensationPlan(
  ledger: EffectLedger,
  afterSeq: number,
  inherited: readonly Inherited[] = [],
): CompensationPlan {
  const later = listEffects(ledger).filter((effect) => effect.changedSeq > afterSeq)
  const undo = later
    .filter((effect) => effect.intendedSeq > afterSeq && effect.outcome === 'done')
    .sort((a, b) => b.endedSeq! - a.endedSeq!)
  const isOwn = (effect: Effect) => effect.intendedSeq > inheritedSeq(inherited)
  const own = undo.filter(isOwn)
  return {
    compensate: own.filter((effect) => effect.reversal === 'compensate'),
    cannot: own.filter((effect) => effect.reversal !== 'compensate'),
    inDoubt: later.filter((effect) => effect.outcome === null && isOwn(effect)),
    carry: later.filter((effect) => effect.intendedSeq <= afterSeq && effect.outcome !== null),
    inherited: undo.flatMap((effect) => {
      const owner = ownerOf(inherited, effect.intendedSeq)
      return owner === null ? [] : [{ ...effect, inheritedFrom: owner }]
    }),
  }
}

/**
 * The first entries of a branch: outcomes that effects reached after the point where the branch starts, so that it does not
 * call the outside again under the same key. `at`: the ledger at that point. An effect that had failed there is intended
 * again first; an effect with the same outcome there needs no marker.
 */
export function carriedMarkers(
  carry: readonly Effect[],
  at: EffectLedger,
): { readonly type: EffectType; readonly data: unknown }[] {
  return carry.flatMap(({ id, name, key, reversal, input, outcome, result }) => {
    const known = getEffect(at, id)?.outcome ?? null
    if (known === outcome) return []
    const intended = { id, name, key, reversal, ...(input !== undefined && { input }) }
    const settled = { id, outcome, by: 'rollback', ...(result !== undefined && { result }) }
    return [
      ...(known === 'failed' ? [{ type: '$effect.intended' as const, data: intended }] : []),
      { type: '$effect.settled' as const, data: settled },
    ]
  })
}

/** The same effects; those in an inherited part of history name the timeline that did them. */
export function withOwners(
  effects: readonly Effect[],
  inherited: readonly Inherited[],
): (Effect & { readonly inheritedFrom?: string })[] {
  return effects.map((effect) => {
    const owner = ownerOf(inherited, effect.intendedSeq)
    return owner === null ? effect : { ...effect, inheritedFrom: owner }
  })
}

/** The idempotency key for undoing the effect with this key. */
export function compensationKey(key: string, hash: Hash): string {
  return shorten(`${key}~undo`, hash)
}

const keyLength = 255

function shorten(text: string, hash: Hash): string {
  if (text.length <= keyLength && /^[\x21-\x7e]+$/.test(text)) return text
  const tail = `#${toHex(hash(new TextEncoder().encode(text)))}`
  return text.replace(/[^\x21-\x7e]/g, '_').slice(0, keyLength - tail.length) + tail
}

type Marker = { readonly id: string } & Readonly<Record<string, unknown>>

function step(before: Effect | undefined, type: EffectType, seq: number, data: Marker): Effect {
  if (before === undefined) {
    if (type === '$effect.intended') return intend(data, seq)
    throw illegal(before, type, seq, data.id)
  }
  const after = { ...before, changedSeq: seq }
  const insist = (isLegal: boolean) => {
    if (!isLegal) throw illegal(before, type, seq, data.id)
  }
  switch (type) {
    case '$effect.intended':
      // A fork repeats, under its own key, an effect that its original did not complete.
      if (data.anew === true) {
        insist(before.outcome === null || before.outcome === 'failed')
        return intend(data, seq)
      }
      insist(before.outcome === 'failed' && data.key === before.key)
      return { ...after, state: 'intended', outcome: null, endedSeq: null, attempts: before.attempts + 1, error: null }
    case '$effect.done':
      insist(before.outcome === null)
      return { ...after, state: 'done', outcome: 'done', endedSeq: seq, result: data.result }
    case '$effect.failed':
      insist(before.outcome === null)
      return { ...after, state: 'failed', outcome: 'failed', endedSeq: seq, error: data.error }
    case '$effect.settled': {
      const outcome = data.outcome as EffectSettled['outcome']
      insist(before.outcome === null || (before.outcome === 'done' && outcome === 'compensated'))
      const endedSeq = before.endedSeq ?? seq
      return {
        ...after,
        state: 'settled',
        outcome,
        endedSeq,
        by: String(data.by),
        result: data.result ?? before.result,
      }
    }
    case '$effect.compensating':
      insist(before.outcome === 'done')
      return { ...after, state: 'compensating' }
    case '$effect.compensation-failed':
      insist(before.outcome === 'done')
      return {
        ...after,
        state: 'compensating',
        compensationFailures: before.compensationFailures + 1,
        error: data.error,
      }
    case '$effect.compensated':
      insist(before.outcome === 'done')
      return { ...after, state: 'compensated', outcome: 'compensated' }
  }
}

function intend(data: Marker, seq: number): Effect {
  return {
    id: data.id,
    name: String(data.name),
    key: String(data.key),
    reversal: (data.reversal as Reversal | undefined) ?? 'none',
    input: data.input,
    state: 'intended',
    outcome: null,
    intendedSeq: seq,
    endedSeq: null,
    changedSeq: seq,
    attempts: 1,
    result: undefined,
    error: null,
    compensationFailures: 0,
    by: null,
  }
}

function markerOf(entry: { readonly seq: number; readonly type: string; readonly data: unknown }): Marker {
  if (!(effectTypes as readonly string[]).includes(entry.type)) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `${entry.type} at sequence ${entry.seq} is not known`, {
      seq: entry.seq,
      type: entry.type,
    })
  }
  const data = entry.data as Marker | null | undefined
  const isText = (value: unknown) => typeof value === 'string' && value !== ''
  const isIntent = entry.type === '$effect.intended'
  const isWhole =
    typeof data === 'object' &&
    data !== null &&
    isText(data.id) &&
    (!isIntent ||
      (isText(data.name) &&
        isText(data.key) &&
        isOneOf(data.reversal, [undefined, 'compensate', 'none', 'irreversible']))) &&
    (entry.type !== '$effect.settled' || (isText(data.by) && isOneOf(data.outcome, ['done', 'failed', 'compensated'])))
  if (!isWhole) {
    throw new RepriseError('MALFORMED', `the data of ${entry.type} at sequence ${entry.seq} is not that of an effect`, {
      seq: entry.seq,
      type: entry.type,
    })
  }
  return data
}

function isOneOf(value: unknown, allowed: readonly unknown[]): boolean {
  return allowed.includes(value)
}

function illegal(before: Effect | undefined, type: EffectType, seq: number, id: string): RepriseError {
  const was = before === undefined ? 'was never intended' : `is ${before.state} since sequence ${before.changedSeq}`
  return new RepriseError('MALFORMED', `${type} at sequence ${seq}: effect ${id} ${was}`, {
    seq,
    type,
    effect: id,
    state: before?.state ?? null,
    since: before?.changedSeq ?? null,
  })
}
