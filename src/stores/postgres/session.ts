// The store's own connection, for everything that lives as long as a session: notifications, and the lock that proves
// that this process is alive. Opened for the first guest, reopened when it breaks, closed when the last guest leaves.
// It does not keep the process alive.

import type { Connections } from './connect.ts'
import type { DriverClient, QueryConfig, QueryResult } from './driver.ts'

/** The session as guests use it: their statements wait for each other. */
export interface SessionClient {
  readonly processID: number | null
  query(query: QueryConfig): Promise<QueryResult>
  onNotification(call: (message: { readonly payload?: string }) => void): void
}

export interface Guest {
  /** Called with a new session. If this rejects, the session is closed and another one tried. */
  settle(client: SessionClient): Promise<void>
  /** The guest's session broke. */
  unsettle(): void
}

const firstPauseMs = 100
const longestPauseMs = 1000

export class Session {
  readonly #connections: Connections
  readonly #guests = new Set<Guest>()
  readonly #settled = new Set<Guest>()
  #client: DriverClient | null = null
  #shown: SessionClient | null = null
  #isOpening = false
  #isClosed = false
  #failures = 0
  #retry: NodeJS.Timeout | null = null

  constructor(connections: Connections) {
    this.#connections = connections
  }

  join(guest: Guest): void {
    this.#guests.add(guest)
    if (this.#client) void this.#settle(this.#client, this.#shown!)
    else void this.#open()
  }

  leave(guest: Guest): void {
    this.#guests.delete(guest)
    this.#settled.delete(guest)
    if (this.#guests.size === 0) this.#end()
  }

  close(): void {
    this.#isClosed = true
    this.#guests.clear()
    this.#end()
  }

  async #open(): Promise<void> {
    if (this.#client || this.#isOpening || this.#isClosed) return
    this.#isOpening = true
    const client = this.#connections.newClient({ keepAliveInitialDelayMillis: 2000 })
    client.on('error', () => this.#lost(client))
    client.on('end', () => this.#lost(client))
    try {
      await client.connect()
      client.unref?.()
      this.#client = client
      this.#shown = show(client)
    } catch {
      client.end().catch(ignore)
    } finally {
      this.#isOpening = false
    }
    if (this.#guests.size === 0) this.#end()
    else if (this.#client === client) await this.#settle(client, this.#shown!)
    else this.#openLater()
  }

  async #settle(client: DriverClient, shown: SessionClient): Promise<void> {
    try {
      for (const guest of [...this.#guests]) {
        if (this.#settled.has(guest) || this.#client !== client) continue
        this.#settled.add(guest)
        await guest.settle(shown)
      }
      if (this.#client === client) this.#failures = 0
    } catch {
      this.#lost(client)
    }
  }

  #lost(client: DriverClient): void {
    if (this.#client !== client) return
    const guests = [...this.#settled]
    this.#end()
    for (const guest of guests) guest.unsettle()
    if (this.#guests.size > 0) this.#openLater()
  }

  #openLater(): void {
    if (this.#isClosed || this.#retry) return
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 1.5 ** Math.min(this.#failures, 10))
    this.#failures += 1
    this.#retry = setTimeout(() => {
      this.#retry = null
      if (this.#guests.size > 0) void this.#open()
    }, pauseMs)
    this.#retry.unref()
  }

  #end(): void {
    if (this.#retry) clearTimeout(this.#retry)
    this.#retry = null
    this.#settled.clear()
    const client = this.#client
    this.#client = null
    this.#shown = null
    client?.end().catch(ignore)
  }
}

function show(client: DriverClient): SessionClient {
  let last: Promise<unknown> = Promise.resolve()
  return {
    processID: client.processID ?? null,
    query(query) {
      const answer = last.then(() => client.query(query))
      last = answer.catch(ignore)
      return answer
    },
    onNotification: (call) => client.on('notification', call),
  }
}

function ignore(): void {}
