// The fold of a job's history: the finished keys, the source's cursor, items that wait for a retry, dead letters, and
// the status of the round. With Keyed parts, a checkpoint costs only as much as the changes.

import { assert } from '../../core/assert.ts'
import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { liveIdOf } from '../../core/history/scope.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Cursor, EntryData, EntryType, ItemFailure } from './entries.ts'
import { fingerprint, fromHexText, versionPrint } from './fingerprint.ts'
import { FinishedSet } from './finished-keys.ts'

export interface WaitingItem {
  readonly attempts: number
  /** How often the item was in flight when the process died. */
  readonly crashes: number
  readonly retryAt: number
  readonly error: ItemFailure | null
}

export interface DeadLetter {
  readonly key: string
  readonly version: string
  readonly item: unknown
  readonly hasItem: boolean
  /** The item could not be read and is in the source's stored form. */
  readonly unread?: true
  readonly attempts: number
  readonly error: ItemFailure
  readonly at: number
}

export interface Redrive {
  readonly item: unknown
  readonly hasItem: boolean
  readonly unread?: true
}

export type JobStatus = 'new' | 'running' | 'stopped' | 'completed'

export interface JobState {
  finished: Keyed<Uint8Array>
  versions: Keyed<Uint8Array>
  waiting: Keyed<WaitingItem>
  dead: Keyed<DeadLetter>
  redrive: Keyed<Redrive>
  /** If keys behind the cursor are dropped: the finished keys ahead of it. */
  ahead: Keyed<true>
  forgets: boolean
  /** The identity in every key, and the timeline that recorded it. Missing in older jobs, which keep their keys. */
  identity?: { readonly of: string; readonly id: string }
  /** Keys contain a digest of the entry, beside its feed position. Missing in older consumers, which keep their keys. */
  entryKeys?: true
  status: JobStatus
  round: number
  shards: number
  shard: number
  input: unknown
  cursor: Cursor | null
  /** In all rounds. */
  done: number
  /** In this round. */
  roundDone: number
  roundFailed: number
  startedAt: number
  endedAt: number
  pausedBecause: string | null
  /** Traceparents (W3C): of the start of the round, and of the last run. Missing if not traced. */
  trace?: string
  span?: string
}

/** The same for every job: jobs differ in code, never in the meaning of their history. */
export const jobFoldVersion = '1'

export interface JobFoldOptions {
  readonly checkpoint?: CheckpointPolicy | undefined
  readonly retain?: RetentionPolicy | undefined
}

export function jobFold(options: JobFoldOptions = {}): Fold<JobState> {
  return {
    version: jobFoldVersion,
    initial: initialState,
    apply: applyEntry,
    restored(state, yielder) {
      // Checkpoints of earlier versions have another name for it.
      if ((state.status as string) === 'finished') state.status = 'completed'
      return finishedSet(state).prepare(yielder)
    },
    checkpoint: options.checkpoint ?? { recoverWithin: '1s' },
    retain: options.retain,
    summary,
  }
}

/** For a state without an owner: a job that was running counts as stopped. */
export function summary({ status, round, done, dead, shards }: JobState) {
  const isLeft = status === 'running' || status === 'stopped'
  return {
    status: isLeft ? 'stopped' : status === 'completed' ? 'completed' : '',
    attributes: { round, done, dead: dead.size, shards, ...(isLeft && { finishedAt: null }) },
  }
}

export function initialState(): JobState {
  return {
    finished: new Keyed(),
    versions: new Keyed(),
    waiting: new Keyed(),
    dead: new Keyed(),
    redrive: new Keyed(),
    ahead: new Keyed(),
    forgets: false,
    status: 'new',
    round: 0,
    shards: 1,
    shard: 0,
    input: undefined,
    cursor: null,
    done: 0,
    roundDone: 0,
    roundFailed: 0,
    startedAt: 0,
    endedAt: 0,
    pausedBecause: null,
  }
}

const setOf = Symbol('finished set')

/** The index over the finished keys. It is derived, so it is attached to the state without being captured. */
export function finishedSet(state: JobState): FinishedSet {
  const held = state as JobState & { [setOf]?: FinishedSet }
  if (!held[setOf]) Object.defineProperty(held, setOf, { value: new FinishedSet(state), enumerable: false })
  return held[setOf]!
}

type Appliers = { readonly [Type in EntryType]: (state: JobState, data: EntryData[Type], at: Entry) => void }

const appliers: Appliers = {
  started(state, data, at) {
    if (data.round !== state.round) {
      state.roundDone = 0
      state.roundFailed = 0
      state.startedAt = at.time
      state.endedAt = 0
    }
    state.status = 'running'
    state.round = data.round
    state.shards = data.shards
    state.shard = data.shard
    state.input = data.input
    state.forgets = data.forgets ?? false
    if (data.identity !== undefined) state.identity = { of: liveIdOf(at.timeline), id: data.identity }
    if (data.entryKeys) state.entryKeys = true
    keep(state, 'trace', data.trace)
    keep(state, 'span', data.span)
    state.pausedBecause = null
  },
  done(state, data) {
    state.done += data.keys.length
    state.roundDone += data.keys.length
    if (state.forgets) {
      for (const key of data.keys) {
        state.ahead.set(key, true)
        settle(state, key)
      }
      if (data.cursor !== undefined) moveTo(state, data.cursor)
      return
    }
    const set = finishedSet(state)
    data.keys.forEach((key, i) => {
      const version = data.versions?.[i]
      set.add(set.fingerprintOf(key), version ? versionPrint(version) : '')
      settle(state, key)
    })
    set.flush()
    if (data.cursor !== undefined) state.cursor = data.cursor
  },
  moved(state, data) {
    moveTo(state, data.cursor)
  },
  begun(state, data) {
    for (const key of data.keys) {
      const held = state.waiting.get(key) ?? { attempts: 0, crashes: 0, retryAt: 0, error: null }
      state.waiting.set(key, { ...held, crashes: held.crashes + 1 })
    }
  },
  failed(state, data) {
    // The attempt ended by itself, so the item did not kill the process.
    state.waiting.set(data.key, { attempts: data.attempts, crashes: 0, retryAt: data.retryAt, error: data.error })
  },
  dead(state, data, at) {
    settle(state, data.key)
    const { key, item, hasItem, attempts, error, version = '' } = data
    const letter = { key, version, item, hasItem, attempts, error, at: at.time }
    state.dead.set(key, data.unread ? { ...letter, unread: true } : letter)
    state.roundFailed += 1
    if (data.cursor !== undefined) moveTo(state, data.cursor)
  },
  redriven(state, data) {
    for (const key of data.keys) {
      const letter = state.dead.get(key)
      if (!letter) continue
      const edit = data.edits && Object.hasOwn(data.edits, key) ? { item: data.edits[key] } : null
      const { item, hasItem, unread } = letter
      state.redrive.set(key, edit ? { ...edit, hasItem: true } : { item, hasItem, ...(unread && { unread }) })
      state.dead.delete(key)
    }
  },
  discarded(state, data) {
    const set = finishedSet(state)
    for (const key of data.keys) {
      const letter = state.dead.get(key)
      if (!letter) continue
      state.dead.delete(key)
      set.add(fingerprint(key), letter.version ? versionPrint(letter.version) : '')
    }
    set.flush()
  },
  imported(state, data) {
    const set = finishedSet(state)
    const before = set.size
    for (const key of data.keys ?? []) set.add(fingerprint(key), '')
    for (const print of data.prints ?? []) set.add(fromHexText(print), '')
    set.flush()
    state.done += set.size - before
  },
  paused(state, data) {
    state.pausedBecause = data.because
  },
  resumed(state) {
    state.pausedBecause = null
  },
  stopped(state, _data, at) {
    state.status = 'stopped'
    state.endedAt = at.time
  },
  finished(state, data, at) {
    state.status = 'completed'
    state.cursor = data.cursor
    state.endedAt = at.time
    // The source did not yield the waiting items again, so they no longer exist.
    if (state.waiting.size > 0) state.waiting.clear()
  },
}

function applyEntry(state: JobState, entry: Entry): void {
  assert(Object.hasOwn(appliers, entry.type), `a job has no entries of type ${entry.type}`)
  const apply = appliers[entry.type as EntryType] as (state: JobState, data: unknown, at: Entry) => void
  apply(state, entry.data, entry)
}

function moveTo(state: JobState, cursor: Cursor | null): void {
  state.cursor = cursor
  if (!state.forgets || cursor === null || state.ahead.size === 0) return
  const passed = [...state.ahead.keys({ to: `${String(cursor.position)}\uffff` })]
  for (const key of passed) state.ahead.delete(key)
}

/** The field is absent instead of undefined: the state of an untraced job is the same as before traces existed. */
function keep(state: JobState, name: 'trace' | 'span', traceparent: string | undefined): void {
  if (traceparent !== undefined) state[name] = traceparent
  else if (Object.hasOwn(state, name)) delete state[name]
}

function settle(state: JobState, key: string): void {
  if (state.waiting.size > 0) state.waiting.delete(key)
  if (state.dead.size > 0) state.dead.delete(key)
  if (state.redrive.size > 0) state.redrive.delete(key)
}
