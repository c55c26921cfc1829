// Telling others that something may be due or readable. A NOTIFY inside a commit would make all commits of the cluster
// queue up behind one lock, fsync included. So it goes out after the commit, in a transaction of its own that writes
// nothing, and many commits share one. It may be lost; listeners poll as well.
//
// Listening takes one connection of its own, opened for the first listener. Where notifications do not come through (a
// pooler in transaction mode), a timer wakes the listeners instead.

import type { Connections } from './connect.ts'
import type { DriverClient } from './driver.ts'

const quietMs = 20
const pollMs = 500
const probeMs = 2000
const reconnectMs = 1000

export class Bell {
  readonly #connections: Connections
  readonly #channel: string
  readonly #wakes = new Set<() => void>()
  #client: DriverClient | null = null
  #isHeard = false
  /** Nothing came through although LISTEN was accepted: there is no use in trying again. */
  #isDeaf = false
  #isClosed = false
  #isOpening = false
  #poll: NodeJS.Timeout | null = null
  #quiet: NodeJS.Timeout | null = null
  #isRingDue = false

  constructor(connections: Connections, channel: string) {
    this.#connections = connections
    this.#channel = channel
  }

  listen(wake: () => void): () => void {
    // A wrapper, so that the same function may listen twice.
    const own = () => wake()
    this.#wakes.add(own)
    this.#startPolling()
    void this.#open()
    return () => {
      this.#wakes.delete(own)
      if (this.#wakes.size === 0) this.#hangUp()
    }
  }

  /** At once for the listeners of this store; for others at most every few milliseconds. */
  ring(): void {
    if (this.#isClosed) return
    queueMicrotask(() => this.#wakeAll())
    if (this.#quiet) {
      this.#isRingDue = true
      return
    }
    this.#isRingDue = false
    this.#quiet = setTimeout(() => {
      this.#quiet = null
      if (this.#isRingDue) this.ring()
    }, quietMs)
    this.#quiet.unref()
    this.#connections.rows('SELECT pg_notify($1, $2)', [this.#channel, ''], 'unsafe').catch(ignore)
  }

  close(): void {
    this.#isClosed = true
    this.#wakes.clear()
    if (this.#quiet) clearTimeout(this.#quiet)
    this.#hangUp()
  }

  #wakeAll(): void {
    if (this.#isClosed) return
    for (const wake of [...this.#wakes]) wake()
  }

  async #open(): Promise<void> {
    if (this.#client || this.#isOpening || this.#isClosed || this.#isDeaf) return
    this.#isOpening = true
    const client = new this.#connections.driver.Client(this.#connections.driverConfig)
    client.on('error', () => this.#lost(client))
    client.on('end', () => this.#lost(client))
    client.on('notification', () => this.#heard())
    try {
      await client.connect()
      await client.query({ text: `LISTEN ${this.#channel}` })
      // Do we hear ourselves? Behind a pooler LISTEN succeeds and nothing ever comes.
      await client.query({ text: `NOTIFY ${this.#channel}` })
      this.#client = client
    } catch {
      client.end().catch(ignore)
    } finally {
      this.#isOpening = false
    }
    if (this.#wakes.size === 0 || this.#isClosed) this.#hangUp()
    else if (this.#client === client) setTimeout(() => this.#checkHearing(client), probeMs).unref()
  }

  #checkHearing(client: DriverClient): void {
    if (this.#isHeard || this.#client !== client) return
    this.#isDeaf = true
    this.#lost(client)
  }

  #heard(): void {
    this.#isHeard = true
    this.#stopPolling()
    this.#wakeAll()
  }

  #lost(client: DriverClient): void {
    if (this.#client !== client) return
    this.#hangUp()
    if (this.#isClosed || this.#wakes.size === 0) return
    this.#startPolling()
    setTimeout(() => this.#wakes.size > 0 && void this.#open(), reconnectMs).unref()
  }

  #hangUp(): void {
    this.#stopPolling()
    const client = this.#client
    this.#client = null
    this.#isHeard = false
    client?.end().catch(ignore)
  }

  #startPolling(): void {
    if (this.#isHeard) return
    this.#poll ??= setInterval(() => {
      this.#wakeAll()
      void this.#open()
    }, pollMs)
    this.#poll.unref()
  }

  #stopPolling(): void {
    if (this.#poll) clearInterval(this.#poll)
    this.#poll = null
  }
}

function ignore(): void {}
