// The cut of a checkpoint through several tasks: each task is captured when the barrier has reached it, and the cut is complete
// when every task was.

import { assert } from '../../../core/assert.ts'
import type { CutId, Prepared } from '../sink.ts'
import type { CapturedTable } from './named-table.ts'

/** Everything that a checkpoint contains, as of its barrier. */
export interface FlowCut {
  readonly positions: ReadonlyMap<string, ReadonlyMap<string, unknown>>
  readonly captures: readonly CapturedTable[]
  readonly prepares: ReadonlyMap<string, () => Promise<Prepared>>
  readonly records: number
  readonly letters: number
}

export interface StagedCutOf extends Pick<FlowCut, 'positions' | 'records'> {
  readonly id: CutId
  /** The number of cells that the base of the checkpoint has, by table. */
  readonly stored: ReadonlyMap<string, number>
  /** The tasks that the barrier has not reached yet. */
  readonly tasks: readonly number[]
  readonly captures: readonly CapturedTable[]
  readonly prepares: ReadonlyMap<string, () => Promise<Prepared>>
}

export class StagedCut {
  readonly id: CutId
  readonly stored: ReadonlyMap<string, number>
  /** Rejects if the cut is abandoned. */
  readonly done: Promise<FlowCut>
  /** Resolves in both cases. */
  readonly settled: Promise<void>
  readonly #of: StagedCutOf
  readonly #missing: Set<number>
  readonly #captures: CapturedTable[]
  readonly #prepares: Map<string, () => Promise<Prepared>>
  #letters: number | null = null
  #resolve: (cut: FlowCut) => void = () => undefined
  #reject: (error: unknown) => void = () => undefined

  constructor(of: StagedCutOf) {
    this.#of = of
    this.id = of.id
    this.stored = of.stored
    this.#missing = new Set(of.tasks)
    this.#captures = [...of.captures]
    this.#prepares = new Map(of.prepares)
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.settled = this.done.then(
      () => undefined,
      () => undefined,
    )
  }

  /** `letters`: the number of dead letters, from the task that keeps them. True: no task is missing. */
  add(
    task: number,
    captures: readonly CapturedTable[],
    prepares: Iterable<readonly [string, () => Promise<Prepared>]>,
    letters: number | null,
  ): boolean {
    assert(this.#missing.delete(task), 'a task is captured once for a checkpoint')
    this.#captures.push(...captures)
    for (const [name, prepare] of prepares) this.#prepares.set(name, prepare)
    this.#letters = letters ?? this.#letters
    return this.#missing.size === 0
  }

  finish(): void {
    assert(this.#letters !== null, 'one task stores the dead letters')
    const { positions, records } = this.#of
    this.#resolve({ positions, captures: this.#captures, prepares: this.#prepares, records, letters: this.#letters })
  }

  /** The changes that were captured belong to the next checkpoint. */
  abandon(error: unknown): void {
    for (const { capture } of this.#captures) capture.abandon()
    this.#reject(error)
  }
}
