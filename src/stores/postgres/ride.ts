// The user's SQL in the transaction of a commit. The commit decides: if it is refused, or turns out to have been
// applied before (its answer was lost), the rider is not called. If the rider throws, nothing of the commit is kept.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Commit, Head, Outcome, Sql } from '../../core/ports.ts'
import { commitInside, riderFailed, toOutcome } from './commit.ts'
import type { RunSql } from './connect.ts'
import type { DriverClient } from './driver.ts'
import { ownTypes } from './driver.ts'
import { toReprise } from './failure.ts'
import { toNumbered } from './placeholder.ts'
import type { CommitPort } from './write.ts'

/** A rider that does nothing for this long loses its transaction, so that it cannot hold locks for ever. */
const idleTimeoutMs = 60_000

export type ReadHeads = (timelines: readonly TimelineId[]) => Promise<(Head | null)[]>

class RiderFailure {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

export async function commitRiding(port: CommitPort, commit: Commit, heads: ReadHeads): Promise<Outcome> {
  try {
    return await port.connections.use('a commit with a rider', 'unsafe', (client) => ride(port, client, commit), true)
  } catch (error) {
    if (!(error instanceof RiderFailure)) throw toReprise(error, 'a commit with a rider')
    const head = commit.guard ? (await heads([commit.guard.timeline]))[0]! : null
    return riderFailed(error.cause, head)
  }
}

async function ride(port: CommitPort, client: DriverClient, commit: Commit): Promise<Outcome> {
  const run: RunSql = (text, values = []) => client.query({ text, values, types: ownTypes })
  await run('BEGIN')
  try {
    // The commit goes first: the user's code is called only when it stands, and its locks keep it standing.
    await run(`SET LOCAL idle_in_transaction_session_timeout = ${idleTimeoutMs}`)
    const outcome = toOutcome(commit, await commitInside(run, port, commit))
    if (!outcome.ok || outcome.wasApplied) {
      await run('ROLLBACK')
      return outcome
    }
    const ridden = await callRider(client, commit)
    // A transaction in which a statement failed cannot commit: the server answers COMMIT with ROLLBACK, without an error.
    const { command } = await run('COMMIT')
    if (command !== 'COMMIT')
      throw new RiderFailure(new Error('a statement of the rider failed, which ends its transaction'))
    return { ...outcome, ridden }
  } catch (error) {
    await run('ROLLBACK').catch(() => undefined)
    throw error
  }
}

async function callRider(client: DriverClient, commit: Commit): Promise<unknown> {
  let isOver = false
  try {
    return await commit.ride!(sqlOf(client, () => isOver))
  } catch (cause) {
    throw new RiderFailure(cause)
  } finally {
    isOver = true
  }
}

function sqlOf(client: DriverClient, isOver: () => boolean): Sql {
  const query = async (text: string, values: readonly unknown[]) => {
    if (isOver()) throw new Error('this transaction is over; await every call inside the rider')
    return client.query({ text: toNumbered(text), values: values.map(toParameter) })
  }
  return {
    dialect: 'postgres',
    run: async (text, ...values) => ({ changes: (await query(text, values)).rowCount ?? 0 }),
    all: async (text, ...values) => (await query(text, values)).rows,
    get: async (text, ...values) => (await query(text, values)).rows[0],
  }
}

/** The driver takes bytes as a Buffer only. */
function toParameter(value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value
}
