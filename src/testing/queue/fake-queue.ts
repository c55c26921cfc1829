// A queue in memory with the behaviour of a broker: hold times, redelivery, connections that end, and a broker that becomes
// unavailable. For tests of jobs over queues, without a server.

import type { Delivery, ExternalQueue, QueueConnection } from '../../layers/job/index.ts'
import { Condition, realTime, sleep } from '../../lib/waiting.ts'

export interface FakeMessage {
  readonly value: Uint8Array
}

interface Stored {
  readonly id: string
  readonly message: FakeMessage
  deliveries: number
  /** Held until this moment; 0: available. */
  heldUntil: number
  /** The receipt that may acknowledge it. */
  receipt: number
}

export interface FakeQueueOptions {
  /** How long a delivery is held, in milliseconds. Null: until its connection ends. Default: null. */
  readonly holdMs?: number | null
}

class BrokerAway extends Error {
  override readonly name: string = 'BrokerAway'
}

export class FakeQueue implements ExternalQueue<FakeMessage> {
  readonly kind = 'fake'
  readonly name = 'the fake queue'
  readonly #holdMs: number | null
  readonly #messages = new Map<string, Stored>()
  readonly #changed = new Condition()
  #sent = 0
  #receipts = 0
  #broken = 0
  #isAway = false

  constructor({ holdMs = null }: FakeQueueOptions = {}) {
    this.#holdMs = holdMs
  }

  /** The number of messages that were not acknowledged. */
  get size(): number {
    return this.#messages.size
  }

  send(texts: readonly string[]): void {
    for (const text of texts) {
      this.#sent += 1
      const id = `m-${this.#sent}`
      const message = { value: new TextEncoder().encode(text) }
      this.#messages.set(id, { id, message, deliveries: 0, heldUntil: 0, receipt: 0 })
    }
    this.#changed.changed()
  }

  /** The broker stops: connections break, and requests fail until `comeBack`. Messages are kept. */
  goAway(): void {
    this.#isAway = true
    this.#broken += 1
    if (this.#holdMs === null) for (const each of this.#messages.values()) each.heldUntil = 0
    this.#changed.changed()
  }

  comeBack(): void {
    this.#isAway = false
  }

  isAway(error: unknown): boolean {
    return error instanceof BrokerAway
  }

  async connect(): Promise<QueueConnection<FakeMessage>> {
    if (this.#isAway) throw new BrokerAway('the fake broker is away')
    const era = this.#broken
    const own = new Map<string, number>()
    let isClosed = false
    const check = () => {
      if (isClosed || this.#isAway || era !== this.#broken) throw new BrokerAway('the connection is broken')
    }
    const each = (deliveries: readonly Delivery<FakeMessage>[], change: (stored: Stored) => void) => {
      check()
      for (const { id, receipt } of deliveries) {
        const stored = this.#messages.get(id!)
        if (stored && stored.receipt === receipt && stored.heldUntil > this.#now()) change(stored)
      }
    }
    return {
      holdMs: this.#holdMs,
      receive: async (max, waitMs, signal) => {
        check()
        const until = this.#now() + waitMs
        for (;;) {
          const taken = this.#take(max)
          for (const { id, receipt } of taken) own.set(id!, receipt as number)
          if (taken.length > 0 || signal.aborted || this.#now() >= until) return taken
          await this.#moment(Math.min(until - this.#now(), this.#nextMs()), signal)
          check()
        }
      },
      acknowledge: async (deliveries) => each(deliveries, ({ id }) => void this.#messages.delete(id)),
      extend: async (deliveries) =>
        each(deliveries, (stored) => {
          stored.heldUntil = this.#holdEnd()
        }),
      release: async (deliveries) => {
        each(deliveries, (stored) => {
          stored.heldUntil = 0
        })
        this.#changed.changed()
      },
      close: async () => {
        isClosed = true
        if (this.#holdMs !== null) return
        for (const [id, receipt] of own) {
          const stored = this.#messages.get(id)
          if (stored?.receipt === receipt) stored.heldUntil = 0
        }
        this.#changed.changed()
      },
    }
  }

  #take(max: number): Delivery<FakeMessage>[] {
    const taken: Delivery<FakeMessage>[] = []
    for (const stored of this.#messages.values()) {
      if (taken.length === max) break
      if (stored.heldUntil > this.#now()) continue
      this.#receipts += 1
      stored.receipt = this.#receipts
      stored.heldUntil = this.#holdEnd()
      stored.deliveries += 1
      const { id, message, receipt } = stored
      taken.push({ id, message, receipt, isRedelivered: stored.deliveries > 1 })
    }
    return taken
  }

  #holdEnd(): number {
    return this.#holdMs === null ? Number.POSITIVE_INFINITY : this.#now() + this.#holdMs
  }

  /** The time until the first hold ends. */
  #nextMs(): number {
    let next = Number.POSITIVE_INFINITY
    for (const { heldUntil } of this.#messages.values()) next = Math.min(next, heldUntil - this.#now())
    return Math.max(1, next)
  }

  async #moment(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController()
    const wake = () => woken.abort()
    signal.addEventListener('abort', wake, { once: true })
    let isFirst = true
    void this.#changed.until(() => {
      // The first check happens at once: only a later change counts.
      if (!isFirst) wake()
      isFirst = false
      return woken.signal.aborted
    })
    await sleep(realTime, Math.min(ms, 0x7fff_ffff), { signal: woken.signal })
    wake()
    signal.removeEventListener('abort', wake)
  }

  #now(): number {
    return performance.now()
  }
}
