// The user's SQL in the transaction of a commit. The commit decides: if it is refused, or was applied before (its
// answer was lost), the user's SQL is not called. If the user's SQL throws, nothing of the commit is kept.
// transaction-sql.ts limits the statements that it can send; this file ends its transaction and restores the session.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Commit, Head, Outcome } from '../../core/store/ports.ts'
import { commitInside, riderOutcome, toOutcome } from './commit.ts'
import type { RunSql } from './connect.ts'
import { type DriverClient, ownTypes, type QueryResult } from './driver.ts'
import { isConnectionLoss, isDiskFull, isRetryable, toReprise } from './failure.ts'
import { functionName, riderStatement } from './functions.ts'
import { ownTables, refuseChanges } from './own-tables.ts'
import { transactionSql } from './transaction-sql.ts'
import type { CommitPort } from './write.ts'

/** User SQL that is idle for this long loses its transaction, so that it cannot hold locks forever. */
const idleTimeoutMs = 60_000

const doing = 'a commit with SQL'

export type ReadHeads = (timelines: readonly TimelineId[]) => Promise<(Head | null)[]>

class UserSqlFailure {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

export async function commitWithSql(port: CommitPort, commit: Commit, heads: ReadHeads): Promise<Outcome> {
  try {
    const work = (client: DriverClient, spend: () => void) => commitOnce(port, client, commit, spend)
    const { connections } = port
    return await connections.inUserTurn(doing, () => connections.use(doing, 'unsafe', work, true))
  } catch (error) {
    if (!(error instanceof UserSqlFailure)) throw toReprise(error, doing)
    const head = commit.guard ? (await heads([commit.guard.timeline]))[0]! : null
    return riderOutcome(error.cause, head)
  }
}

async function commitOnce(port: CommitPort, client: DriverClient, commit: Commit, spend: () => void): Promise<Outcome> {
  const run: RunSql = (text, values = []) => client.query({ text, values, types: ownTypes })
  const started = await run(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${idleTimeoutMs};
    SELECT pg_current_xact_id()::text AS xact, (SELECT count(*) FROM pg_prepared_statements WHERE name <> '${riderStatement}') AS statements`)
  const before = lastRow(started) as { xact: string; statements: number }
  // User SQL that prepared statements, or dropped ours, leaves a session that must not be reused.
  const keepOrSpend = (statements: unknown) => {
    if (statements !== before.statements) spend()
  }
  try {
    // The commit comes first: the user's code is called only if it succeeded, and its locks protect that result.
    const { answer, mark } = await commitInside(run, port, commit)
    const outcome = toOutcome(commit, answer)
    if (!outcome.ok || outcome.isDuplicate) {
      await run('ROLLBACK')
      return outcome
    }
    const sqlResult = await callUserSql(port, client, commit)
    keepOrSpend(await finish(run, port, before.xact, mark))
    return { ...outcome, sqlResult }
  } catch (error) {
    await run('ROLLBACK')
      .then(() =>
        run(`SELECT pg_advisory_unlock_all(), (SELECT count(*) FROM pg_prepared_statements
        WHERE name <> '${riderStatement}') AS statements`),
      )
      .then((result) => keepOrSpend(result.rows[0]!.statements), spend)
    throw error
  }
}

/**
 * Undoes all settings of the user's SQL before the COMMIT, in the same round trip and transaction: settings (including
 * the one that this commit's durability depends on), role, channels, cursors, temporary tables, locks. Deferred
 * constraints come first, because their triggers are user code as well. The first error ends it, before the COMMIT.
 * Returns the number of prepared statements in the session.
 */
async function finish(run: RunSql, { schema }: CommitPort, xact: string, mark: string): Promise<unknown> {
  try {
    const results =
      (await run(`SET CONSTRAINTS ALL IMMEDIATE; CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL;
      UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES; ${refuseChanges(schema, mark)};
      SELECT ${functionName(schema, 'rider_end')}('${xact}') AS statements; COMMIT`)) as unknown as QueryResult[]
    // The server answers a COMMIT that cannot succeed with ROLLBACK, without an error.
    if (results.at(-1)!.command !== 'COMMIT') throw new UserSqlFailure(new Error('the transaction was rolled back'))
    return results.at(-2)!.rows[0]!.statements
  } catch (error) {
    if (error instanceof UserSqlFailure || isConnectionLoss(error) || isDiskFull(error) || isRetryable(error))
      throw error
    const { code } = error as { code?: string }
    if (code === '25P02')
      throw new UserSqlFailure(new Error('a statement inside the commit failed and ended its transaction'))
    if (code === 'RP001') throw new UserSqlFailure(ownTables(schema))
    if (code === 'RP003')
      throw new UserSqlFailure(new RepriseError('SQL_REFUSED', 'the SQL inside the commit ended its transaction'))
    // An error at the end is caused by the user's SQL: usually a deferred constraint.
    throw new UserSqlFailure(error)
  }
}

async function callUserSql(
  { connections, schema }: CommitPort,
  client: DriverClient,
  commit: Commit,
): Promise<unknown> {
  let isOver = false
  let loss: unknown
  const onFailure = (error: unknown) => {
    if (isConnectionLoss(error) || isDiskFull(error)) loss = error
  }
  const sql = transactionSql({ client, driver: connections.driver, schema, isOver: () => isOver, onFailure })
  try {
    const sqlResult = await commit.userSql!(sql)
    if (loss === undefined) return sqlResult
  } catch (cause) {
    if (loss === undefined) throw new UserSqlFailure(cause)
  } finally {
    isOver = true
  }
  // However the user's SQL handled it: a broken connection or a full disk is not its fault. The commit is retried.
  throw loss
}

function lastRow(results: QueryResult | QueryResult[]): Record<string, unknown> {
  return (Array.isArray(results) ? results.at(-1)! : results).rows[0]!
}
