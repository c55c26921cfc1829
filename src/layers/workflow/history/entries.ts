// The entries of a run's history. Types and fields are short because a run has many entries. This file defines the
// format.
//
//   started    { input, seed, identity, life?, isBatched?, behaviour, parent?, deadline?, queue?, trace? }   the first entry
//                                           identity: of this life of the run (core/identity.ts), part of every key
//   waits      { for }                      the waits when the run left memory, for display (summary.ts)
//   began      { id, key? }                       intent to call a step (`inDoubt` policies, slow steps)
//   retry      { id, n, error, at, ms?, details?, key? }  an attempt failed; n so far; the next not before `at`
//                                           ms: how long the call took, in this and the two following types
//   beat       { id, details }              a heartbeat with details
//   done       { id, result?, ms?, rode?, by?, replaces?, key?, after?, since? }  a step, a transaction or the start of
//                                           a child succeeded;
//                                           by: decided by this person;
//                                           replaces: in a fork, the edited outcome of the parent;
//                                           after: the ids of the commands that the step declares to depend on; else
//                                           since: it was issued when outcomes up to this sequence were delivered
//   failed     { id, error, ms?, by?, key?, after?, since? }
//                                           failed for good; by: decided by this person; key: as passed to the outside
//   timer      { id }                       a sleep, or the timeout of a wait, is over
//   signal     { name, value? }             mail became part of history
//   update     { update, name, args }       an update was accepted
//   updated    { update, result?, error?, refused? }   the update's outcome; refused: no handler saw it, and none will
//   child      { id, result?, error?, by?, replaces? }  a child ended
//   patched    { id }                       this run takes the new path at that patch
//   rode       { id, result? }              the result of a transaction's SQL
//   loop       { id, n, state, took, told } iteration n begins with this state; earlier outcomes may be dropped
//                                           told: the code continued after its cancellation
//   cancel     { reason, why, undo? }       'cancel' or 'deadline'; undo: 'inherited', in a fork: the original's steps, too
//   undoing    { id }                       intent to call a compensation (slow ones)
//   undo.retry { id, n, error, at }         a compensation failed
//   stuck      { id, error }                a compensation failed for good and waits for a person
//   undone     { id, by? }                  compensated, or settled by a person; by a fork: the fork undoes it
//   restored   { to, stands, undone, error } a compensation failed for good: back before its saga, waits for a person
//   resumed    { by }                       a person retried the stuck compensation, or resumed the restored run
//   held       { id }                       in doubt, waits for a person
//   settled    { id, by, retry }            a person decided: call it again
//   continued  { input, took, deadline? }   the run starts over with new input and an empty history
//   rollback   { to, input?, seq?, undo?, consumed?, deadline?, key? }  compensate everything from that command on, then
//                                           resume there; key: a repeated request has no effect;
//                                           seq: mail that was read after it is undone, too; consumed: the timelines that
//                                           acted on the undone entries (engine/branch/consumers.ts), if it was forced
//   undo       { reason, undo?, deadline? } compensate everything, then end as cancelled
//   rolled     { to, input?, seq? }               the rollback is complete
//   rerun      { to, undo?, consumed?, deadline?, key? }  compensate that command and its dependants, then repeat only those
//   rerunning  { to, ids, took }            the compensations are complete: these commands are repeated; the signals
//                                           in `took` are awaited again; other outcomes are kept (history/rerun.ts)
//   reused     { id }                       the code issued a command again whose outcome was kept
//   unkept     { error, cancelled }         the run ends badly: kept steps that were not reused are compensated
//   retried    { ids, deadline? }           the run resumes after a failure: these outcomes are taken back
//                                           deadline: of a run that had ended; it has its whole time limit again
//   forked     { from, owns, forgets?, input?, by?, identity, life?, seed, after }  this timeline is a fork with its own keys and
//                                           random values; by: the author of the edit; owns: it has no queue place yet, no parent
//                                           and no call in flight; after: the last outcome that it shares with its parent;
//                                           forgets: keys of updates, re-runs and rollbacks of its parent are not known
//                                           isCopy: it was imported beside its original, including pending work
//   admitted   {}                           its queue admitted the run
//   completed  { result? } · ended-badly { error, cancelled, undone? } · terminated { reason }     the end

import type { Failure } from './failure.ts'

/** The engine's behaviour number, stored in `started`. Code that changes the result of a replay checks it. */
export const behaviour = 6

/** From this behaviour on, a run that is cancelled after its code returned and before its end is recorded is undone. */
export const cancelsReturned = 2

/** From this behaviour on, a run fails if a step or child failed and its code never awaited it. */
export const failsUnseen = 2

/** From this behaviour on, a child's id contains its parent's workflow: runs of two workflows may have the same id. */
export const namesParent = 3

/** From this behaviour on, a detached child and an awaited child of the same workflow have different ids. */
export const namesDetached = 4

/** From this behaviour on, awaiting a command's promise takes one round of microtasks instead of three. */
export const awaitsDirectly = 5

// From behaviour 6 on, `started` has the run's identity and a seed of 128 bits. Older runs keep their keys (run/step-key.ts)
// and random values (run/randomness.ts); their forks have an identity and a long seed from the fork point on.

export interface ParentLink {
  readonly timeline: string
  readonly command: string
  /** No parent waits for the result. */
  readonly detached?: boolean
}

export interface Started {
  readonly input?: unknown
  /** 32 hexadecimal digits; a number of 30 bits in older runs. */
  readonly seed: string | number
  /** Missing in older runs. */
  readonly identity?: string
  /** The life of the run's id; missing for the first. */
  readonly life?: number
  /** Outcomes become durable in batches: a crash repeats steps, so their results are not part of keys. */
  readonly isBatched?: boolean
  readonly behaviour: number
  readonly parent?: ParentLink
  readonly deadline?: number
  readonly queue?: { readonly name: string; readonly key?: string }
  /** The traceparent (W3C) of the caller that started the run. */
  readonly trace?: string
}

/**
 * The items that are delivered to code, one at a time, in the order of history. `first`: the sequence at which the outcome was
 * recorded, if a re-run kept it under a later one.
 */
export type Item =
  | {
      readonly kind: 'done'
      readonly id: string
      readonly result: unknown
      /** The id under which the results table holds the result, while history does not have it yet. */
      readonly rode: string | null
      /** In a fork with an edited result: the sequence of the outcome that this one replaces. The step was not called. */
      readonly replaces?: number
      /** The idempotency key, if the call read it. */
      readonly key?: string
      readonly after?: readonly string[]
      readonly since?: number
      readonly first?: number
      readonly at: number
      readonly seq: number
    }
  | {
      readonly kind: 'failed'
      readonly id: string
      readonly error: Failure
      readonly key?: string
      readonly after?: readonly string[]
      readonly since?: number
      readonly first?: number
      readonly at: number
      readonly seq: number
    }
  | { readonly kind: 'timer'; readonly id: string; readonly first?: number; readonly at: number; readonly seq: number }
  | {
      readonly kind: 'child'
      readonly id: string
      readonly result: unknown
      readonly error: Failure | null
      readonly replaces?: number
      readonly first?: number
      readonly at: number
      readonly seq: number
    }
  | {
      readonly kind: 'signal'
      readonly name: string
      readonly value: unknown
      readonly at: number
      readonly seq: number
    }
  | {
      readonly kind: 'update'
      readonly update: string
      readonly name: string
      readonly args: unknown
      readonly at: number
      readonly seq: number
    }
  | {
      readonly kind: 'cancel'
      readonly reason: string
      readonly why: 'cancel' | 'deadline'
      readonly at: number
      readonly seq: number
    }
  | {
      readonly kind: 'loop'
      readonly id: string
      readonly n: number
      readonly state: unknown
      readonly told: boolean
      readonly first?: number
      readonly at: number
      readonly seq: number
    }

/** A step that was done and not undone when the run was restored to before it. */
export interface StandingStep {
  readonly step: string
  readonly why: string
}

export type End =
  | { readonly kind: 'completed'; readonly result: unknown; readonly at: number }
  | {
      readonly kind: 'failed' | 'cancelled'
      readonly error: Failure
      readonly at: number
      /** The run had ended before, and was undone since. */
      readonly undone?: boolean
    }
  | { readonly kind: 'terminated'; readonly reason: string; readonly at: number }

/** A wait of a run, as recorded in history: kind, id and deadline. */
export type NotedWait = readonly [kind: 'signal' | 'timer' | 'child', id: string, until: number | null]
