// The coordinator of a pipeline's checkpoints, as a state machine without a clock, channels or promises: events in, actions
// out. It decides when a checkpoint begins, when it is complete and published, when it is aborted, and whether its written
// parts are kept or discarded.
//
// Ids grow and are never reused, not even after a restart without state. An acknowledgement counts for one checkpoint, one task
// and one attempt of that task. While the outcome of a publication is unknown, nothing is deleted.

import { assert } from '../../../core/assert.ts'

export type CheckpointKind = 'savepoint' | 'manual' | 'periodic'

/** One attempt of a task: after a crash, the next owner runs it with a higher attempt. */
export interface TaskAttempt {
  readonly task: string
  readonly attempt: number
}

export type CheckpointAction<Snapshot> =
  /** To the sources: emit the barrier. */
  | {
      readonly do: 'start'
      readonly id: number
      readonly kind: CheckpointKind
      readonly attempts: readonly TaskAttempt[]
    }
  /** To every task: abandon this checkpoint and resume waiting channels. */
  | { readonly do: 'abort'; readonly id: number; readonly why: string }
  | {
      readonly do: 'publish'
      readonly id: number
      readonly kind: CheckpointKind
      readonly snapshots: ReadonlyMap<string, Snapshot>
    }
  /** To every sink: commit the transactions prepared for this and earlier checkpoints. */
  | { readonly do: 'complete'; readonly id: number; readonly kind: CheckpointKind }
  /** Nothing will ever refer to these snapshots. */
  | { readonly do: 'discard'; readonly id: number; readonly snapshots: readonly Snapshot[] }
  /** To the caller that requested it. */
  | { readonly do: 'answer'; readonly request: number; readonly id: number | null; readonly why: string | null }
  /** Recovery points no longer advance. */
  | { readonly do: 'alarm'; readonly failures: number; readonly why: string }

interface Pending<Snapshot> {
  readonly id: number
  readonly kind: CheckpointKind
  readonly requests: readonly number[]
  readonly startedAt: number
  readonly attempts: ReadonlyMap<string, number>
  readonly snapshots: Map<string, Snapshot>
  phase: 'collecting' | 'publishing'
}

interface Request {
  readonly request: number
  readonly kind: CheckpointKind
}

export interface CoordinatorOptions {
  /** A checkpoint that takes longer is aborted. */
  readonly timeoutMs: number
  /** The number of consecutive failures before the alarm. */
  readonly failuresMax: number
}

const urgency: readonly CheckpointKind[] = ['savepoint', 'manual', 'periodic']

export class CheckpointCoordinator<Snapshot> {
  readonly #options: CoordinatorOptions
  #nextId: number
  readonly #attempts = new Map<string, number>()
  #pending: Pending<Snapshot> | null = null
  #queue: Request[] = []
  #failures = 0

  /** `lastId` is the highest id ever started, from the pipeline's history. */
  constructor(options: CoordinatorOptions, lastId: number) {
    this.#options = options
    this.#nextId = lastId + 1
  }

  get failures(): number {
    return this.#failures
  }

  /** The task runs with this attempt. A pending checkpoint does not include the attempt, so it cannot complete. */
  running(task: string, attempt: number, now: number): CheckpointAction<Snapshot>[] {
    const before = this.#attempts.get(task)
    assert(before === undefined || attempt > before, 'attempts of a task only grow')
    this.#attempts.set(task, attempt)
    return [...this.#callOff(`${task} was restarted`), ...this.#next(now)]
  }

  /** The task ended or was taken away: later checkpoints do not include it. */
  stopped(task: string, attempt: number, now: number): CheckpointAction<Snapshot>[] {
    if (this.#attempts.get(task) !== attempt) return []
    this.#attempts.delete(task)
    const isPart = this.#pending?.phase === 'collecting' && !this.#pending.snapshots.has(task)
    return [...(isPart ? this.#callOff(`${task} stopped`) : []), ...this.#next(now)]
  }

  /** A caller or the clock requests a checkpoint. Only one is in progress at a time; periodic requests are never queued. */
  request(request: number, kind: CheckpointKind, now: number): CheckpointAction<Snapshot>[] {
    if (kind === 'periodic' && (this.#pending || this.#queue.some((waiting) => waiting.kind === 'periodic'))) {
      return [{ do: 'answer', request, id: null, why: 'another checkpoint is in progress' }]
    }
    this.#queue.push({ request, kind })
    return this.#next(now)
  }

  acknowledge(id: number, from: TaskAttempt, snapshot: Snapshot): CheckpointAction<Snapshot>[] {
    const pending = this.#collecting(id, from)
    if (!pending) return [{ do: 'discard', id, snapshots: [snapshot] }]
    assert(!pending.snapshots.has(from.task), 'a task acknowledges a checkpoint once')
    pending.snapshots.set(from.task, snapshot)
    if (pending.snapshots.size < pending.attempts.size) return []
    pending.phase = 'publishing'
    return [{ do: 'publish', id, kind: pending.kind, snapshots: pending.snapshots }]
  }

  /** A task could not capture its state, or gave up aligning. */
  decline(id: number, from: TaskAttempt, why: string, now: number): CheckpointAction<Snapshot>[] {
    if (!this.#collecting(id, from)) return []
    return [...this.#callOff(`${from.task}: ${why}`), ...this.#next(now)]
  }

  tick(now: number): CheckpointAction<Snapshot>[] {
    const pending = this.#pending
    if (pending?.phase !== 'collecting' || now - pending.startedAt < this.#options.timeoutMs) return []
    const missing = [...pending.attempts.keys()].filter((task) => !pending.snapshots.has(task))
    return [...this.#callOff(`timed out waiting for ${missing.join(', ')}`), ...this.#next(now)]
  }

  published(id: number, now: number): CheckpointAction<Snapshot>[] {
    const { kind, requests } = this.#published(id)
    this.#failures = 0
    const answers = requests.map((request) => ({ do: 'answer', request, id, why: null }) as const)
    return [{ do: 'complete', id, kind }, ...answers, ...this.#next(now)]
  }

  /** The store refused the checkpoint: it does not exist, so its written parts can be discarded. */
  refused(id: number, why: string, now: number): CheckpointAction<Snapshot>[] {
    this.#published(id, 'keep')
    return [...this.#fail(why, true), ...this.#next(now)]
  }

  /** The outcome is unknown: the pipeline must be recovered from the store. Nothing is discarded. */
  unknown(id: number, why: string): CheckpointAction<Snapshot>[] {
    this.#published(id, 'keep')
    return this.#fail(why, false)
  }

  #published(id: number, then: 'forget' | 'keep' = 'forget'): Pending<Snapshot> {
    const pending = this.#pending
    assert(
      pending?.id === id && pending.phase === 'publishing',
      'the outcome belongs to the checkpoint being published',
    )
    if (then === 'forget') this.#pending = null
    return pending
  }

  #collecting(id: number, from: TaskAttempt): Pending<Snapshot> | null {
    const pending = this.#pending
    if (pending?.id !== id || pending.phase !== 'collecting') return null
    return pending.attempts.get(from.task) === from.attempt ? pending : null
  }

  /** A checkpoint that is being published can no longer be aborted: the store decides its outcome. */
  #callOff(why: string): CheckpointAction<Snapshot>[] {
    return this.#pending?.phase === 'collecting' ? this.#fail(why, true) : []
  }

  #fail(why: string, discards: boolean): CheckpointAction<Snapshot>[] {
    const pending = this.#pending
    assert(pending !== null, 'only a pending checkpoint fails')
    this.#pending = null
    this.#failures += 1
    const { id, snapshots, requests } = pending
    const actions: CheckpointAction<Snapshot>[] = [{ do: 'abort', id, why }]
    if (discards && snapshots.size > 0) actions.push({ do: 'discard', id, snapshots: [...snapshots.values()] })
    for (const request of requests) actions.push({ do: 'answer', request, id: null, why })
    if (this.#failures > this.#options.failuresMax) actions.push({ do: 'alarm', failures: this.#failures, why })
    return actions
  }

  /** The most urgent kind is first, and all callers that requested this kind share one checkpoint. */
  #next(now: number): CheckpointAction<Snapshot>[] {
    if (this.#pending || this.#queue.length === 0 || this.#attempts.size === 0) return []
    const kind = urgency.find((each) => this.#queue.some((waiting) => waiting.kind === each))!
    const requests = this.#queue.filter((waiting) => waiting.kind === kind).map(({ request }) => request)
    this.#queue = this.#queue.filter((waiting) => waiting.kind !== kind)
    const id = this.#nextId++
    const attempts = new Map(this.#attempts)
    this.#pending = { id, kind, requests, startedAt: now, attempts, snapshots: new Map(), phase: 'collecting' }
    return [{ do: 'start', id, kind, attempts: [...attempts].map(([task, attempt]) => ({ task, attempt })) }]
  }
}
