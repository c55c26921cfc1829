// Decodes messages of PostgreSQL's logical decoding (pgoutput, version 1) into changes. A transaction is sent as Begin,
// changes, Commit; a Relation precedes the first change of its table, and is sent again after the table was altered.

import { RepriseError } from '../../core/errors.ts'

export type ChangedRow = Readonly<Record<string, unknown>>

export interface PostgresChange {
  /** 'snapshot': a row that existed when the source began. */
  readonly kind: 'snapshot' | 'insert' | 'update' | 'delete' | 'truncate'
  readonly schema: string
  readonly table: string
  /** The current row; null for a delete or truncate. Large values that an update did not change are missing. */
  readonly row: ChangedRow | null
  /** The previous row, as far as the table's REPLICA IDENTITY provides it: its key, the whole row, or null. */
  readonly before: ChangedRow | null
  /** Commit time of the transaction, in milliseconds since 1970. */
  readonly time: number
}

export type Decoded =
  | { readonly is: 'begin'; readonly time: number }
  | { readonly is: 'changes'; readonly changes: readonly Omit<PostgresChange, 'time'>[] }
  /** `end`: the position after the transaction. */
  | { readonly is: 'commit'; readonly end: bigint }
  | { readonly is: 'other' }

/** Returns the parser that converts the text of a type to a value. */
export type TypeParser = (typeId: number) => (text: string) => unknown

interface Column {
  readonly name: string
  readonly isKey: boolean
  readonly parse: (text: string) => unknown
}

interface Relation {
  readonly schema: string
  readonly table: string
  readonly columns: readonly Column[]
}

/** Converts microseconds since 2000 to milliseconds since 1970. */
export function timeOf(microseconds: bigint): number {
  return Number(microseconds / 1000n) + 946_684_800_000
}

export class PgoutputDecoder {
  readonly #parserOf: TypeParser
  readonly #relations = new Map<number, Relation>()

  constructor(parserOf: TypeParser) {
    this.#parserOf = parserOf
  }

  decode(bytes: Buffer): Decoded {
    const input = new Input(bytes)
    switch (input.letter()) {
      case 'B':
        input.int64()
        return { is: 'begin', time: timeOf(input.int64()) }
      case 'C':
        input.byte()
        input.int64()
        return { is: 'commit', end: input.int64() }
      case 'R':
        this.#relate(input)
        return { is: 'other' }
      case 'I': {
        const relation = this.#relation(input)
        input.letter()
        return changed(relation, 'insert', tupleOf(input, relation, false), null)
      }
      case 'U':
        return this.#update(input)
      case 'D': {
        const relation = this.#relation(input)
        const isKey = input.letter() === 'K'
        return changed(relation, 'delete', null, tupleOf(input, relation, isKey))
      }
      case 'T':
        return this.#truncate(input)
      default:
        // Origins, types and application messages carry no rows.
        return { is: 'other' }
    }
  }

  #relate(input: Input): void {
    const id = input.int32()
    const [schema, table] = [input.text(), input.text()]
    input.byte()
    const columns = Array.from({ length: input.int16() }, () => {
      const isKey = (input.byte() & 1) === 1
      const name = input.text()
      const parse = this.#parserOf(input.int32())
      input.int32()
      return { name, isKey, parse }
    })
    this.#relations.set(id, { schema, table, columns })
  }

  #update(input: Input): Decoded {
    const relation = this.#relation(input)
    let what = input.letter()
    let before: Record<string, unknown> | null = null
    const isWhole = what === 'O'
    if (what !== 'N') {
      before = tupleOf(input, relation, what === 'K')
      what = input.letter()
    }
    const row = tupleOf(input, relation, false)
    // Large values that did not change are not sent; the full old row has them.
    if (isWhole) for (const [name, value] of Object.entries(before!)) if (!(name in row)) row[name] = value
    return changed(relation, 'update', row, before)
  }

  #truncate(input: Input): Decoded {
    const count = input.int32()
    input.byte()
    const relations = Array.from({ length: count }, () => this.#relation(input))
    const changes = relations.map(({ schema, table }) => ({
      kind: 'truncate' as const,
      schema,
      table,
      row: null,
      before: null,
    }))
    return { is: 'changes', changes }
  }

  #relation(input: Input): Relation {
    const id = input.int32()
    const found = this.#relations.get(id)
    if (found) return found
    throw new RepriseError('MALFORMED', `PostgreSQL sent a change of table ${id} before it described it`)
  }
}

function changed(
  { schema, table }: Relation,
  kind: 'insert' | 'update' | 'delete',
  row: ChangedRow | null,
  before: ChangedRow | null,
): Decoded {
  return { is: 'changes', changes: [{ kind, schema, table, row, before }] }
}

/** `isKey`: only the key columns are set. */
function tupleOf(input: Input, { columns }: Relation, isKey: boolean): Record<string, unknown> {
  const row: Record<string, unknown> = {}
  const count = input.int16()
  for (let i = 0; i < count; i++) {
    const { name, isKey: isOfKey, parse } = columns[i]!
    const what = input.letter()
    const value = what === 't' ? parse(input.sized()) : null
    if (what !== 'u' && (!isKey || isOfKey)) row[name] = value
  }
  return row
}

class Input {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  byte(): number {
    return this.#bytes.readUInt8(this.#at++)
  }

  letter(): string {
    return String.fromCharCode(this.byte())
  }

  int16(): number {
    this.#at += 2
    return this.#bytes.readInt16BE(this.#at - 2)
  }

  int32(): number {
    this.#at += 4
    return this.#bytes.readInt32BE(this.#at - 4)
  }

  int64(): bigint {
    this.#at += 8
    return this.#bytes.readBigInt64BE(this.#at - 8)
  }

  /** Reads up to a zero byte. */
  text(): string {
    const end = this.#bytes.indexOf(0, this.#at)
    const text = this.#bytes.toString('utf8', this.#at, end)
    this.#at = end + 1
    return text
  }

  sized(): string {
    const length = this.int32()
    this.#at += length
    return this.#bytes.toString('utf8', this.#at - length, this.#at)
  }
}
