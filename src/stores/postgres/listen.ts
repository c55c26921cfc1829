// Notifies other processes that something may be due or readable. A NOTIFY inside a commit would make all commits of
// the cluster queue behind one lock, fsync included. Therefore it is sent after the commit, in a transaction of its own
// that writes nothing, and many commits share one. It may be lost; listeners poll as well.
// Listening uses the store's own session. If notifications do not arrive (a pooler in transaction mode), a timer wakes
// the listeners instead.

import type { Connections } from './connect.ts'
import type { Guest, Session, SessionClient } from './session.ts'

const quietMs = 20
const pollMs = 500
const probeMs = 2000
/** The payload of a notification if nothing has become due. */
const nothingDue = 'nothing due'
/** The payload of a notification that travels with a request (sql/request-functions.sql). */
const newRequest = 'request'

type Wake = (mayBeDue: boolean, mayHaveRequests: boolean) => void

export class Bell implements Guest {
  readonly #connections: Connections
  readonly #session: Session
  readonly #channel: string
  readonly #wakes = new Set<Wake>()
  readonly #wired = new WeakSet<SessionClient>()
  #client: SessionClient | null = null
  #isHeard = false
  /** LISTEN was accepted but nothing arrived: a retry is useless. */
  #isDeaf = false
  #isClosed = false
  #poll: NodeJS.Timeout | null = null
  #quiet: NodeJS.Timeout | null = null
  /** Null: nothing to notify; else whether anything may be due. */
  #untold: boolean | null = null

  constructor(connections: Connections, session: Session, channel: string) {
    this.#connections = connections
    this.#session = session
    this.#channel = channel
  }

  listen(wake: (mayBeDue?: boolean, mayHaveRequests?: boolean) => void): () => void {
    // A wrapper, so that the same function may listen twice.
    const own: Wake = (mayBeDue, mayHaveRequests) => wake(mayBeDue, mayHaveRequests)
    this.#wakes.add(own)
    this.#startPolling()
    if (!this.#client && !this.#isDeaf) this.#session.join(this)
    return () => {
      this.#wakes.delete(own)
      if (this.#wakes.size === 0) this.#hangUp()
    }
  }

  /** Immediate for the listeners of this store; for other processes at most every few milliseconds. */
  ring(mayBeDue: boolean): void {
    if (this.#isClosed) return
    queueMicrotask(() => this.#wakeAll(mayBeDue, false))
    if (this.#quiet) {
      this.#untold = this.#untold === true || mayBeDue
      return
    }
    this.#untold = null
    this.#quiet = setTimeout(() => {
      this.#quiet = null
      if (this.#untold !== null) this.ring(this.#untold)
    }, quietMs)
    this.#quiet.unref()
    const payload = mayBeDue ? '' : nothingDue
    this.#connections.rows('SELECT pg_notify($1, $2)', [this.#channel, payload], 'unsafe').catch(ignore)
  }

  async settle(client: SessionClient): Promise<void> {
    if (!this.#wired.has(client))
      client.onNotification(({ payload }) => this.#client === client && this.#onNotification(payload))
    this.#wired.add(client)
    this.#client = client
    await client.query({ text: `LISTEN ${this.#channel}` })
    // Checks that our own notification arrives: behind a pooler LISTEN succeeds, but nothing ever arrives.
    await client.query({ text: `NOTIFY ${this.#channel}` })
    setTimeout(() => this.#checkHearing(client), probeMs).unref()
  }

  unsettle(): void {
    this.#client = null
    this.#isHeard = false
    if (!this.#isClosed && this.#wakes.size > 0) this.#startPolling()
  }

  close(): void {
    this.#isClosed = true
    this.#wakes.clear()
    if (this.#quiet) clearTimeout(this.#quiet)
    this.#hangUp()
  }

  #wakeAll(mayBeDue: boolean, mayHaveRequests: boolean): void {
    if (this.#isClosed) return
    for (const wake of [...this.#wakes]) wake(mayBeDue, mayHaveRequests)
  }

  #checkHearing(client: SessionClient): void {
    if (this.#isHeard || this.#client !== client) return
    this.#isDeaf = true
    this.#session.leave(this)
    this.unsettle()
  }

  #onNotification(payload: string | undefined): void {
    this.#isHeard = true
    this.#stopPolling()
    const isRequest = payload === newRequest
    this.#wakeAll(!isRequest && payload !== nothingDue, isRequest)
  }

  #hangUp(): void {
    this.#stopPolling()
    const client = this.#client
    this.#session.leave(this)
    this.#client = null
    this.#isHeard = false
    // The session may stay open for another guest.
    client?.query({ text: `UNLISTEN ${this.#channel}` }).catch(ignore)
  }

  #startPolling(): void {
    if (this.#isHeard) return
    this.#poll ??= setInterval(() => this.#wakeAll(true, true), pollMs)
    this.#poll.unref()
  }

  #stopPolling(): void {
    if (this.#poll) clearInterval(this.#poll)
    this.#poll = null
  }
}

function ignore(): void {}
