// Presence: a lock that lives as long as a session distinguishes a dead process from a slow one. A worker holds an
// advisory lock of its own on the store's session, and its row records that; a worker with such a row and a free lock
// is gone. A suspended process keeps its session, and with it the lock. The server ends the session of a dead host by
// itself.
// Only a session of our own counts. Behind a pooler there is no session: the worker then has no presence, and its lease
// decides.
// Safety does not depend on this: a worker retired by mistake is fenced by the epoch, as usual.

import type { WorkerId } from '../../core/coordinate.ts'
import type { Connections } from './connect.ts'
import { ownTypes } from './driver.ts'
import type { Guest, Session, SessionClient } from './session.ts'
import { escapeText } from './text.ts'

const retryMs = 250

/** The session of a dead host ends after about five seconds. No setting of the server ends an idle session. */
const settings = `set_config('tcp_keepalives_idle', '2', false), set_config('tcp_keepalives_interval', '1', false),
  set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '5000', false),
  set_config('idle_session_timeout', '0', false)`

/** A restart of the server ends all sessions, which proves nothing about their processes: presence belongs to one start. */
const serverStart = "floor(date_part('epoch', pg_postmaster_start_time()) * 1000)"

/** The number of a worker's lock. */
export const lockOf = (s: string, ns: string, id: string) => `hashtextextended('${s} ' || ${ns} || ' ' || ${id}, 4711)`

/**
 * For a worker's row `w`. The lock is tried for the duration of the statement only, and shared, so that concurrent
 * checks do not see each other.
 */
export const isGone = (s: string) => `CASE
    WHEN w.presence IS NULL OR w.retired_at IS NOT NULL OR pg_is_in_recovery() OR w.presence <> ${serverStart} THEN false
    ELSE pg_try_advisory_xact_lock_shared(${lockOf(s, 'w.ns', 'w.id')}) END`

export class Presence implements Guest {
  readonly #connections: Connections
  readonly #session: Session
  readonly #s: string
  readonly #ns: number
  readonly #wanted = new Set<WorkerId>()
  readonly #held = new Set<WorkerId>()
  #client: SessionClient | null = null
  #isImpossible = false
  #clearing: Promise<unknown> = Promise.resolve()

  constructor(connections: Connections, session: Session, schema: string, namespace: number) {
    this.#connections = connections
    this.#session = session
    this.#s = schema
    this.#ns = namespace
  }

  /**
   * From now on this worker is treated as alive as long as the session exists. Until the lock is held, its lease alone counts.
   */
  hold(worker: WorkerId): void {
    if (this.#isImpossible || this.#wanted.has(worker)) return
    this.#wanted.add(worker)
    if (this.#client) this.#lock(this.#client, worker).catch(ignore)
    else this.#session.join(this)
  }

  /** For workers that were retired. */
  release(workers: readonly WorkerId[]): void {
    for (const worker of workers) {
      this.#wanted.delete(worker)
      const isHeld = this.#held.delete(worker)
      if (isHeld && this.#client) this.#ask(this.#client, 'pg_advisory_unlock', worker).catch(ignore)
    }
    if (this.#wanted.size > 0) return
    this.#session.leave(this)
    this.#client = null
  }

  async settle(client: SessionClient): Promise<void> {
    const text = `SELECT pg_backend_pid() AS pid, ${settings}`
    const { rows } = await client.query({ text, types: ownTypes })
    if (rows[0]!.pid !== client.processID) return this.#giveUp()
    this.#client = client
    for (const worker of this.#wanted) await this.#lock(client, worker)
  }

  /**
   * The process is alive and its lock is free: records that before other workers conclude anything, and locks again in
   * a new session.
   */
  unsettle(): void {
    this.#client = null
    const workers = [...this.#held].map(escapeText)
    this.#held.clear()
    const text = `UPDATE ${this.#s}.worker SET presence = NULL WHERE ns = $1 AND id = ANY ($2::text[])`
    if (workers.length === 0) return
    this.#clearing = this.#connections.rows(text, [this.#ns, workers], 'safe').catch(ignore)
  }

  async #lock(client: SessionClient, worker: WorkerId): Promise<void> {
    const isOurs = () => this.#client === client && this.#wanted.has(worker)
    await this.#clearing
    if (!isOurs()) return
    if (!(await this.#ask(client, 'pg_try_advisory_lock', worker))) {
      // Another worker checks at this moment, or the server has not noticed yet that our last session broke.
      setTimeout(() => void this.#lock(client, worker).catch(ignore), retryMs).unref()
      return
    }
    // It is used only if other sessions see it: not if locks have no effect, or belong to another server.
    if (await this.#ask(null, 'pg_try_advisory_xact_lock_shared', worker)) return this.#giveUp()
    if (!isOurs()) return
    this.#held.add(worker)
    const text = `UPDATE ${this.#s}.worker SET presence = ${serverStart} WHERE ns = $1 AND id = $2 AND retired_at IS NULL`
    await client.query({ text, values: [this.#ns, escapeText(worker)] })
  }

  /** In the session, or in any connection. */
  async #ask(client: SessionClient | null, call: string, worker: WorkerId): Promise<boolean> {
    const text = `SELECT ${call}(${lockOf(this.#s, '$1::integer', '$2::text')}) AS is_so`
    const values = [this.#ns, escapeText(worker)]
    const rows = client
      ? (await client.query({ text, values, types: ownTypes })).rows
      : await this.#connections.rows<Record<string, unknown>>(text, values, 'safe')
    return rows[0]!.is_so === true
  }

  #giveUp(): void {
    this.#isImpossible = true
    this.#wanted.clear()
    this.#held.clear()
    this.#client = null
    this.#session.leave(this)
  }
}

function ignore(): void {}
