// Reads an external queue for a job: receives within the prefetch limit, extends the hold of its messages, acknowledges those
// whose items are durable, releases those that are given up, and connects again while the broker is unavailable. The order of
// acts:
//   1. receive   2. the item runs   3. its record is durable in history   4. acknowledge
// A crash after 1, 2 or 3 leaves the message in the queue; after 3, the next delivery finds the key finished and goes to 4.

import { RepriseError } from '../../../core/errors.ts'
import { growingPause } from '../../../core/retry/pause.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import { Condition, sleep, within } from '../../../lib/waiting.ts'
import type { Chunk, ReadContext, Reader } from '../source.ts'
import { itemOrError } from './decoding.ts'
import { DeliveryOutbox } from './delivery-outbox.ts'
import type { Delivery, ExternalQueue, QueueConnection } from './external-queue.ts'
import { HeldMessage, messagePrint } from './held-message.ts'

export interface QueueSettings<Message, T> {
  readonly decode: ((message: Message) => T) | null
  readonly untilEmptyMs: number | null
  readonly prefetch: number | null
  readonly awayMs: number
}

const receiveMax = 512
const prefetchMin = 16
/** How long one request for messages waits at the broker. */
const waitMs = 20_000
/** The same while the queue is empty and messages are still held. */
const heldWaitMs = 1000
const firstPauseMs = 50
const longestPauseMs = 2000
/** How long the end of a run waits for the last acknowledgements, and then for the connection to close. */
const endWithinMs = 5000
/** Extensions per hold time: one of them may fail. */
const extensionsPerHold = 3
const awayHint =
  'Nothing is lost: the messages that were not acknowledged stay in the queue. Check that the broker runs, and run the job again.'

export class QueueReader<Message, T> implements Reader<T> {
  readonly #queue: ExternalQueue<Message>
  readonly #settings: QueueSettings<Message, T>
  readonly #context: ReadContext
  readonly #host: Host
  readonly #prefetch: number
  readonly #held = new Set<HeldMessage<Message>>()
  readonly #changed = new Condition()
  /** Aborted when nothing more is received. */
  readonly #reading = new AbortController()
  readonly #acknowledged: DeliveryOutbox<Message>
  readonly #given: DeliveryOutbox<Message>
  readonly #onAbort = () => this.#stopReading()
  #connection: Promise<QueueConnection<Message>> | null = null
  #stopExtending: (() => void) | null = null
  #failure: { readonly error: unknown } | null = null
  #emptySince: number | null = null
  #ended: Promise<void> | null = null
  #isClosed = false

  constructor(queue: ExternalQueue<Message>, settings: QueueSettings<Message, T>, context: ReadContext) {
    this.#queue = queue
    this.#settings = settings
    this.#context = context
    this.#host = hostOf(context.engine)
    this.#prefetch = settings.prefetch ?? Math.max(2 * (context.slots ?? 1), prefetchMin)
    this.#acknowledged = new DeliveryOutbox(
      async (held) => {
        await this.#patiently('acknowledge messages', (to) => to.acknowledge(held.map(({ delivery }) => delivery)))
        this.#forget(held)
      },
      (error) => this.#fail(error),
    )
    this.#given = new DeliveryOutbox(
      async (held) => {
        // If it fails, the broker delivers them again by itself, later.
        if (this.#isClosed) return
        const used = this.#connected()
        try {
          await (await used).release(held.map(({ delivery }) => delivery))
        } catch (error) {
          this.#disconnect(used)
          throw error
        } finally {
          this.#forget(held)
        }
      },
      (error) => this.#report(error),
    )
    context.signal.addEventListener('abort', this.#onAbort, { once: true })
    if (context.signal.aborted) this.#stopReading()
  }

  async next(): Promise<Chunk<T> | null> {
    while (!this.#isOff) {
      await this.#changed.until(() => this.#held.size < this.#prefetch || this.#isOff)
      if (this.#isOff) break
      const max = Math.min(receiveMax, this.#prefetch - this.#held.size)
      const askedAt = this.#host.clock.elapsed()
      const received = await this.#patiently('receive messages', (from) =>
        from.receive(max, this.#waitMs(), this.#reading.signal),
      ).catch(this.#whileOpen)
      if (received.length > 0) {
        this.#emptySince = null
        return this.#chunkOf(received)
      }
      if (this.#isDrained(askedAt)) return null
    }
    if (this.#failure) throw this.#failure.error
    return null
  }

  /** The end of a run closes the connection, also under a request for messages: that request has not failed. */
  readonly #whileOpen = (error: unknown): readonly Delivery<Message>[] => {
    if (this.#ended) return []
    throw error
  }

  /** Releases the messages still held, waits for the last acknowledgements, and disconnects. */
  close(): Promise<void> {
    this.#ended ??= this.#end()
    return this.#ended
  }

  async #end(): Promise<void> {
    this.#stopReading()
    this.#context.signal.removeEventListener('abort', this.#onAbort)
    for (const held of this.#held) held.released()
    const { clock } = this.#host
    const sent = Promise.all([this.#acknowledged.sent(), this.#given.sent()])
    await within(
      clock,
      endWithinMs,
      sent.then(() => undefined),
    )
    this.#isClosed = true
    this.#stopExtending?.()
    const connection = this.#connection
    this.#connection = null
    if (connection) await within(clock, endWithinMs, closeQuietly(connection))
  }

  get #isOff(): boolean {
    return this.#failure !== null || this.#reading.signal.aborted
  }

  /** Messages that have not become tasks go back at once; those in flight are settled first. */
  #stopReading(): void {
    this.#reading.abort()
    for (const held of this.#held) if (!held.isTaken) held.released()
    this.#changed.changed()
  }

  #fail(error: unknown): void {
    if (this.#ended) {
      this.#report(error)
      return
    }
    this.#failure ??= { error }
    this.#reading.abort()
    this.#changed.changed()
  }

  #report(error: unknown): void {
    this.#host.events.emit('problem', { where: `${this.#context.timeline} ${this.#queue.name}`, error })
  }

  #forget(held: readonly HeldMessage<Message>[]): void {
    for (const each of held) this.#held.delete(each)
    this.#changed.changed()
  }

  #waitMs(): number {
    const { untilEmptyMs } = this.#settings
    if (untilEmptyMs === null) return waitMs
    const emptyMs = this.#emptySince === null ? 0 : this.#host.clock.elapsed() - this.#emptySince
    const leftMs = untilEmptyMs - emptyMs
    return leftMs > 0 ? Math.min(waitMs, leftMs) : heldWaitMs
  }

  /** The queue has been empty for the stated time, and this process holds none of its messages. */
  #isDrained(askedAt: number): boolean {
    const { untilEmptyMs } = this.#settings
    if (untilEmptyMs === null || this.#isOff) return false
    this.#emptySince ??= askedAt
    return this.#held.size === 0 && this.#host.clock.elapsed() - this.#emptySince >= untilEmptyMs
  }

  #chunkOf(received: readonly Delivery<Message>[]): Chunk<T> {
    const items: T[] = []
    const unread = new Map<number, unknown>()
    const receipts = received.map((delivery, i) => {
      const key = delivery.id ?? messagePrint(delivery.message)
      const held = new HeldMessage(delivery, key, { settled: this.#settled, released: this.#released })
      this.#held.add(held)
      const read = itemOrError(this.#settings.decode, delivery.message)
      items.push(read.item)
      if ('error' in read) unread.set(i, read.error)
      // It arrived after the job had stopped reading.
      if (this.#isOff) held.released()
      return held
    })
    return { items, receipts, ...(unread.size > 0 && { unread }) }
  }

  readonly #settled = (held: HeldMessage<Message>): void => this.#acknowledged.add(held)
  readonly #released = (held: HeldMessage<Message>): void => this.#given.add(held)

  #connected(): Promise<QueueConnection<Message>> {
    this.#connection ??= this.#connect()
    return this.#connection
  }

  async #connect(): Promise<QueueConnection<Message>> {
    const connection = await this.#queue.connect({ job: nameIn(this.#context.timeline), prefetch: this.#prefetch })
    this.#stopExtending?.()
    if (connection.holdMs !== null) this.#stopExtending = this.#extendEvery(connection, connection.holdMs)
    return connection
  }

  /** Connects again and repeats the work while the broker is unavailable. */
  async #patiently<R>(what: string, work: (connection: QueueConnection<Message>) => Promise<R>): Promise<R> {
    const { clock } = this.#host
    const { awayMs } = this.#settings
    let since: number | null = null
    for (let attempt = 1; ; attempt++) {
      if (this.#isClosed) throw new RepriseError('CLOSED', `${this.#queue.name} was closed`)
      const used = this.#connected()
      try {
        return await work(await used)
      } catch (error) {
        this.#disconnect(used)
        if (this.#ended || !this.#queue.isAway(error)) throw error
        if (since === null) this.#report(error)
        since ??= clock.elapsed()
        if (clock.elapsed() - since >= awayMs) throw awayError(this.#queue.name, what, awayMs, error)
        await sleep(clock, growingPause(attempt, firstPauseMs, longestPauseMs))
      }
    }
  }

  /** Another request may have replaced the connection already. */
  #disconnect(used: Promise<QueueConnection<Message>>): void {
    if (this.#connection !== used) return
    this.#connection = null
    this.#stopExtending?.()
    this.#stopExtending = null
    void closeQuietly(used)
  }

  #extendEvery(connection: QueueConnection<Message>, holdMs: number): () => void {
    let cancel = () => {}
    const again = () => {
      cancel = this.#host.clock.after(holdMs / extensionsPerHold, () => void extend())
    }
    const extend = async () => {
      const held = [...this.#held].filter(({ isOver }) => !isOver).map(({ delivery }) => delivery)
      try {
        if (held.length > 0) await connection.extend(held)
      } catch (error) {
        // A delivery that expires arrives again, and joins its item in flight.
        if (!this.#queue.isAway(error)) this.#report(error)
      }
      if (!isStopped) again()
    }
    let isStopped = false
    again()
    return () => {
      isStopped = true
      cancel()
    }
  }
}

/** The name of the job in the id of its timeline. */
function nameIn(timeline: string): string {
  return timeline.slice(timeline.indexOf('/') + 1)
}

async function closeQuietly(connection: Promise<{ close(): Promise<void> }>): Promise<void> {
  try {
    await (await connection).close()
  } catch {
    // The connection has failed already.
  }
}

function awayError(queue: string, what: string, awayMs: number, cause: unknown): RepriseError {
  const last = cause instanceof Error ? cause.message : String(cause)
  const text = `${queue}: no broker could ${what} for ${awayMs} ms (awayFor), the last error was "${last}"`
  return new RepriseError('BROKER_AWAY', text, { awayMs }, cause, awayHint)
}
