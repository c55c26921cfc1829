// Writes to a timeline in turns, for models without a queue of their own: entries passed in, or made from the current
// state.
// Entries that depend on a state are computed again from newer state if another process wrote first.

import { RepriseError } from '../../core/errors.ts'
import { Mutex } from '../../lib/waiting.ts'
import { isLost } from '../ownership/contest.ts'
import type { NewEntry } from './timeline.ts'
import type { TurnTimeline } from './turn-timeline.ts'
import type { Written } from './writer.ts'

export interface TurnWriteOptions {
  readonly signal?: AbortSignal | undefined
  /** CONFLICT unless this is still the last sequence. */
  readonly expect?: number | undefined
}

export class TurnWriter<State> {
  readonly #turns: TurnTimeline<State>
  readonly #waitMs: number
  readonly #mutex = new Mutex()
  #waiting = 0
  /** Concurrent appends: any operation that reads the state waits for them. */
  readonly #quick = new Set<Promise<unknown>>()

  constructor(turns: TurnTimeline<State>, waitMs: number) {
    this.#turns = turns
    this.#waitMs = waitMs
  }

  /** `make` is called with the current state, possibly several times; it returns the entries, and must have no side effects. */
  write(make: (state: State) => readonly NewEntry[], options: TurnWriteOptions = {}): Promise<Written> {
    return this.inTurn(() => this.#write(make, options))
  }

  /**
   * Entries that depend on no state. All entries appended at the same moment go in one commit while this process is the
   * owner.
   */
  append(entries: readonly NewEntry[], options: TurnWriteOptions = {}): Promise<Written> {
    const { open } = this.#turns
    const isQuick = this.#waiting === 0 && open.isOwner && !open.closing && options.expect === undefined
    if (!isQuick) return this.write(() => entries, options)
    const { signal } = options
    const writing = open.write(entries, signal ? { signal } : undefined)
    this.#quick.add(writing)
    const done = () => this.#quick.delete(writing)
    writing.then(done, done)
    return writing.catch((error) => {
      // Refused as a whole, so it can be written again; after an unknown outcome only if keys detect duplicates.
      if (!isLost(error) || (error.code === 'OUTCOME_UNKNOWN' && !isKeyed(entries))) throw error
      return this.write(() => entries, options)
    })
  }

  /** Runs one after another with the writes. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1
    const inOrder = this.#mutex.run(async () => {
      await Promise.allSettled(this.#quick)
      return await work()
    })
    return inOrder.finally(() => {
      this.#waiting -= 1
    })
  }

  async #write(make: (state: State) => readonly NewEntry[], options: TurnWriteOptions): Promise<Written> {
    const { signal, expect } = options
    const turns = this.#turns
    const contest = turns.contest(this.#waitMs)
    for (;;) {
      let entries: readonly NewEntry[] = []
      try {
        if (signal?.aborted) throw new RepriseError('ABORTED', `${turns.id}: aborted`, {}, signal.reason)
        await turns.ready()
        const { open } = turns
        const { seq } = open
        if (expect === undefined || expect === seq) {
          entries = make(open.state)
          if (entries.length > 0) return await open.write(entries, signal ? { signal } : undefined)
        }
        // Without a write nothing would be refused: whether this was the current state must be checked.
        if (!(await turns.isCurrent()))
          throw new RepriseError('FENCED', `${turns.id} was written by another process`, { timeline: turns.id })
        if (entries.length === 0 && (expect === undefined || expect === seq)) {
          return { first: seq + 1, count: 0, isDuplicate: false, sqlResult: undefined }
        }
        throw new Moved(turns.id, seq, expect!)
      } catch (error) {
        if (error instanceof Moved || !isLost(error)) throw error
        if (error.code === 'OUTCOME_UNKNOWN' && !isKeyed(entries)) throw error
        await turns.lose(contest, error, () => !signal?.aborted)
      }
    }
  }
}

/** The caller's expectation failed: a final result, not a reason to retry. */
class Moved extends RepriseError {
  constructor(timeline: string, seq: number, expect: number) {
    super('CONFLICT', `${timeline} is at ${seq}, not at ${expect}`, { timeline, seq, expect })
  }
}

function isKeyed(entries: readonly NewEntry[]): boolean {
  return entries.length > 0 && entries.every(({ key, partOf }) => (key ?? partOf) !== undefined)
}
