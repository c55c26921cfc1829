// Tasks for outside workers, in the store: each task is a small timeline while its step or item waits, and its result is
// another, kept for a day. Every process of the store may offer, assign, extend and settle tasks, so no task depends on the
// server that assigned it. A claim takes the timeline under a new epoch, which is part of the id that the worker gets, and
// releases it at once with a wakeup at the end of the worker's time: without a sign of life the task is then due again.

import { createHash, randomBytes } from 'node:crypto'
import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { GiveUp } from '../../core/retry/retry.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { Mutexes, sleep } from '../../lib/waiting.ts'

/** After this many workers took a task and disappeared, the attempt fails: the task may be what kills them. */
const lostMax = 5
const detailsMax = 2000
/** A claim that waits looks at least this often, because notifications of the store may be missed. */
const pollMs = 500
/** Settled tasks are looked for at most this often, and all tasks are compared with the store at least this often. */
const settledMs = 25
const compareMs = 1000
const headsAtOnce = 500
const tasksScope = 'reprise/requests/tasks/'
const outcomesScope = 'reprise/requests/outcomes/'

export interface Offer {
  readonly queue: string
  readonly key: string
  readonly attempt: number
  readonly traceparent?: string | undefined
  readonly input: unknown
  readonly signal: AbortSignal
  /** When the signal fires, a worker that has the task may still settle it, for the next call under this key. */
  readonly keepsClaimed?: boolean
  beat(details: unknown): Promise<void>
}

export type Outcome =
  | { readonly kind: 'done'; readonly result: unknown }
  | { readonly kind: 'failed'; readonly message: string; readonly mayRetry: boolean }

export interface Task extends Pick<Offer, 'queue' | 'key' | 'attempt' | 'traceparent' | 'input'> {
  /** A new one for each worker that has the task. */
  readonly id: string
  /** Number of workers that had it before. */
  readonly lost: number
}

export interface ClaimOptions {
  readonly max: number
  readonly ttlMs: number
  readonly waitMs: number
  readonly signal: AbortSignal
}

export interface QueueFigures {
  readonly queue: string
  readonly waiting: number
  readonly claimed: number
}

type Stored = Pick<Offer, 'queue' | 'key' | 'attempt' | 'traceparent' | 'input'>

/** The first entry is the whole content. */
const fold: Fold<unknown> = {
  version: 'remote/1',
  initial: () => null,
  apply: (state, { data }) => state ?? data,
}

interface Waiting {
  readonly offer: Offer
  readonly id: TimelineId
  /** Number of heartbeats passed on. */
  beats: number
  isOver: boolean
  end(outcome: Outcome | Error): void
}

export class Board {
  readonly #host: Host
  /** Names the tasks of this process, so that only it withdraws them. */
  readonly #by = randomBytes(8).toString('hex')
  readonly #waiting = new Map<TimelineId, Waiting>()
  /** Publishing and withdrawing one task are serialized. */
  readonly #mutexes = new Mutexes()
  readonly #polls = new Set<() => void>()
  #unlisten: (() => void) | null = null
  #cancelLook: (() => void) | null = null
  #lookAt = Number.POSITIVE_INFINITY
  #isLooking = false
  #mustLookAgain = false
  #comparedAt = 0
  #hasStrays = false
  #isHeld = false

  constructor(host: Host) {
    this.#host = host
    host.onClose(async () => this.#close())
  }

  /** Resolves with a worker's result; rejects with its failure, or when the signal fires. */
  offer(offer: Offer): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = taskAt(offer.queue, digestOf(offer.key))
      const abort = () => {
        waiting.end(new RepriseError('ABORTED', 'the caller no longer waits for it', {}, offer.signal.reason))
        void this.#mutexes.run(id, () => this.#withdraw(waiting)).catch(() => undefined)
      }
      const waiting: Waiting = {
        ...{ offer, id, beats: 0, isOver: false },
        end: (outcome) => {
          if (waiting.isOver) return
          waiting.isOver = true
          offer.signal.removeEventListener('abort', abort)
          if (this.#waiting.get(id) === waiting) this.#waiting.delete(id)
          if (outcome instanceof Error) reject(outcome)
          else if (outcome.kind === 'done') resolve(outcome.result)
          else reject(outcome.mayRetry ? new Error(outcome.message) : new GiveUp(outcome.message))
        },
      }
      offer.signal.addEventListener('abort', abort, { once: true })
      if (offer.signal.aborted) return abort()
      this.#waiting.set(id, waiting)
      this.#mutexes.run(id, () => this.#publish(waiting)).catch((error) => waiting.end(error as Error))
      this.#watch()
    })
  }

  /** Up to `max` waiting tasks; waits for the first one. Without a sign of life within `ttlMs` another worker gets the task. */
  async claim(queue: string, { max, ttlMs, waitMs, signal }: ClaimOptions): Promise<Task[]> {
    const { clock } = this.#host
    const until = clock.elapsed() + waitMs
    for (;;) {
      if (signal.aborted) return []
      const tasks = await this.#claimNow(queue, max, ttlMs)
      const leftMs = until - clock.elapsed()
      if (tasks.length > 0 || leftMs <= 0) return tasks
      await this.#news(Math.min(pollMs, leftMs), signal)
    }
  }

  /** Renews the tasks that this worker still has and returns their ids; it need not finish the others. */
  async beat(queue: string, ids: readonly string[], ttlMs: number, details?: unknown): Promise<readonly string[]> {
    const text = details === undefined ? null : JSON.stringify(details)
    if (text !== null && text.length > detailsMax) {
      throw new RepriseError('INVALID_ARGUMENT', `details must have at most ${detailsMax} characters as JSON`, {})
    }
    const alive = await Promise.all(
      ids.map(async (task) => {
        const head = await this.#held(queue, task)
        if (!head) return []
        const beats = count(head.attributes.beats) + 1
        const wakeup = this.#host.now(head.timeline) + ttlMs
        const changed = await this.#host.change(head, { wakeup, attributes: { beats, details: text } })
        if (!changed.ok) return []
        const waiting = this.#waiting.get(head.timeline)
        if (waiting) await this.#passBeat(waiting, beats, details)
        return [task]
      }),
    )
    return alive.flat()
  }

  /** Stores the outcome of a task that a worker has. False: the task was withdrawn, has ended, or never existed. */
  async settle(queue: string, task: string, outcome: Outcome): Promise<boolean> {
    const at = parsed(queue, task)
    if (!at) return false
    const head = await this.#held(queue, task)
    // The worker did not get the answer to its first report.
    if (!head) return (await this.#kept(at.done)) !== null || (await this.#kept(at.failed)) !== null
    await this.#keep(outcome.kind === 'done' ? at.done : at.failed, outcome)
    await this.#settled(head)
    return true
  }

  /** Keeps the tasks of this process when their calls are aborted: the process ends, and another one continues them. */
  hold(): void {
    this.#isHeld = true
  }

  async list(): Promise<QueueFigures[]> {
    const queues = new Map<string, { waiting: number; claimed: number }>()
    for await (const { timeline, status, wakeup } of this.#host.each({ prefix: tasksScope })) {
      if (status === 'settled') continue
      const queue = timeline.slice(tasksScope.length).split('/')[0]!
      const figures = queues.get(queue) ?? { waiting: 0, claimed: 0 }
      queues.set(queue, figures)
      if (status === 'claimed' && (wakeup ?? 0) > this.#host.now(timeline)) figures.claimed += 1
      else figures.waiting += 1
    }
    return [...queues].map(([queue, figures]) => ({ queue, ...figures }))
  }

  async #publish(waiting: Waiting): Promise<void> {
    const { id, offer } = waiting
    const { queue, key, attempt, traceparent, input } = offer
    const data: Stored = { queue, key, attempt, input, ...(traceparent !== undefined && { traceparent }) }
    while (!waiting.isOver) {
      const done = await this.#kept(doneAt(queue, digestOf(key)))
      if (done) return waiting.end(done)
      const due = { queue: queueOf(queue), wakeup: this.#host.now(id), status: 'waiting', release: true }
      const entry = { type: 'offered', data: { ...data } }
      const made = await this.#host.create(id, fold, [entry], { ...due, attributes: { by: this.#by } })
      if (made !== null) return this.#wake()
      const head = await this.#host.head(id)
      if (head?.status === 'settled') await this.#finish(waiting, head)
      // A task of a process that is gone, or of a withdrawn call: this process continues it.
      else if (head && (await this.#host.change(head, { attributes: { by: this.#by } })).ok) return
    }
  }

  /** Ends the call with the outcome of its task, which is no longer needed. */
  async #finish(waiting: Waiting, head: Head): Promise<void> {
    const digest = digestOf(waiting.offer.key)
    const { queue } = waiting.offer
    const outcome = (await this.#kept(doneAt(queue, digest))) ?? (await this.#kept(failedAt(queue, digest, head.epoch)))
    await this.#host.commit({ guard: guardOf(head), forget: true })
    if (outcome) waiting.end(outcome)
  }

  async #withdraw({ id, offer }: Waiting): Promise<void> {
    if (this.#isHeld || this.#waiting.has(id)) return
    const head = await this.#host.head(id)
    if (head?.status === 'claimed' && offer.keepsClaimed) return
    // Another process now owns the run or job, and continues its tasks.
    if (!head || head.attributes.by !== this.#by || this.#isHeld || this.#waiting.has(id)) return
    await this.#host.commit({ guard: guardOf(head), forget: true })
  }

  async #claimNow(queue: string, max: number, ttlMs: number): Promise<Task[]> {
    if (this.#hasStrays) await this.#releaseStrays(queue)
    const heads = await this.#host.claim(queueOf(queue), max).catch((error) => {
      this.#hasStrays = true
      throw error
    })
    const lent = heads.map((head) =>
      this.#lend(head, ttlMs).catch((error) => {
        this.#hasStrays = true
        throw error
      }),
    )
    const tasks = await Promise.allSettled(lent)
    const failed = tasks.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
    const lentTasks = tasks.flatMap((each) => (each.status === 'fulfilled' && each.value ? [each.value] : []))
    if (failed && lentTasks.length === 0) throw failed.reason
    return lentTasks
  }

  /** Assigns a claimed task; null if its result is known, or too many workers died with it. */
  async #lend(head: Head, ttlMs: number): Promise<Task | null> {
    const lost = count(head.attributes.lost) + (head.status === 'claimed' ? 1 : 0)
    const { state } = await this.#host.recover(head, fold)
    const { queue, key, attempt, traceparent, input } = state.value as Stored
    const digest = digestOf(key)
    // A worker's result is stored before its task is marked as settled.
    if (lost > 0 && (await this.#kept(doneAt(queue, digest)))) {
      await this.#settled(head)
      return null
    }
    if (lost >= lostMax) {
      const message = `${lostMax} workers took it and stopped responding`
      await this.#keep(failedAt(queue, digest, head.epoch), { kind: 'failed', message, mayRetry: true })
      await this.#settled(head)
      return null
    }
    const wakeup = this.#host.now(head.timeline) + ttlMs
    const changed = await this.#host.change(head, { status: 'claimed', wakeup, attributes: { lost }, release: true })
    return changed.ok ? { id: tokenOf(digest, head.epoch), queue, key, attempt, traceparent, input, lost } : null
  }

  /** The answer to a claim was lost: this process owns tasks without handing them out. */
  async #releaseStrays(queue: string): Promise<void> {
    this.#hasStrays = false
    const { id: owner } = this.#host.worker
    for await (const head of this.#host.each({ prefix: `${tasksScope}${queue}/`, owner })) {
      await this.#host.change(head, { release: true })
    }
  }

  /** Not changed if another worker has the task by now: its claim or its report finds the result. */
  async #settled(head: Head): Promise<void> {
    await this.#host.change(head, { status: 'settled', wakeup: null, release: true })
    if (this.#waiting.has(head.timeline)) this.#lookSoon(0)
  }

  /** The head of a task, if the worker with this id has it. */
  async #held(queue: string, task: string): Promise<Head | null> {
    const at = parsed(queue, task)
    const head = at && (await this.#host.head(at.id))
    return head?.status === 'claimed' && head.epoch === at!.epoch ? head : null
  }

  async #kept(id: TimelineId): Promise<Outcome | null> {
    const head = await this.#host.head(id)
    return head && ((await this.#host.recover(head, fold)).state.value as Outcome | null)
  }

  /** The first outcome under an id wins. */
  async #keep(id: TimelineId, outcome: Outcome): Promise<void> {
    const entry = { type: 'settled', data: { ...outcome } }
    await this.#host.create(id, fold, [entry], { release: true, status: 'ended' })
  }

  #watch(): void {
    this.#unlisten ??= this.#host.listen(() => this.#wake())
    this.#lookSoon(compareMs)
  }

  #wake(): void {
    for (const poll of [...this.#polls]) poll()
    if (this.#waiting.size > 0) this.#lookSoon(settledMs)
  }

  #lookSoon(delayMs: number): void {
    const { clock } = this.#host
    const at = clock.elapsed() + delayMs
    if (this.#isLooking) this.#mustLookAgain ||= delayMs < compareMs
    if (this.#isLooking || at >= this.#lookAt) return
    this.#cancelLook?.()
    this.#lookAt = at
    this.#cancelLook = clock.after(delayMs, () => {
      this.#lookAt = Number.POSITIVE_INFINITY
      this.#isLooking = true
      this.#look()
        .catch(() => undefined)
        .finally(() => {
          this.#isLooking = false
          if (this.#waiting.size > 0) this.#lookSoon(this.#mustLookAgain ? settledMs : compareMs)
          this.#mustLookAgain = false
        })
    })
  }

  /** Ends the calls whose tasks were settled, by this server or another. */
  async #look(): Promise<void> {
    const { clock } = this.#host
    for await (const head of this.#host.each({ prefix: tasksScope, status: 'settled', attributes: { by: this.#by } })) {
      const waiting = this.#waiting.get(head.timeline)
      if (waiting) await this.#finish(waiting, head)
    }
    if (clock.elapsed() - this.#comparedAt < compareMs) return
    this.#comparedAt = clock.elapsed()
    const all = [...this.#waiting.values()]
    for (let at = 0; at < all.length; at += headsAtOnce) {
      const part = all.slice(at, at + headsAtOnce)
      const heads = await this.#host.heads(part.map(({ id }) => id))
      for (const [i, head] of heads.entries()) await this.#compare(part[i]!, head)
    }
  }

  /** A task that another process withdrew or housekeeping removed is offered again. */
  async #compare(waiting: Waiting, head: Head | null): Promise<void> {
    if (!head) return await this.#mutexes.run(waiting.id, () => this.#publish(waiting))
    const { beats, details } = head.attributes
    await this.#passBeat(waiting, count(beats), typeof details === 'string' ? JSON.parse(details) : undefined)
  }

  async #passBeat(waiting: Waiting, beats: number, details: unknown): Promise<void> {
    if (beats <= waiting.beats || waiting.isOver) return
    waiting.beats = beats
    await waiting.offer.beat(details)
  }

  async #news(ms: number, signal: AbortSignal): Promise<void> {
    this.#unlisten ??= this.#host.listen(() => this.#wake())
    const woken = new AbortController()
    const wake = () => woken.abort()
    this.#polls.add(wake)
    await sleep(this.#host.clock, ms, { signal: AbortSignal.any([signal, woken.signal]) })
    this.#polls.delete(wake)
  }

  #close(): void {
    this.hold()
    this.#unlisten?.()
    this.#cancelLook?.()
    this.#wake()
  }
}

function queueOf(queue: string): string {
  return `remote/${queue}`
}

function taskAt(queue: string, digest: string): TimelineId {
  return timelineId(`${tasksScope}${queue}/${digest}`)
}

/** A result is valid for every attempt, a failure only for the worker that reported it. */
function doneAt(queue: string, digest: string): TimelineId {
  return timelineId(`${outcomesScope}${queue}/${digest}`)
}

function failedAt(queue: string, digest: string, epoch: number): TimelineId {
  return timelineId(`${outcomesScope}${queue}/${digest}.${epoch}`)
}

function digestOf(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 40)
}

/** The epoch is the fencing token of the worker that holds the task. */
function tokenOf(digest: string, epoch: number): string {
  return `${digest}.${epoch}`
}

function parsed(queue: string, task: string) {
  const [, digest, epoch] = /^([0-9a-f]{40})\.(\d{1,15})$/.exec(task) ?? []
  if (digest === undefined) return null
  const at = { id: taskAt(queue, digest), epoch: Number(epoch), done: doneAt(queue, digest) }
  return { ...at, failed: failedAt(queue, digest, at.epoch) }
}

function count(value: unknown): number {
  return typeof value === 'number' ? value : 0
}

const board = {}

/** One per engine. */
export function boardOf(host: Host): Board {
  return host.once(board, () => new Board(host))
}
