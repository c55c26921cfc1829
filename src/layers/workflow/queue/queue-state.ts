// The state of a queue: which runs are admitted, which wait, and which is next. Each operation costs about the
// logarithm of the number of waiting runs, because a queue is longest under the highest load.

import { toMs } from '../../../core/duration.ts'
import { Keyed } from '../../../core/keyed-state/keyed.ts'
import type { RatePolicy } from '../../../core/retry/rate.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Fold } from '../../../engine/model/definition.ts'

export interface QueueOptions {
  /** The number of admitted runs, in all processes together. A sleeping run keeps its place. */
  readonly concurrency?: number
  /** The number of admitted runs with the same `queueKey`. */
  readonly perKey?: number
  /** The number of runs that start within a span of time, in all processes together. */
  readonly rate?: RatePolicy
}

interface Waiting {
  readonly run: string
  readonly key: string
}

export interface QueueState {
  /** The admitted runs, with their key. */
  readonly active: Keyed<string>
  /** The number of admitted runs by key. */
  readonly inKey: Keyed<number>
  /** The waiting runs by place; places sort by priority, then by arrival. */
  readonly waiting: Keyed<Waiting>
  /** The place of each waiting run. */
  readonly places: Keyed<string>
  /** The same places by line: a line is the waiting runs of one key, in order. */
  readonly lines: Keyed<true>
  /** The first place of each line, with its key. */
  readonly fronts: Keyed<string>
  /** The times of recent admissions, in order, as far back as the rate limit requires. */
  readonly grants: Keyed<number>
}

const grantsKept = 10_000

export const queueFold: Fold<QueueState> = {
  version: 'workflow-queue-2',
  initial: () => ({
    active: new Keyed<string>(),
    inKey: new Keyed<number>(),
    waiting: new Keyed<Waiting>(),
    places: new Keyed<string>(),
    lines: new Keyed<true>(),
    fronts: new Keyed<string>(),
    grants: new Keyed<number>(),
  }),
  apply(state, entry: Entry) {
    const { run, key, priority } = entry.data as { run: string; key: string; priority: number }
    if (entry.type === 'entered') {
      if (!state.places.has(run)) enter(state, placeOf(priority, entry.seq), { run, key })
    } else if (entry.type === 'left') {
      leave(state, run)
      stopWaiting(state, run)
    } else if (entry.type === 'granted') grant(state, run, entry)
  },
  migrations: { 'workflow-queue-1': indexed },
  checkpoint: { every: 2000 },
  retain: { checkpoints: 2, history: 'needed' },
}

/** Sorts by priority, highest first, then by arrival. */
function placeOf(priority: number, seq: number): string {
  return `${padded(1e6 - Math.max(-1e6, Math.min(1e6, priority)), 8)}.${padded(seq, 12)}`
}

function padded(value: number, digits: number): string {
  return String(value).padStart(digits, '0')
}

function enter(state: QueueState, place: string, one: Waiting): void {
  const front = frontOf(state, one.key)
  state.waiting.set(place, one)
  state.places.set(one.run, place)
  state.lines.set(lineOf(one.key) + place, true)
  if (front !== undefined && front < place) return
  if (front !== undefined) state.fronts.delete(front)
  state.fronts.set(place, one.key)
}

function grant(state: QueueState, run: string, { seq, time }: Entry): void {
  const one = stopWaiting(state, run)
  if (one) {
    state.active.set(run, one.key)
    state.inKey.set(one.key, (state.inKey.get(one.key) ?? 0) + 1)
  }
  state.grants.set(padded(seq, 12), time)
  if (state.grants.size <= grantsKept) return
  for (const oldest of state.grants.keys({ limit: 1 })) state.grants.delete(oldest)
}

function leave(state: QueueState, run: string): void {
  const key = state.active.get(run)
  if (key === undefined) return
  state.active.delete(run)
  const left = (state.inKey.get(key) ?? 0) - 1
  if (left > 0) state.inKey.set(key, left)
  else state.inKey.delete(key)
}

function stopWaiting(state: QueueState, run: string): Waiting | null {
  const place = state.places.get(run)
  if (place === undefined) return null
  const one = state.waiting.get(place)!
  state.places.delete(run)
  state.waiting.delete(place)
  state.lines.delete(lineOf(one.key) + place)
  if (state.fronts.delete(place)) {
    const next = frontOf(state, one.key)
    if (next !== undefined) state.fronts.set(next, one.key)
  }
  return one
}

/** The prefix of a line's places. It contains the length of the key, so no line is a prefix of another. */
function lineOf(key: string): string {
  return `${key.length}:${key}:`
}

function frontOf(state: QueueState, key: string): string | undefined {
  return nextInLine(state, key, '')
}

/** The first place of a line after this one. */
function nextInLine(state: QueueState, key: string, after: string): string | undefined {
  const line = lineOf(key)
  // No place is a prefix of another, so the next key in sort order is the next place in the line.
  const from = after === '' ? line : `${line}${after}~`
  for (const found of state.lines.keys({ from, prefix: line, limit: 1 })) return found.slice(line.length)
  return undefined
}

/** Converts state of version 1, which had no index of waiting runs. */
function indexed(old: never): QueueState {
  const { active, waiting, grants } = old as {
    active: Keyed<string>
    waiting: Keyed<Waiting>
    grants: readonly number[]
  }
  const state = queueFold.initial()
  for (const [place, one] of waiting) enter(state, place, one)
  for (const [run, key] of active) {
    state.active.set(run, key)
    state.inKey.set(key, (state.inKey.get(key) ?? 0) + 1)
  }
  // Each old grant was an entry, so later grants have higher numbers.
  for (const [at, time] of grants.slice(-grantsKept).entries()) state.grants.set(padded(at, 12), time)
  return state
}

/** The number of runs that one commit admits. */
export const turnsAtOnce = 500

/** The runs to admit now, and when to check again if only time prevents admission. */
export function nextTurns(
  state: QueueState,
  options: QueueOptions,
  now: number,
): { readonly runs: string[]; readonly wakeup: number | null } {
  const { concurrency = Number.POSITIVE_INFINITY, perKey = Number.POSITIVE_INFINITY } = options
  const room = Math.min(concurrency - state.active.size, turnsAtOnce)
  const rate = rateOf(state, options, now)
  const taken = new Map<string, number>()
  const runs: string[] = []
  for (const line = new Lines(state); runs.length < room; ) {
    const place = line.next()
    if (place === undefined) break
    if (runs.length >= rate.left) return { runs, wakeup: rate.wakeup }
    const { run, key } = state.waiting.get(place)!
    const more = taken.get(key) ?? 0
    // All waiting runs keep waiting.
    if (key !== '' && (state.inKey.get(key) ?? 0) + more >= perKey) continue
    taken.set(key, more + 1)
    runs.push(run)
    line.passed(key, place)
  }
  return { runs, wakeup: null }
}

function rateOf({ grants }: QueueState, { rate }: QueueOptions, now: number): { left: number; wakeup: number } {
  if (!rate) return { left: Number.POSITIVE_INFINITY, wakeup: now }
  const perMs = toMs(rate.per, 'rate.per')
  let count = 0
  let first: number | null = null
  for (const at of grants.values({ reverse: true })) {
    if (at <= now - perMs) break
    count += 1
    first = at
  }
  return { left: rate.max - count, wakeup: (first ?? now) + perMs }
}

/** The next places of all lines, earliest first. After a line's front is taken, the next place of that line follows. */
class Lines {
  readonly #state: QueueState
  readonly #fronts: Iterator<string>
  #front: string | undefined
  /** Sorted. */
  readonly #behind: string[] = []

  constructor(state: QueueState) {
    this.#state = state
    this.#fronts = state.fronts.keys()
    this.#front = this.#fronts.next().value
  }

  next(): string | undefined {
    const [behind] = this.#behind
    if (behind !== undefined && (this.#front === undefined || behind < this.#front)) return this.#behind.shift()
    const front = this.#front
    if (front !== undefined) this.#front = this.#fronts.next().value
    return front
  }

  passed(key: string, place: string): void {
    const next = nextInLine(this.#state, key, place)
    if (next === undefined) return
    const at = this.#behind.findIndex((other) => other > next)
    this.#behind.splice(at === -1 ? this.#behind.length : at, 0, next)
  }
}
