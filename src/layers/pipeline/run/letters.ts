// Dead letters of a pipeline: records that an operator could not process, with the reason. Letters are state, so a letter
// exists after a restart exactly if its record is not processed again. Records whose function threw `RetryLater` are stored
// here too until their time; they are not dead letters.

import { assert } from '../../../core/assert.ts'
import { toMs } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { isPathError } from '../../../core/history/fold.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { checkList } from '../../../core/options.ts'
import { isRetryLater } from '../../../core/retry/retry.ts'
import { ChangedInPlace } from '../in-place-changes.ts'
import type { PoisonRecord, RecordOrigin } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'

export interface PipelineLetter {
  readonly id: number
  /** The operator, or the source if the record could not be decoded. */
  readonly operator: string
  readonly value: unknown
  readonly time: number | null
  readonly key: PipelineKey | null
  readonly error: string
  /** The time of the failure, in milliseconds since 1970. */
  readonly at: number
}

export function lettersStay(pipeline: string): string {
  return `${pipeline} has finished: its dead letters can be read, but neither retried nor discarded. To process those records, run it with { from } an older checkpoint, or read them in a pipeline of another name`
}

export function noTaker(operator: string): RepriseError {
  const what = `this pipeline has neither an operator nor a source ${operator}: restore the name, or discard the letters`
  return new RepriseError('INVALID_ARGUMENT', what, { operator })
}

/** True: the function fails for every record. No letter is written, and the pipeline stops. */
export function isFaultyCode(error: unknown): boolean {
  return isPathError(error) || error instanceof ChangedInPlace
}

/** Event time of other threads does not wait for a record that is set aside here. */
export function noRetryLater(operator: string): RepriseError {
  const what = `${operator} threw RetryLater, which a pipeline on several threads does not support: use call() before it, or omit threads`
  return new RepriseError('INVALID_ARGUMENT', what, { operator })
}

/** A stored record that was set aside. */
export interface SetAside extends Omit<PipelineLetter, 'id'> {
  /** The index of the operator's input from which it came. Default: 0. */
  readonly input?: number
  /** In a pipeline with keys: the origin with which the record is sent back. */
  readonly origin?: RecordOrigin
  /** The record is sent back automatically at this time, in milliseconds since 1970, or later. */
  readonly retryAt?: number
}

export class Letters {
  readonly table = new StateTable<SetAside>()
  readonly #max: number
  /** The number of records that wait for a retry, by operator. */
  readonly #waiting = new Map<string, number>()
  #waitingInAll = 0
  #next = 1

  constructor(max: number) {
    this.#max = max
  }

  /** The number of dead letters, without records that wait for a retry. */
  get count(): number {
    return this.table.size - this.#waitingInAll
  }

  /** The number of records that wait for a retry. */
  get waiting(): number {
    return this.#waitingInAll
  }

  isWaiting(operator: string): boolean {
    return this.#waiting.has(operator)
  }

  restored(): void {
    for (const [id, { operator, retryAt }] of this.table.space(0).entries()) {
      this.#next = Math.max(this.#next, (id as number) + 1)
      if (retryAt !== undefined) this.#note(operator, 1)
    }
  }

  /** Throws LIMIT_EXCEEDED once there are too many letters: the cause is then more than a few bad records. */
  add(operator: string, record: PoisonRecord, error: unknown, at: number): void {
    const text = textOf(error)
    const letter = { operator, ...record, error: text.slice(0, 2000), at }
    if (isRetryLater(error)) {
      this.#keep({ ...letter, retryAt: at + toMs(error.retryAfter, 'RetryLater') })
      this.#note(operator, 1)
      return
    }
    if (this.count >= this.#max) {
      const what = `more than ${this.#max} records failed (the last one in ${operator}: ${text}): fix the code, then run it again`
      const data = { limit: 'deadLettersMax', max: this.#max, operator }
      const hint =
        'Fix the operator or its input, then redrive the dead letters. To keep more of them, raise deadLettersMax.'
      throw new RepriseError('LIMIT_EXCEEDED', what, data, error, hint)
    }
    this.#keep(letter)
  }

  list(): PipelineLetter[] {
    return [...this.table.space(0).entries()].flatMap(([id, letter]) => {
      if (letter.retryAt !== undefined) return []
      const { operator, value, time, key, error, at } = letter
      return [{ id: id as number, operator, value, time, key, error, at }]
    })
  }

  /** Removes letters, for a retry or permanently. Unknown ids are skipped. */
  take(ids: readonly number[]): SetAside[] {
    checkList('the ids of dead letters', ids)
    const wanted = new Set(ids)
    return this.#takeIf((letter, id) => letter.retryAt === undefined && wanted.has(id))
  }

  /** Removes the records that are due, in the order in which they were set aside. */
  takeDue(now: number): SetAside[] {
    return this.#waitingInAll === 0 ? [] : this.#takeIf(({ retryAt }) => retryAt !== undefined && retryAt <= now)
  }

  #takeIf(isWanted: (letter: SetAside, id: number) => boolean): SetAside[] {
    const taken = [...this.table.space(0).entries()].filter(([id, letter]) => isWanted(letter, id as number))
    for (const [id, { operator, retryAt }] of taken) {
      this.table.delete(this.table.space(0), id)
      if (retryAt !== undefined) this.#note(operator, -1)
    }
    return taken.map(([, letter]) => letter)
  }

  #keep(letter: SetAside): void {
    this.table.add(this.table.space(0), this.#next, letter)
    this.#next += 1
  }

  #note(operator: string, by: 1 | -1): void {
    const own = (this.#waiting.get(operator) ?? 0) + by
    assert(own >= 0, 'a waiting record was counted when it was set aside')
    this.#waitingInAll += by
    if (own === 0) this.#waiting.delete(operator)
    else this.#waiting.set(operator, own)
  }
}

/** The text of the error, and of the user's error if our error wraps it. */
export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const own = `${error.name}: ${error.message}`
  return isReprise(error) && error.cause instanceof Error ? `${own}: ${textOf(error.cause)}` : own
}
