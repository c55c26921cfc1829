// The state of a run: its history folded into the data that a replay needs. The journal holds outcomes in order; a loop
// boundary drops the outcomes of the last iteration, so the journal is only as long as the code since that boundary.

import type { Entry } from '../../../engine/history/history.ts'
import type { Outcome } from './dependants.ts'
import type { End, Item, NotedWait, StandingStep, Started } from './entries.ts'
import type { Failure } from './failure.ts'
import type { Journal } from './journal.ts'

/** A command that began and has no outcome yet. */
export interface OpenCommand {
  readonly began: boolean
  readonly failures: number
  readonly notBefore: number
  readonly error: Failure | null
  readonly details: unknown
  readonly held: boolean
  /** The idempotency key, once recorded. */
  readonly key?: string
}

export interface Undo {
  readonly failures: number
  readonly notBefore: number
  readonly error: Failure | null
  readonly isStuck: boolean
}

/** A re-run whose kept outcomes have not all been used again. */
export interface Rerun {
  /** The journal before the re-run: the compensations of kept steps are registered by replaying it. */
  readonly before: Journal
  /** Kept outcomes whose commands the code has not issued yet, by id. */
  readonly kept: Readonly<Record<string, Outcome>>
}

export interface RunState {
  readonly started: Started | null
  readonly startedAt: number
  /** The start of the time limit of a run that continued after its end. Default: `startedAt`. */
  readonly limitedFrom?: number
  readonly input: unknown
  /** Grows when commands are called again after an undo: their keys must differ. */
  readonly generation: number
  /** The identity of this life of the run, or of the fork; part of every key. Missing in older runs. */
  readonly identity?: string
  /** Mixed into random values drawn after the outcome `after`. Missing in runs with a short seed (run/randomness.ts). */
  readonly salts?: readonly { readonly after: number; readonly salt: string }[]
  /** The run's name, and its life if not the first. Ids of children begin with it. */
  readonly keyBase: string
  /** The run's queue has admitted it, or it has no queue. */
  readonly isAdmitted: boolean
  readonly journal: Journal
  readonly lastAt: number
  readonly open: Readonly<Record<string, OpenCommand>>
  readonly patches: Readonly<Record<string, true>>
  readonly undone: Readonly<Record<string, string>>
  readonly undos: Readonly<Record<string, Undo>>
  readonly updates: Readonly<Record<string, { readonly result?: unknown; readonly error?: Failure }>>
  readonly rolling: {
    readonly to: string
    readonly input?: unknown
    readonly hasInput: boolean
    /** Mail that was read after this sequence is undone as well. */
    readonly seq?: number
    /** If set, the run ends with this reason once it is undone. */
    readonly ends?: string
    /** Only that command and its dependants are undone and repeated. */
    readonly isRerun?: true
    /** Kept steps are undone, and the run ends with this failure. */
    readonly failure?: { readonly error: Failure; readonly cancelled: boolean }
  } | null
  /** Set while a re-run has kept outcomes that were not used again. */
  readonly rerun?: Rerun | null
  /** How often a command was repeated by re-runs: part of its key, and of its child's id. */
  readonly reruns?: Readonly<Record<string, number>>
  /** In a fork: earlier updates were sent to the original. Their keys are not known here, and they are not answered. */
  readonly forkedAt?: number
  /** Keys of the last requests for re-runs and rollbacks: a repeated request has no effect. */
  readonly rerunKeys?: readonly string[]
  /** Kept outcomes whose commands the code had not issued by the end of the run. */
  readonly unused?: readonly string[]
  /**
   * Set when the run was restored to before its saga because a compensation failed permanently; the run is held until a
   * person resumes it. Missing in old states.
   */
  readonly restored?: {
    readonly to: string
    readonly stands: readonly StandingStep[]
    readonly undone: readonly string[]
    readonly error: Failure
    readonly isHeld: boolean
  } | null
  /** The waits when the run last left memory; null once another entry follows. */
  readonly waits: readonly NotedWait[] | null
  /** For a fork: a person chose to undo the inherited steps as well. */
  readonly undoesInherited?: boolean
  readonly end: End | null
}

export const noCommand: OpenCommand = {
  began: false,
  failures: 0,
  notBefore: 0,
  error: null,
  details: undefined,
  held: false,
}
export const noUndo: Undo = { failures: 0, notBefore: 0, error: null, isStuck: false }

// biome-ignore lint/suspicious/noExplicitAny: entries.ts lists the fields of each entry.
type Data = any

/** The end of a run, from its last entry; null if the run has not ended. */
export function endOf({ type, data: given, time: at }: Pick<Entry, 'type' | 'data' | 'time'>): End | null {
  const data = given as Data
  switch (type) {
    case 'completed':
      return { kind: 'completed', result: data.result, at }
    case 'ended-badly': {
      const kind = data.cancelled ? 'cancelled' : 'failed'
      return { kind, error: data.error, at, ...(data.undone && { undone: true }) }
    }
    case 'terminated':
      return { kind: 'terminated', reason: data.reason, at }
    default:
      return null
  }
}

/** The item that is delivered to code; null if the entry is only bookkeeping. */
export function itemOf(entry: Pick<Entry, 'type' | 'data' | 'time' | 'seq'>): Item | null {
  const data = entry.data as Data
  const { time: at, seq } = entry
  switch (entry.type) {
    case 'done':
      return doneItem(data, at, seq)
    case 'failed':
      return { kind: 'failed', id: data.id, error: data.error, ...keyed(data), ...depending(data), at, seq }
    case 'timer':
      return { kind: 'timer', id: data.id, at, seq }
    case 'child':
      return { kind: 'child', id: data.id, result: data.result, error: data.error ?? null, ...replaced(data), at, seq }
    case 'signal':
      return { kind: 'signal', name: data.name, value: data.value, at, seq }
    case 'update':
      return { kind: 'update', update: data.update, name: data.name, args: data.args, at, seq }
    case 'cancel':
      return { kind: 'cancel', reason: data.reason, why: data.why, at, seq }
    case 'loop':
      return { kind: 'loop', id: data.id, n: data.n, state: data.state, told: data.told ?? false, at, seq }
    default:
      return null
  }
}

/** Most steps have neither a key nor a declared dependency, and every step passes here: then one object, and no spread. */
function doneItem(data: Data, at: number, seq: number): Item {
  const { id, result, rode, replaces, key, after, since } = data
  if (replaces === undefined && key === undefined && after === undefined && since === undefined)
    return { kind: 'done', id, result, rode: rode ?? null, at, seq }
  const more = { ...replaced(data), ...keyed(data), ...depending(data) }
  return { kind: 'done', id, result, rode: rode ?? null, ...more, at, seq }
}

function replaced({ replaces }: Data): { readonly replaces?: number } {
  return replaces === undefined ? {} : { replaces }
}

function depending({ after, since }: Data): { readonly after?: readonly string[]; readonly since?: number } {
  return { ...(after !== undefined && { after }), ...(since !== undefined && { since }) }
}

/** The sequence of the last outcome; 0 if there is none. */
export function lastSeq(journal: Journal): number {
  return journal.length === 0 ? 0 : journal.items[journal.length - 1]!.seq
}

export function keyed({ key }: Data): { readonly key?: string } {
  return key === undefined ? {} : { key }
}

/** Reads an own property only: names are users' text and may match inherited ones. */
export function own<T>(record: Readonly<Record<string, T>>, id: string, otherwise: T): T {
  return Object.hasOwn(record, id) ? record[id]! : otherwise
}

/** True if the request with that key has taken effect. */
export function wasAsked({ rerunKeys }: RunState, key: string | undefined): boolean {
  return key !== undefined && rerunKeys?.includes(key) === true
}

/** The deadline for a run that had ended and continues: it has its whole time limit again. */
export function wholeLimit({ started, startedAt, limitedFrom = startedAt }: RunState, time: number) {
  return started?.deadline === undefined ? {} : { deadline: time + started.deadline - limitedFrom }
}
