// The table of requests (core/store/requests.ts). sql/request-functions.sql has the functions that applications call.

import type {
  ExecuteStatement,
  NewRequest,
  RequestBox,
  RequestClaim,
  RequestPlace,
  RequestQuery,
  RequestRow,
} from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { functionName } from './functions.ts'
import { escapeText, unescapeText } from './text.ts'

interface RequestDbRow {
  readonly number: number
  readonly xact: number
  readonly verb: string
  readonly target: string
  readonly id: string
  readonly topic: string | null
  readonly json: string | null
  readonly data: Uint8Array | null
  readonly key: string | null
  readonly options: string | null
  readonly sent_at: number
  readonly problem: string | null
}

const columns =
  'number, xact, verb, target, id, topic, json::text AS json, data, key, options::text AS options, sent_at, problem'

/**
 * The database and the running server. A copy has the same store id, and a copy of a whole server also the same database number
 * and system identifier, but not the same start. Every role can read both.
 */
const place = `(SELECT d.oid::text || ' ' ||
  (pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint::text
  FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())`

export class PostgresRequests implements RequestBox {
  readonly dialect = 'postgres'
  readonly #connections: Connections
  readonly #s: string
  readonly #ns: number
  readonly #namespace: string
  #place: string | null = null

  constructor(connections: Connections, schema: string, ns: number, namespace: string) {
    this.#connections = connections
    this.#s = schema
    this.#ns = ns
    this.#namespace = namespace
  }

  async place(isFresh: boolean, execute?: ExecuteStatement): Promise<RequestPlace> {
    const text = `SELECT ${place} AS place`
    if (execute) return { table: this.#s, name: String((await execute(text, []))[0]?.place) }
    if (isFresh || this.#place === null) {
      const [row] = await this.#connections.rows<{ readonly place: string }>(text, [], 'safe')
      this.#place = row!.place
    }
    return { table: this.#s, name: this.#place }
  }

  async enlist(request: NewRequest, execute: ExecuteStatement, places?: readonly string[]) {
    const { verb, target, id, topic, data, key, store } = request
    const text = `SELECT ${this.#s}.enlist($1, $2, $3, $4, $5, NULL, $6, $7, NULL, $8) AS number, here.place
      FROM (SELECT ${place} AS place) here WHERE here.place = ANY (string_to_array($9, ','))`
    const values = [this.#namespace, verb, target, id, topic, data && Buffer.from(data), key, store]
    for (const isFresh of places ? [false] : [false, true]) {
      const known = places ?? [(await this.place(isFresh)).name]
      const [row] = await execute(text, [...values, known.join(',')])
      if (row && row.number !== null) return { number: Number(row.number), place: String(row.place) }
    }
    return null
  }

  async take({ worker, targets, except, limit }: RequestClaim): Promise<RequestRow[]> {
    const text = `SELECT ${columns} FROM ${functionName(this.#s, 'take_requests')}($1, $2, $3, $4, $5)`
    const values = [this.#ns, escapeText(worker), targets, except, Math.max(0, limit)]
    return await this.#rows(text, values, 'unsafe')
  }

  async release(numbers: readonly number[]): Promise<void> {
    const text = `UPDATE ${this.#s}.request SET taken_by = NULL WHERE ns = $1 AND number = ANY ($2::bigint[])`
    await this.#connections.rows(text, [this.#ns, numbers], 'safe')
  }

  async list({ number, hasProblem, targets, limit }: RequestQuery): Promise<RequestRow[]> {
    const text = `SELECT ${columns} FROM ${this.#s}.request WHERE ns = $1 AND ($2::bigint IS NULL OR number = $2)
      AND ($3::boolean IS NULL OR (problem IS NOT NULL) = $3) AND ($4::text[] IS NULL OR target = ANY ($4)) ORDER BY number LIMIT $5`
    const values = [this.#ns, number ?? null, hasProblem ?? null, targets ?? null, Math.max(0, limit)]
    return await this.#rows(text, values, 'safe')
  }

  async fill(requests: readonly RequestRow[]): Promise<void> {
    const [first] = requests
    if (!first) return
    await this.#connections.transaction('adding requests', async (run) => {
      const same = `SELECT 1 FROM ${this.#s}.request WHERE ns = $1 AND verb = $2 AND target = $3 AND id = $4 AND sent_at = $5`
      const { rows } = await run(same, [this.#ns, first.verb, first.target, first.id, first.sentAt])
      if (rows.length > 0) return
      const text = `INSERT INTO ${this.#s}.request (xact, ns, verb, target, id, topic, json, data, key, options, sent_at, problem)
        VALUES (pg_current_xact_id()::text::bigint, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
      for (const { verb, target, id, topic, data, key, options, sentAt, problem } of requests) {
        const [json, sealed] = typeof data === 'string' ? [data, null] : [null, data && Buffer.from(data)]
        const shown = problem === null ? null : escapeText(problem)
        await run(text, [this.#ns, verb, target, id, topic, json, sealed, key, options, sentAt, shown])
      }
    })
  }

  async mark(number: number, as: Parameters<RequestBox['mark']>[1]): Promise<void> {
    const isRemoved = as === 'removed'
    const text = isRemoved
      ? `DELETE FROM ${this.#s}.request WHERE ns = $1 AND number = $2`
      : `UPDATE ${this.#s}.request SET problem = $3, taken_by = NULL WHERE ns = $1 AND number = $2`
    const problem = isRemoved ? [] : [as === null ? null : escapeText(as.problem)]
    await this.#connections.rows(text, [this.#ns, number, ...problem], 'safe')
  }

  async #rows(text: string, values: readonly unknown[], repeat: 'safe' | 'unsafe'): Promise<RequestRow[]> {
    this.#connections.checkOpen()
    const rows = await this.#connections.rows<RequestDbRow>(text, values as unknown[], repeat)
    return rows.map(toRequest).sort((a, b) => a.number - b.number)
  }
}

function toRequest({ xact, json, data, sent_at, problem, ...row }: RequestDbRow): RequestRow {
  const { number, verb, target, id, topic, key, options } = row
  return {
    ...{ number: Number(number), verb, target, id, topic, key, options },
    group: String(xact),
    data: data ?? json,
    sentAt: sent_at,
    problem: problem === null ? null : unescapeText(problem),
  }
}
