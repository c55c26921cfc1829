// Collects results in memory, for tests and for pipelines that end: visible when their checkpoint is published.

import { synchronous } from '../../../core/synchronous.ts'
import type { Batch } from '../batch.ts'
import { type Sink, type SinkWriter, Waiting } from '../sink.ts'

export interface Collected<T> extends Sink<T> {
  /** Committed results, in order. They live as long as this value: a new process starts without results. */
  readonly values: readonly T[]
}

/** @example const totals = collectSink<Total>() */
export function collectSink<T>(): Collected<T> {
  const visible: T[] = []
  return { values: visible, open: async () => new Shown<T>((value) => void visible.push(value)) }
}

/** Prints each result when its checkpoint is published. Default: one line of JSON. */
export function printSink<T>(format: (value: T) => string = (value) => JSON.stringify(value)): Sink<T> {
  const text = synchronous(format, 'the function of printSink()', 'use call() before the sink')
  return { open: async () => new Shown<T>((value) => console.log(text(value))) }
}

class Shown<T> implements SinkWriter {
  readonly #show: (value: T) => void
  readonly #waiting = new Waiting<T>()

  constructor(show: (value: T) => void) {
    this.#show = show
  }

  get pending(): number {
    return this.#waiting.count
  }

  write(batch: Batch): void {
    this.#waiting.add(batch.values)
  }

  cut() {
    this.#waiting.cut()
    return async () => null
  }

  async commit(): Promise<void> {
    for (const value of this.#waiting.cutValues) this.#show(value)
    this.#waiting.settle()
  }

  rejoin(): void {
    this.#waiting.rejoin()
  }

  async close(): Promise<void> {}
}
