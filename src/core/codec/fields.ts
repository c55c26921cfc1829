// Parts of the decoder that are shared by decoding at once and decoding in steps.

import { define, needsDefine, shapeBytesMax, shapeKeysMax } from './format.ts'
import { malformed, type ValueReader } from './reader.ts'

/** Offset at which the next step ends, and the length of a step. */
export interface Pace {
  at: number
  readonly stepBytes: number
}

/** The keys of an object that lists them itself: sorted, and too many or too long for a shape. */
export class SortedKeys {
  readonly count: number
  readonly #in: ValueReader
  readonly #isTableFull: boolean
  #bytes = 0
  #before: string | undefined

  constructor(from: ValueReader, isTableFull: boolean) {
    this.#in = from
    this.#isTableFull = isTableFull
    this.count = from.count(2)
  }

  next(): string {
    const start = this.#in.offset
    const key = this.#in.text()
    this.#bytes += this.#in.offset - start
    if (this.#before !== undefined && this.#before >= key) throw malformed('keys are not sorted')
    this.#before = key
    return key
  }

  check(): void {
    if (this.count <= shapeKeysMax && this.#bytes <= shapeBytesMax && !this.#isTableFull) {
      throw malformed('a small object is encoded as a large one')
    }
  }
}

export function setField(result: Record<string, unknown>, key: string, value: unknown): void {
  if (needsDefine(key)) define(result, key, value)
  else result[key] = value
}

/** Restores the fields of an error; MALFORMED for any encoding but the encoder's. */
export function fillError(result: Error, kindName: string, fields: Record<string, unknown>): void {
  if (Object.hasOwn(fields, 'stack') || fields.message === '') throw malformed('an error is not in its canonical form')
  if (Object.hasOwn(fields, 'name') && fields.name === kindName)
    throw malformed('an error is not in its canonical form')
  const isAggregate = kindName === 'AggregateError'
  // `new AggregateError` creates an empty list; an error that was written without a list must have none.
  if (isAggregate) Reflect.deleteProperty(result, 'errors')
  for (const key of Object.keys(fields)) {
    const isHidden = hiddenErrorFields.has(key) || (isAggregate && key === 'errors')
    define(result, key, fields[key], !isHidden)
  }
  define(result, 'stack', `${shown(result.name)}: ${shown(result.message)}`, false)
}

const hiddenErrorFields: ReadonlySet<string> = new Set(['name', 'message', 'cause'])

function shown(value: unknown): string {
  return typeof value === 'string' ? value : '?'
}
