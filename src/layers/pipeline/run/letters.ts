// Dead letters of a pipeline: records that an operator could not process, with the reason. They are state like any other,
// so a letter is there after a restart exactly if its record is not processed again.

import { RepriseError } from '../../../core/errors.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import type { PoisonRecord } from '../operator.ts'

export interface PipelineLetter {
  readonly id: number
  /** The operator, or the source if the record could not be decoded. */
  readonly operator: string
  readonly value: unknown
  readonly time: number | null
  readonly key: PipelineKey | null
  readonly error: string
  /** When it failed, in milliseconds since 1970. */
  readonly at: number
}

export function lettersStay(pipeline: string): string {
  return `${pipeline} is done: its dead letters can be read, but neither sent back nor discarded. To process those records, run it with { from } an older checkpoint, or read them in a pipeline of another name`
}

export class Letters {
  readonly table = new StateTable<Omit<PipelineLetter, 'id'>>()
  readonly #max: number
  #next = 1

  constructor(max: number) {
    this.#max = max
  }

  get count(): number {
    return this.table.size
  }

  restored(): void {
    for (const id of this.table.space(0).slots.keys()) this.#next = Math.max(this.#next, (id as number) + 1)
  }

  /** LIMIT_EXCEEDED once there are too many: then something else is wrong than a few records. */
  add(operator: string, record: PoisonRecord, error: unknown, at: number): void {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    if (this.count >= this.#max) {
      const what = `more than ${this.#max} records failed (the last one in ${operator}: ${text}): mend the code, then run it again`
      throw new RepriseError('LIMIT_EXCEEDED', what, { limit: 'deadLetters', max: this.#max, operator }, error)
    }
    this.table.add(this.table.space(0), this.#next, { operator, ...record, error: text.slice(0, 2000), at })
    this.#next += 1
  }

  list(): PipelineLetter[] {
    return [...this.table.space(0).entries()].map(([id, letter]) => ({ id: id as number, ...letter }))
  }

  /** Takes them out, to be tried again or to be forgotten. Those that are not there are passed over. */
  take(ids: readonly number[]): PipelineLetter[] {
    const wanted = new Set(ids)
    const taken = this.list().filter(({ id }) => wanted.has(id))
    for (const { id } of taken) this.table.delete(this.table.space(0), id)
    return taken
  }
}
