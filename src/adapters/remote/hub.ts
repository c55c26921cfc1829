// Tasks in this process that wait for outside workers: steps and items offer them, workers hold them for a time, and the hub
// takes them back without a sign of life. They are kept in memory: the history of the run or job records the request and
// repeats it under the same key, and the server stores a worker's result before it is settled here.

import { randomBytes } from 'node:crypto'
import { assert } from '../../core/assert.ts'
import { GiveUp } from '../../core/calls/retry.ts'
import { RepriseError } from '../../core/errors.ts'

/** After this many workers took a task and disappeared, the attempt fails: the task may be what kills them. */
const lostMax = 5
/** Number of settled tasks that are remembered, for workers that did not get the answer. */
const settledMax = 10_000

export interface Offer {
  readonly queue: string
  readonly key: string
  readonly attempt: number
  readonly traceparent?: string | undefined
  readonly input: unknown
  readonly signal: AbortSignal
  beat(details: unknown): Promise<void>
}

export type Outcome =
  | { readonly kind: 'done'; readonly result: unknown }
  | { readonly kind: 'failed'; readonly message: string; readonly mayRetry: boolean }

export interface Task extends Pick<Offer, 'queue' | 'key' | 'attempt' | 'traceparent' | 'input'> {
  readonly id: string
  /** Number of workers that had it before. */
  readonly lost: number
}

interface Held {
  readonly offer: Offer
  /** A new id for each worker that has the task: results of earlier ones are refused. */
  id: string
  lost: number
  timer: NodeJS.Timeout | null
  end(outcome: Outcome | RepriseError): void
}

interface Queue {
  readonly waiting: Set<Held>
  readonly claimed: Map<string, Held>
  readonly polls: Set<() => void>
}

export interface ClaimOptions {
  readonly max: number
  readonly ttlMs: number
  readonly waitMs: number
  readonly signal: AbortSignal
}

export class Hub {
  readonly #queues = new Map<string, Queue>()
  readonly #settled = new Set<string>()

  /** Resolves with a worker's result; rejects with its failure, or when the signal fires. */
  offer(offer: Offer): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const queue = this.#queue(offer.queue)
      const abort = () =>
        held.end(new RepriseError('ABORTED', 'the caller no longer waits for it', {}, offer.signal.reason))
      const held: Held = {
        offer,
        id: '',
        lost: 0,
        timer: null,
        end: (outcome) => {
          clearTimeout(held.timer ?? undefined)
          offer.signal.removeEventListener('abort', abort)
          queue.waiting.delete(held)
          queue.claimed.delete(held.id)
          this.#forget(offer.queue)
          if (outcome instanceof RepriseError) reject(outcome)
          else if (outcome.kind === 'done') resolve(outcome.result)
          else reject(outcome.mayRetry ? new Error(outcome.message) : new GiveUp(outcome.message))
        },
      }
      offer.signal.addEventListener('abort', abort, { once: true })
      if (offer.signal.aborted) return abort()
      this.#wait(queue, held)
    })
  }

  /** Up to `max` waiting tasks; waits for the first one. Without a sign of life within `ttlMs` another worker gets the task. */
  async claim(name: string, { max, ttlMs, waitMs, signal }: ClaimOptions): Promise<Task[]> {
    const queue = this.#queue(name)
    if (queue.waiting.size === 0 && waitMs > 0) await this.#news(queue, waitMs, signal)
    const tasks: Task[] = []
    for (const held of queue.waiting) {
      if (tasks.length >= max || signal.aborted) break
      queue.waiting.delete(held)
      assert(!queue.claimed.has(held.id), 'what waits is lent to nobody')
      held.id = randomBytes(12).toString('hex')
      queue.claimed.set(held.id, held)
      this.#lend(queue, held, ttlMs)
      tasks.push(shown(held))
    }
    this.#forget(name)
    return tasks
  }

  /** Renews the tasks that this worker still has and returns their ids; it need not finish the others. */
  async beat(name: string, ids: readonly string[], ttlMs: number, details?: unknown): Promise<readonly string[]> {
    const queue = this.#queue(name)
    const alive: string[] = []
    for (const id of ids) {
      // Looked up one by one: during the beat of one task, another may be settled or aborted.
      const held = queue.claimed.get(id)
      if (!held) continue
      alive.push(id)
      this.#lend(queue, held, ttlMs)
      await held.offer.beat(details)
    }
    this.#forget(name)
    return alive
  }

  /** A task that a worker has, or null: it was taken back, ended, or belongs to another process. */
  find(name: string, id: string): Task | null {
    const held = this.#queues.get(name)?.claimed.get(id)
    return held ? shown(held) : null
  }

  wasSettled(id: string): boolean {
    return this.#settled.has(id)
  }

  settle(name: string, id: string, outcome: Outcome): void {
    const held = this.#queues.get(name)?.claimed.get(id)
    this.#settled.add(id)
    if (this.#settled.size > settledMax) this.#settled.delete(this.#settled.values().next().value!)
    held?.end(outcome)
  }

  list(): { readonly queue: string; readonly waiting: number; readonly claimed: number }[] {
    return [...this.#queues].map(([queue, { waiting, claimed }]) => {
      return { queue, waiting: waiting.size, claimed: claimed.size }
    })
  }

  #queue(name: string): Queue {
    const queue = this.#queues.get(name) ?? { waiting: new Set(), claimed: new Map(), polls: new Set() }
    this.#queues.set(name, queue)
    return queue
  }

  /** Removes empty queues: their names come from outside. */
  #forget(name: string): void {
    const queue = this.#queues.get(name)
    if (queue && queue.waiting.size + queue.claimed.size + queue.polls.size === 0) this.#queues.delete(name)
  }

  #wait(queue: Queue, held: Held): void {
    this.#queues.set(held.offer.queue, queue)
    queue.waiting.add(held)
    for (const wake of [...queue.polls]) wake()
  }

  #lend(queue: Queue, held: Held, ttlMs: number): void {
    clearTimeout(held.timer ?? undefined)
    held.timer = setTimeout(() => {
      queue.claimed.delete(held.id)
      held.lost += 1
      if (held.lost < lostMax) this.#wait(queue, held)
      else
        held.end({ kind: 'failed', message: `${lostMax} workers took it and were not heard of again`, mayRetry: true })
    }, ttlMs)
    held.timer.unref()
  }

  #news(queue: Queue, waitMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', wake)
        queue.polls.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, waitMs)
      signal.addEventListener('abort', wake, { once: true })
      queue.polls.add(wake)
      if (signal.aborted) wake()
    })
  }
}

function shown({ id, lost, offer: { queue, key, attempt, traceparent, input } }: Held): Task {
  return { id, queue, key, attempt, traceparent, input, lost }
}

/** One per process: definitions do not know a server. */
export const hub = new Hub()
