// The entries of a run's history: all that a workflow leaves behind. Types and fields are short because a run has many of
// them; this file is the format.
//
//   started    { input, seed, identity, life?, isBatched?, behaviour, parent?, deadline?, queue?, trace? }   the first entry
//                                           identity: of this life of the run (core/history/identity.ts), in every key
//   waits      { for }                      what it waited for when it left memory: for people, see summary.ts
//   began      { id, key? }                       a step was about to be called (policies that ask first, and slow steps)
//   retry      { id, n, error, at, details?, key? }  an attempt failed; n of them by now; the next not before `at`
//   beat       { id, details }              a heartbeat with details
//   done       { id, result?, rode?, by?, replaces?, key? }  a step, transaction or start of a child ended well;
//                                           by: a person says so;
//                                           replaces: in a fork, in place of what the parent has there
//   failed     { id, error, by?, key? }     ended badly for good; by: a person says so; key: as the outside was given it
//   timer      { id }                       a sleep, or the timeout of a wait, is over
//   signal     { name, value? }             mail became part of history
//   update     { update, name, args }       an update was accepted
//   updated    { update, result?, error?, refused? }   and this came of it; refused: no handler has seen it, and none will
//   child      { id, result?, error?, by?, replaces? }  a child ended
//   patched    { id }                       this run takes the new way at that patch
//   rode       { id, result? }              what the SQL of a transaction returned
//   loop       { id, n, state, took, told } iteration n begins with this state; what the one before did may be forgotten
//                                           told: the code went on although it had been told that it is cancelled
//   cancel     { reason, why, undo? }       'cancel' or 'deadline'; undo: 'inherited', in a fork: what its original did, too
//   undoing    { id }                       a compensation was about to be called (slow ones)
//   undo.retry { id, n, error, at }         a compensation failed
//   stuck      { id, error }                a compensation failed for good: a person is asked
//   undone     { id, by? }                  compensated, or settled by somebody; by a fork: that one undoes it
//   restored   { to, stands, undone, error } a compensation failed for good: back before its saga, a person is asked
//   resumed    { by }                       a person asked to try the stuck compensation again, or the restored run to go on
//   held       { id }                       in doubt, and left to a person
//   settled    { id, by, retry }            a person said: call it again
//   continued  { input, took }              the run starts over with new input and an empty history
//   rollback   { to, input?, seq?, undo?, consumed? }  compensate all that was done from that command on, then go on from there
//                                           seq: mail that was read after it is undone, too; consumed: who had acted on what
//                                           is undone (engine/branch/consumers.ts): it was forced
//   undo       { reason, undo? }            compensate all that was done, then end as cancelled
//   rolled     { to, input?, seq? }               and that was done
//   retried    { ids }                      the run goes on after a failure: these outcomes are taken back
//   forked     { from, owns, input?, by?, identity, life?, seed, after }  this timeline is a fork, with keys and random values of
//                                           its own; by: who edited it; owns: it has no place in a queue yet, no parent, and no
//                                           call under way; after: the last outcome that it shares with its parent;
//                                           isCopy: it was imported beside its original, with all that it was about to do
//   admitted   {}                           its queue let it in
//   completed  { result? } · ended-badly { error, cancelled, undone? } · terminated { reason }     the end

import type { Failure } from './failure.ts'

/** Numbered behaviour of this engine, stored in `started`: code that changes what a replay does asks for the number. */
export const behaviour = 6

/** From this behaviour on a run that is cancelled after its code has returned, and before its end is recorded, is undone. */
export const cancelsReturned = 2

/** From this behaviour on a run fails if a step or child failed and its code never looked at it. */
export const failsUnseen = 2

/** From this behaviour on the id of a child names the workflow of its parent: runs of two workflows may have the same id. */
export const namesParent = 3

/** From this behaviour on a child that lives on its own has another id than one of the same workflow that is waited for. */
export const namesDetached = 4

/** From this behaviour on an await of what a command gives takes one round of microtasks, not three. */
export const awaitsDirectly = 5

// From behaviour 6 on `started` has the identity of the run and a seed of 128 bits. Runs without them keep their keys (key.ts)
// and their random values (chance.ts); their forks have them from the fork point on.

export interface ParentLink {
  readonly timeline: string
  readonly command: string
  /** Nobody waits for the result. */
  readonly detached?: boolean
}

export interface Started {
  readonly input?: unknown
  /** 32 hexadecimal digits; a number of 30 bits in older runs. */
  readonly seed: string | number
  /** Missing in older runs. */
  readonly identity?: string
  /** Of the run's id, where it is not the first. */
  readonly life?: number
  /** Its outcomes become durable in batches: a crash repeats steps, so their results are no part of keys. */
  readonly isBatched?: boolean
  readonly behaviour: number
  readonly parent?: ParentLink
  readonly deadline?: number
  readonly queue?: { readonly name: string; readonly key?: string }
  /** The traceparent (W3C) of whoever started it. */
  readonly trace?: string
}

/** What is delivered to code, one at a time, in the order of history. */
export type Item =
  | {
      readonly kind: 'done'
      readonly id: string
      readonly result: unknown
      /** Under this id the result is in the table of results, not yet here. */
      readonly rode: string | null
      /** In a fork, where its result was edited: the sequence of the outcome that it has instead. Nobody did it. */
      readonly replaces?: number
      /** The idempotency key, if the call asked for it. */
      readonly key?: string
      readonly at: number
      readonly seq: number
    }
  | {
      readonly kind: 'failed'
      readonly id: string
      readonly error: Failure
      readonly key?: string
      readonly at: number
      readonly seq: number
    }
  | { readonly kind: 'timer'; readonly id: string; readonly at: number; readonly seq: number }
  | {
      readonly kind: 'child'
      readonly id: string
      readonly result: unknown
      readonly error: Failure | null
      readonly replaces?: number
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
      readonly at: number
      readonly seq: number
    }

/** Something that was done and not undone when a run went back to before it. */
export interface Standing {
  readonly step: string
  readonly why: string
}

export type End =
  | { readonly kind: 'completed'; readonly result: unknown; readonly at: number }
  | {
      readonly kind: 'failed' | 'cancelled'
      readonly error: Failure
      readonly at: number
      /** It had ended before, and was undone since. */
      readonly undone?: boolean
    }
  | { readonly kind: 'terminated'; readonly reason: string; readonly at: number }

/** What a run waits for, as it is noted in history: kind, id, and until when. */
export type NotedWait = readonly [kind: 'signal' | 'timer' | 'child', id: string, until: number | null]
