// Transactions: the user's SQL and the step's entry in one commit. The entry is sealed before the SQL runs, so the
// SQL's result is stored in a table, in the same transaction, until history has it. The rows are encrypted with a
// secret that the entry holds: the table is in the user's database, where other namespaces and any SQL can read it.

import { toHex } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { aFunction, checkOptions, checkValues } from '../../../core/options.ts'
import { decideRetry, type RetryPolicy, resolveRetry } from '../../../core/retry/retry.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import { openRow, rowName, sealRow } from '../../../engine/storage/seal/sealed-row.ts'
import type { StepCall, TransactionOptions } from '../context.ts'
import type { Item } from '../history/entries.ts'
import { fromFailure, toFailure } from '../history/failure.ts'
import { itemsOf } from '../history/journal.ts'
import { noCommand, own } from '../history/state.ts'
import type { Command } from '../run/command.ts'
import type { CommandRun } from '../run/command-host.ts'
import type { Recorder } from '../run/recorder.ts'
import type { RunTimeline } from '../run/run-timeline.ts'
import { commandName, leaveScope, type Scope } from '../run/scope.ts'
import type { Saga } from './saga.ts'
import { declaredAfter, dependsOn } from './steps.ts'

const known = new Set(['retry', 'compensate', 'compensateRetry', 'after'])

type Call<T> = (db: Sql, step: { readonly key: string }) => Promise<T> | T

const table = 'workflow_results'
const secretBytes = 32
/** Matches row names from releases that stored rows in plain text. */
const plainName = /^[0-9a-f]{16}$/

/** Values that the SQL of this run returned, until history has them. */
export class SqlResults {
  /** Rows written so far; the next commit deletes them. */
  readonly rows: string[] = []
  readonly #open: Pick<RunTimeline, 'write'>
  #results: Map<string, unknown> | null = null

  constructor(open: Pick<RunTimeline, 'write'>) {
    this.#open = open
  }

  get results(): Map<string, unknown> {
    this.#results ??= new Map()
    return this.#results
  }

  /** Runs a read through the user's SQL, without an entry. */
  async read<T>(call: (sql: Sql) => Promise<T> | T): Promise<T> {
    return (await this.#open.write([], { userSql: call })).sqlResult as T
  }
}

/** The parts of a run that transaction results use. */
export interface SqlResultsRun {
  readonly state: CommandRun['state']
  readonly sqlResults: SqlResults
  readonly kernel: Pick<Kernel, 'codec' | 'random'>
}

/** The parts of a run that a transaction uses. */
export interface TransactionRun extends CommandRun, SqlResultsRun {
  readonly definition: { readonly options: { readonly retry?: RetryPolicy } }
  readonly kernel: SqlResultsRun['kernel']
  readonly code: CommandRun['code'] & { readonly saga: Pick<Saga, 'add'> }
  readonly recorder: Pick<Recorder, 'record' | 'write' | 'alongNext' | 'flush'>
  readonly host: { readonly results: ResultsTable }
}

export function askTransaction<T>(
  run: TransactionRun,
  scope: Scope,
  name: string,
  call: Call<T>,
  options: TransactionOptions<T>,
): Promise<T> {
  checkFunction(call, `transaction ${name}`)
  checkOptions('transaction', options, known)
  checkValues(`transaction ${name}`, options, { compensate: [aFunction] })
  const id = scope.next(commandName(name))
  const retry = resolveRetry(options.retry, run.definition.options.retry)
  return run.code.execution.ask<T>(scope, id, {
    kind: 'step',
    hasUndo: options.compensate !== undefined,
    after: declaredAfter(scope, `transaction ${name}`, options.after),
    start: (command) => run.spawn(() => begin(command)),
    onItem(command, item) {
      if ((item.kind === 'done' || item.kind === 'failed') && item.key !== undefined) command.keyUsed = item.key
      if (item.kind === 'failed')
        return command.reject(command.cancelled ? run.code.cancelError() : fromFailure(item.error))
      if (item.kind !== 'done') return
      const result = item.rode !== null ? run.sqlResults.results.get(id) : item.result
      if (item.rode !== null) {
        if (!command.isSettled) scope.observed.addResult(id, result)
        run.recorder.alongNext({ type: 'rode', data: result === undefined ? { id } : { id, result } })
      }
      if (options.compensate) {
        run.code.saga.add({
          command,
          item,
          result,
          call: options.compensate as (result: unknown, step: StepCall) => unknown,
          retry: options.compensateRetry,
        })
      }
      if (command.cancelled) command.reject(run.code.cancelError())
      else command.resolve(result)
    },
    onAbandon: (command) => run.alarms.delete(command.id),
  })

  async function begin(command: Command): Promise<void> {
    if (command.cancelled) return await run.recorder.record('failed', { id, error: toFailure(run.code.cancelError()) })
    const { notBefore } = own(run.state.open, id, noCommand)
    if (notBefore > run.now()) return beginAt(command, notBefore)
    const { failures } = own(run.state.open, id, noCommand)
    try {
      await commitWithSql(run, command, call as Call<unknown>)
    } catch (error) {
      if (!isReprise(error, 'RIDER_FAILED')) throw error
      const cause = error.cause ?? error
      const now = run.now()
      const { again, delayMs, counts, mistake } = decideRetry(retry, failures + 1, cause, {
        chance: () => run.kernel.random.number(),
        now,
      })
      if (!again || command.cancelled)
        return await run.recorder.record('failed', { id, error: toFailure(mistake ?? cause) })
      const at = now + delayMs
      await run.recorder.record('retry', { id, n: counts ? failures + 1 : failures, error: toFailure(cause), at })
      beginAt(command, at)
    }
  }

  function beginAt(command: Command, at: number): void {
    run.alarms.setPassing(id, at, () => void run.spawn(() => begin(command)))
  }
}

async function commitWithSql(run: TransactionRun, command: Command, call: Call<unknown>): Promise<void> {
  const { id, key } = command
  const rode = toHex(run.kernel.random.bytes(secretBytes))
  await run.host.results.prepare(run)
  await run.recorder.flush()
  const { codec } = run.kernel
  let isKeeping = false
  const userSql = async (sql: Sql) => {
    const watched = watchPath(sql)
    const result = await leaveScope(() => call(watched.sql, { key }))
    run.sqlResults.results.set(id, result)
    if (result === undefined || sql.dialect === 'memory') return
    const bytes = codec.encode(result)
    const row = rowName(rode)
    await onOwnPath(sql, watched.isMoved(), async () => {
      isKeeping = true
      for (const earlier of run.sqlResults.rows) await sql.run(`DELETE FROM ${table} WHERE ride = ?`, earlier)
      await sql.run(`INSERT INTO ${table} (ride, value) VALUES (?, ?)`, row, sealRow(rode, bytes))
      isKeeping = false
    })
    run.sqlResults.rows.splice(0, Number.POSITIVE_INFINITY, row)
    run.sqlResults.results.set(id, codec.decode(bytes))
  }
  const commit = async () =>
    void (await run.recorder.write([{ type: 'done', data: { id, rode, key, ...dependsOn(run, command) } }], {
      userSql,
    }))
  try {
    await commit()
  } catch (error) {
    if (!isKeeping || !isReprise(error, 'RIDER_FAILED')) throw error
    // Nothing was committed: with several databases, this one may not have the results table yet.
    await run.sqlResults.read(createTable)
    await commit()
  }
}

/** The same SQL, which remembers whether a statement may have moved the search path of PostgreSQL. */
function watchPath(sql: Sql): { readonly sql: Sql; isMoved(): boolean } {
  if (sql.dialect !== 'postgres') return { sql, isMoved: () => false }
  let isMoved = false
  const seen = (text: string) => {
    if (/search_path|set_config/i.test(text)) isMoved = true
    return text
  }
  const watched: Sql = {
    dialect: sql.dialect,
    run: (text, ...values) => sql.run(seen(text), ...values),
    all: (text, ...values) => sql.all(seen(text), ...values),
    get: (text, ...values) => sql.get(seen(text), ...values),
    rows: (text, ...values) => sql.rows(seen(text), ...values),
  }
  return { sql: watched, isMoved: () => isMoved }
}

/** The session's own path finds the results table. Afterwards the path is the user's again: deferred triggers run under it. */
async function onOwnPath(sql: Sql, isMoved: boolean, work: () => Promise<void>): Promise<void> {
  if (!isMoved) return await work()
  const path = (await sql.get("SELECT pg_catalog.current_setting('search_path') AS path"))!.path
  await sql.run('SET LOCAL search_path TO DEFAULT')
  await work()
  await sql.run("SELECT pg_catalog.set_config('search_path', ?, true)", path)
}

/** Reads results from the table after a crash between the commit and the next entry. Returns null if none are missing. */
export function recoverSqlResults(run: SqlResultsRun): Promise<void> | null {
  const missing = itemsOf(run.state.journal).filter((item) => item.kind === 'done' && item.rode !== null)
  return missing.length > 0 ? readSqlResults(run, missing) : null
}

async function readSqlResults(run: SqlResultsRun, missing: readonly Item[]): Promise<void> {
  for (const item of missing) {
    if (item.kind !== 'done' || item.rode === null) continue
    const { rode } = item
    const row = await run.sqlResults.read(async (sql) => {
      if (sql.dialect === 'memory') return undefined
      // With several databases, the run's own database may not have the table.
      await createTable(sql)
      return await sql.get(`SELECT ride AS name, value FROM ${table} WHERE ride = ? OR ride = ?`, rowName(rode), rode)
    })
    if (!row) continue
    const value = new Uint8Array(row.value as Uint8Array)
    // Rows that an older release stored in plain text are named by the secret itself.
    const plain = row.name === rode ? value : openRow(rode, value)
    run.sqlResults.results.set(item.id, run.kernel.codec.decode(plain))
    run.sqlResults.rows.push(String(row.name))
  }
}

/** The last commit also deletes the run's last row. */
export function dropSqlRows(run: Pick<SqlResultsRun, 'sqlResults'>) {
  const { rows } = run.sqlResults
  if (rows.length === 0) return {}
  return {
    userSql: async (sql: Sql) => {
      for (const row of rows.splice(0)) await sql.run(`DELETE FROM ${table} WHERE ride = ?`, row)
    },
  }
}

/**
 * The table that holds the results of transactions. Each process creates it once, in the database of its first
 * transaction.
 */
export class ResultsTable {
  #made: Promise<void> | null = null

  async prepare(run: Pick<SqlResultsRun, 'sqlResults'>): Promise<void> {
    this.#made ??= run.sqlResults.read(createTable).catch(async (error) => {
      // If two processes create the table at the same moment, one of them fails and then finds the table.
      if (!isReprise(error, 'RIDER_FAILED')) throw error
      await run.sqlResults.read(createTable)
    })
    await this.#made.catch((error) => {
      this.#made = null
      throw error
    })
  }
}

async function createTable(sql: Sql): Promise<void> {
  if (sql.dialect === 'memory') return
  const bytes = sql.dialect === 'sqlite' ? 'BLOB' : 'BYTEA'
  await sql.run(`CREATE TABLE IF NOT EXISTS ${table} (ride TEXT PRIMARY KEY, value ${bytes} NOT NULL)`)
}

/** Encrypts the rows that an older release stored in plain text. Returns their count. */
export async function sealResults(sql: Sql): Promise<number> {
  if (sql.dialect === 'memory') return 0
  const schema =
    sql.dialect === 'sqlite' ? 'SELECT name FROM sqlite_schema WHERE name = ?' : 'SELECT to_regclass(?) AS name'
  if (!(await sql.get(schema, table))?.name) return 0
  let count = 0
  for (const { name, value } of await sql.all(`SELECT ride AS name, value FROM ${table}`)) {
    if (!plainName.test(String(name))) continue
    const sealed = sealRow(String(name), new Uint8Array(value as Uint8Array))
    await sql.run(`UPDATE ${table} SET ride = ?, value = ? WHERE ride = ?`, rowName(String(name)), sealed, String(name))
    count += 1
  }
  return count
}
