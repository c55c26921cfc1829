// Finds the sequence before a logical error (by entry, by time, or by a predicate on state), and reports what a rollback to it
// would undo. It changes nothing; `rollback` acts.
//
// By predicate: bisection over the checkpoints finds a good one followed by a bad one, then the history between the two is
// folded entry by entry, so the result is the first entry after that checkpoint that makes the state bad.

import { timelineId } from '../../core/coordinate.ts'
import { type Time, toTime } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { bisect } from '../../core/history/bisect.ts'
import { type CompensationPlan, compensationPlan } from '../../core/history/effects.ts'
import { inheritedBy } from '../../core/history/inheritance.ts'
import { type Validity, whyInvalid } from '../../core/history/validity.ts'
import type { Head } from '../../core/store/ports.ts'
import { callPure } from '../base/guard/zone.ts'
import { digestAt, type Entry, entriesOf, lineageOf, reachOf, readHistory } from '../history/history.ts'
import { existing } from '../history/locate.ts'
import { recover } from '../history/recover.ts'
import { invalidState } from '../history/validity.ts'
import { type Fold, systemPrefix } from '../model/definition.ts'
import type { Model } from '../model/model.ts'
import type { Consumer } from '../model/rollback-report.ts'
import type { Kernel } from '../storage/kernel.ts'
import { consumersOf } from './consumers.ts'

/**
 * Before this entry; before the first entry at this time or later; or where `valid` last held (default: the predicate of the
 * definition).
 */
export type Before =
  | { readonly seq: number }
  | { readonly time: Time }
  | { readonly valid: Validity<never> | 'declared' }

export interface RollbackPlan {
  readonly timeline: string
  /** The current head, and the sequence to roll back to. */
  readonly from: number
  readonly to: number
  /** The first entry that would be undone. */
  readonly found: { readonly seq: number; readonly type: string; readonly time: number }
  /** The reason for this entry, in words. */
  readonly because: string
  /** The states that were tested, in order. */
  readonly asked: readonly { readonly seq: number; readonly why: string | null }[]
  readonly undone: {
    readonly entries: number
    readonly types: Readonly<Record<string, number>>
    /** Outside effects: to be compensated in this order, those that cannot be, those in doubt. */
    readonly effects: CompensationPlan
    /** The model's description of the work of these entries, newest first: steps, children. */
    readonly did: readonly string[]
    /** Consumers of these entries: the rollback is refused unless it is forced. */
    readonly consumers: readonly Consumer[]
  }
}

type Found = Pick<RollbackPlan, 'found' | 'because' | 'asked'>

/** The maximum length of `did`. */
const didMax = 200

/** @example const plan = await rp.planRollback('counter/visits', { valid: 'declared' }) */
export async function planRollback(
  kernel: Kernel,
  timeline: string,
  before: Before,
  known: { readonly fold: Fold<unknown> | null; readonly model: Model | null; readonly ledger: Fold<unknown> },
): Promise<RollbackPlan> {
  const { fold, model, ledger } = known
  const head = await existing(kernel, timelineId(timeline))
  const found =
    'valid' in before
      ? await byState(kernel, head, mustKnow(timeline, fold), before.valid)
      : await byEntry(kernel, head, 'seq' in before ? before : { time: toTime(before.time, 'time') })
  const to = found.found.seq - 1
  const { state, lineage } = await recover(kernel, head, fold ?? ledger)
  const types: Record<string, number> = {}
  const did: string[] = []
  let entries = 0
  for await (const entry of entriesAfter(kernel, head, to)) {
    entries += 1
    types[entry.type] = (types[entry.type] ?? 0) + 1
    const words = entry.type.startsWith(systemPrefix) ? null : (model?.did?.(entry) ?? null)
    if (words !== null) did.push(words)
  }
  const effects = compensationPlan(state.ledger, to, inheritedBy(lineage))
  const consumers = await consumersOf(kernel, head, to)
  const undone = { entries, types, effects, did: did.reverse().slice(0, didMax), consumers }
  return { timeline: head.timeline, from: head.seq, to, ...found, undone }
}

async function byEntry(kernel: Kernel, head: Head, before: { seq: number } | { time: number }): Promise<Found> {
  const [isIt, because] =
    'seq' in before
      ? [(entry: Entry) => entry.seq >= before.seq, `requested: before ${before.seq}`]
      : [(entry: Entry) => entry.time >= before.time, `the first at or after ${iso(before.time)}`]
  const floor = (await reachOf(kernel, await lineageOf(kernel, head))).seq
  const from = 'seq' in before ? Math.max(floor, before.seq - 1) : floor
  for await (const entry of entriesAfter(kernel, head, Math.min(from, head.seq))) {
    if (!isIt(entry)) continue
    if (entry.seq === floor + 1 && floor > 0 && !('seq' in before && before.seq === entry.seq)) {
      const what = `${head.timeline} has history from ${floor} on: the target of the rollback was trimmed`
      throw new RepriseError('OUT_OF_RANGE', what, { timeline: head.timeline, floor })
    }
    return { found: placeOf(entry), because, asked: [] }
  }
  throw nothingToUndo(head, `it has no entry ${'seq' in before ? `${before.seq}` : `at or after ${iso(before.time)}`}`)
}

async function byState(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown>,
  given: Validity<never> | 'declared',
): Promise<Found> {
  const valid = (given === 'declared' ? fold.valid : given) as Validity<unknown> | undefined
  if (!valid) {
    const what = `the definition of ${head.timeline} declares no valid(state): pass a predicate`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: head.timeline })
  }
  // Invalid states are the object of the search: they must not be skipped here.
  const bare: Fold<unknown> = { ...fold, valid: undefined }
  const asked: { seq: number; why: string | null }[] = []
  const ask = (state: unknown) => callPure(kernel.guardsFolds(), 'valid', () => whyInvalid(valid, state))
  const places = await placesOf(kernel, head, bare)
  const search = bisect(places.length)
  let step = search.next()
  while (!step.done) {
    const seq = places[step.value]!
    const why = ask((await recover(kernel, head, bare, { to: seq })).state.value)
    asked.push({ seq, why })
    step = search.next(why === null)
  }
  const good = step.value
  if (good === places.length - 1) throw nothingToUndo(head, 'its state is valid')
  if (good === -1) {
    const why = asked.at(-1)!.why!
    throw invalidState(
      { ...head, seq: places[0]! },
      why,
      'no valid state remains: the oldest reachable state is invalid too',
    )
  }
  const { state, point } = await recover(kernel, head, bare, { to: places[good]! })
  for await (const entry of entriesAfter(kernel, head, point.seq)) {
    await state.fetch([entry])
    state.replay([entry])
    const why = ask(state.value)
    if (why === null) continue
    return { found: placeOf(entry), because: `the state is valid before it and invalid after it: ${why}`, asked }
  }
  throw new RepriseError('CONFLICT', `${head.timeline} changed while it was read; try again`, {
    timeline: head.timeline,
  })
}

/** The sequences with a cheap state: the origin or the oldest checkpoint, every checkpoint, the head. */
async function placesOf(kernel: Kernel, head: Head, fold: Fold<unknown>): Promise<number[]> {
  const floor = (await reachOf(kernel, await lineageOf(kernel, head))).seq
  const usable = (await kernel.store.checkpoints(head.timeline)).filter(
    ({ seq, invalid, foldVersion }) =>
      invalid === null && foldVersion === fold.version && seq >= floor && seq <= head.seq,
  )
  const places = new Set([...(floor === 0 ? [0] : []), ...usable.map(({ seq }) => seq), head.seq])
  return [...places].sort((a, b) => a - b)
}

async function* entriesAfter(kernel: Kernel, head: Head, after: number): AsyncGenerator<Entry> {
  const lineage = await lineageOf(kernel, head)
  const from = { seq: after, digest: await digestAt(kernel, lineage, after) }
  for await (const verified of readHistory(kernel, lineage, from, head.seq)) yield* entriesOf(kernel, verified)
}

function placeOf({ seq, type, time }: Entry): RollbackPlan['found'] {
  return { seq, type, time }
}

function iso(time: number): string {
  return new Date(time).toISOString()
}

function nothingToUndo({ timeline, seq }: Head, why: string): RepriseError {
  return new RepriseError('OUT_OF_RANGE', `${timeline} has nothing to undo: ${why}`, { timeline, seq })
}

/** Without the application's code there is no definition of valid. */
function mustKnow(timeline: string, fold: Fold<unknown> | null): Fold<unknown> {
  if (fold) return fold
  const what = `the definition of ${timeline} is unknown, so its valid states are unknown too: name the module that exports it`
  throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
}
