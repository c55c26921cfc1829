// The table of requests (core/store/requests.ts). Unlike all other tables, any connection may insert rows into it, so its rows
// have no checksum and its columns have constraints: a row that could never be read is refused in the transaction that writes
// it. A request is the row on which two of three places agree (request-copies.ts). docs/decisions/within.md has the reasons.

import type {
  ExecuteStatement,
  NewRequest,
  RequestBox,
  RequestClaim,
  RequestPlace,
  RequestQuery,
  RequestRow,
  WorkerRow,
} from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged, unlessDamaged } from '../file/failure.ts'
import type { Reading } from '../file/reading.ts'
import type { Writing } from '../writing/writing.ts'
import { agreed, copiedColumns, copyNames } from './request-copies.ts'

const places = ['NOT INDEXED', ...copyNames.map((name) => `INDEXED BY ${name}`)]
const columns = copiedColumns.join(', ')

const fileOfMain = "(SELECT file FROM pragma_database_list WHERE name = 'main')"

/**
 * The identity of a namespace is stored after its checksum (identity.ts). A copy of the file has the same identity, and attached
 * files do not commit together if the machine fails: the store must be the main file of the connection.
 */
const insert = `INSERT INTO main.reprise_request (namespace, verb, target, id, topic, data, key)
  SELECT ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM main.reprise_space s JOIN main.reprise_identity i ON i.space = s.id
    WHERE s.name = ? AND json_extract(substr(i.value, instr(i.value, ' ') + 1), '$.id') = ?)
    AND ${fileOfMain} IN (SELECT value FROM json_each(?)) RETURNING number, ${fileOfMain} AS place`

interface Port {
  readonly namespace: string
  read<Result>(work: (reading: Reading) => Result): Promise<Result>
  transact<Result>(doing: string, work: (writing: Writing) => Result): Promise<Result>
}

export class SqliteRequests implements RequestBox {
  readonly dialect = 'sqlite'
  readonly #port: Port
  #file: string | null = null

  constructor(port: Port) {
    this.#port = port
  }

  async place(_isFresh: boolean, execute?: ExecuteStatement): Promise<RequestPlace> {
    const text = `SELECT ${fileOfMain} AS file`
    if (execute) return { table: '', name: String((await execute(text, []))[0]?.file) }
    this.#file ??= await this.#port.read(({ connection }) => connection.get(text)!.file as string)
    return { table: '', name: this.#file }
  }

  async enlist(request: NewRequest, execute: ExecuteStatement, places?: readonly string[]) {
    const { namespace } = this.#port
    const { verb, target, id, topic, data, key, store } = request
    const known = JSON.stringify(places ?? [(await this.place(false)).name])
    const [row] = await execute(insert, [namespace, verb, target, id, topic, data, key, namespace, store, known])
    return row ? { number: Number(row.number), place: String(row.place) } : null
  }

  /** One worker at a time takes requests of a target: a row does not name its transaction, so the order holds for all of them. */
  async take(claim: RequestClaim): Promise<RequestRow[]> {
    const { namespace } = this.#port
    const isFound = await this.#port.read(({ connection }) => waiting(connection, namespace, claim, 1).length > 0)
    if (!isFound) return []
    return await this.#port.transact('take requests from', (writing) => {
      const { connection, workers, now } = writing
      if (claim.targets.some((target) => isTakenByOther(connection, namespace, target, claim, workers.list(now))))
        return []
      const rows = waiting(connection, namespace, claim, claim.limit)
      const take = 'UPDATE reprise_request SET taken_by = ? WHERE number = ?'
      for (const { number } of rows) connection.run(take, claim.worker, number!)
      writing.hasAside = true
      return rows.map(toRequest)
    })
  }

  async release(numbers: readonly number[]): Promise<void> {
    const { namespace } = this.#port
    await this.#port.transact('release requests of', (writing) => {
      writing.hasAside = true
      const sql = 'UPDATE reprise_request SET taken_by = NULL WHERE namespace = ? AND number = ?'
      for (const number of numbers) writing.connection.run(sql, namespace, number)
    })
  }

  async list({ number, hasProblem, targets, limit }: RequestQuery): Promise<RequestRow[]> {
    const where = [
      'namespace = ?',
      ...(number === undefined ? [] : ['number = ?']),
      ...(hasProblem === undefined ? [] : [`problem IS ${hasProblem ? 'NOT ' : ''}NULL`]),
      ...(targets === undefined ? [] : ['target IN (SELECT value FROM json_each(?))']),
    ]
    const { namespace } = this.#port
    const given = [
      ...(number === undefined ? [] : [number]),
      ...(targets === undefined ? [] : [JSON.stringify(targets)]),
    ]
    const values = [namespace, ...given, Math.max(0, limit)]
    const isListed = (row: SqlRow) =>
      row.namespace === namespace &&
      (hasProblem === undefined || (row.problem !== null) === hasProblem) &&
      (targets === undefined || targets.includes(row.target as string))
    return await this.#port.read(({ connection }) => {
      // The row may be hidden or damaged in one place.
      const numbers = placesOf(connection).flatMap((place) => {
        const sql = `SELECT number FROM reprise_request ${place} WHERE ${where.join(' AND ')} ORDER BY number LIMIT ?`
        return unlessDamaged(() => connection.all(sql, ...values), []).map((row) => row.number as number)
      })
      const rows = agreedRows(
        connection,
        [...new Set(numbers)].sort((a, b) => a - b),
      ).filter(isListed)
      return rows.slice(0, Math.max(0, limit)).map(toRequest)
    })
  }

  async fill(requests: readonly RequestRow[]): Promise<void> {
    const { namespace } = this.#port
    await this.#port.transact('add requests to', (writing) => {
      const { connection } = writing
      const [first] = requests
      const same = `SELECT 1 FROM reprise_request WHERE namespace = ? AND verb = ? AND target = ? AND id = ? AND sent_at = ?`
      if (!first || connection.get(same, namespace, first.verb, first.target, first.id, first.sentAt)) return
      writing.hasAside = true
      const sql = `INSERT INTO reprise_request (namespace, verb, target, id, topic, data, key, options, sent_at, problem)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
      for (const { verb, target, id, topic, data, key, options, sentAt, problem } of requests) {
        connection.run(sql, namespace, verb, target, id, topic, data, key, options, sentAt, problem)
      }
    })
  }

  async mark(number: number, as: Parameters<RequestBox['mark']>[1]): Promise<void> {
    const { namespace } = this.#port
    await this.#port.transact('change requests of', (writing) => {
      writing.hasAside = true
      if (as === 'removed') return settle(writing.connection, namespace, number)
      const sql = 'UPDATE reprise_request SET problem = ?, taken_by = NULL WHERE namespace = ? AND number = ?'
      writing.connection.run(sql, as?.problem ?? null, namespace, number)
    })
  }
}

export function hasRequest(connection: Connection, space: number, number: number): boolean {
  const sql = `SELECT 1 FROM reprise_request WHERE number = ? AND namespace = ${nameOfSpace}`
  return connection.get(sql, number, space) !== undefined
}

export function settleRequests({ connection, space }: Writing, numbers: readonly number[]): void {
  const sql = `DELETE FROM reprise_request WHERE number = ? AND namespace = ${nameOfSpace}`
  for (const number of numbers) connection.run(sql, number, space)
}

const nameOfSpace = '(SELECT name FROM reprise_space WHERE id = ?)'

function settle(connection: Connection, namespace: string, number: number): void {
  connection.run('DELETE FROM reprise_request WHERE namespace = ? AND number = ?', namespace, number)
}

function waiting(connection: Connection, namespace: string, claim: RequestClaim, limit: number): SqlRow[] {
  const list = (values: readonly unknown[]) => values.map(() => '?').join(', ')
  const sql = `SELECT number FROM reprise_request WHERE namespace = ? AND problem IS NULL
    AND target IN (${list(claim.targets)}) AND number NOT IN (${list(claim.except)}) ORDER BY number LIMIT ?`
  const found = connection.all(sql, namespace, ...claim.targets, ...claim.except, Math.max(0, limit))
  const rows = agreedRows(
    connection,
    found.map(({ number }) => number as number),
  )
  return rows.filter(
    (row) => row.namespace === namespace && row.problem === null && claim.targets.includes(row.target as string),
  )
}

/** A file of an older version has one place, or no table yet. */
function placesOf(connection: Connection): readonly string[] {
  if (!connection.isOlder) return places
  const has = (name: string) => connection.get('SELECT 1 FROM sqlite_schema WHERE name = ?', name) !== undefined
  if (has(copyNames[0]!)) return places
  return has('reprise_request') ? places.slice(0, 1) : []
}

function agreedRows(connection: Connection, numbers: readonly number[]): SqlRow[] {
  const read = placesOf(connection).map((place) => `SELECT ${columns} FROM reprise_request ${place} WHERE number = ?`)
  return numbers.flatMap((number) => {
    const row = agreed(read.map((sql) => unlessDamaged(() => connection.get(sql, number) ?? null, null)))
    if (row !== undefined) return row === null ? [] : [row]
    throw damaged(`request ${number} is damaged: no two of its three copies are equal`, { number })
  })
}

function isTakenByOther(
  connection: Connection,
  namespace: string,
  target: string,
  { worker }: RequestClaim,
  workers: readonly WorkerRow[],
): boolean {
  const sql = `SELECT DISTINCT taken_by FROM reprise_request WHERE namespace = ? AND target = ? AND problem IS NULL
    AND taken_by IS NOT NULL AND taken_by <> ?`
  const takers = connection.all(sql, namespace, target, worker).map(({ taken_by }) => taken_by)
  return workers.some(({ id, isAlive }) => isAlive && takers.includes(id))
}

function toRequest(row: SqlRow): RequestRow {
  const text = (value: SqlValue | undefined) => (value === null || value === undefined ? null : String(value))
  return {
    number: Number(row.number),
    group: '',
    verb: String(row.verb),
    target: String(row.target),
    id: String(row.id),
    topic: text(row.topic),
    data: row.data instanceof Uint8Array ? row.data : text(row.data),
    key: text(row.key),
    options: text(row.options),
    sentAt: Number(row.sent_at),
    problem: text(row.problem),
  }
}
