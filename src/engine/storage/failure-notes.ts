// Failures in the head of a timeline: the reason, the time of the first failure, and the number in a row. One mechanism
// for every model; lists, `show`, the doctor and the metrics read it. The process that works on a timeline writes the
// note beside its history, under the epoch that it reads, and removes it with the first success.
// The note is two attributes: `$failing` (true), by which the store finds it, and `$failure`, JSON with the fields of
// FailureNote. With an encryption key, the reason is sealed (`sealed`, base64), bound to the timeline.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise, isSignal } from '../../core/errors.ts'
import type { Attribute, Clock, Guard, Head, Outcome, Store } from '../../core/store/ports.ts'
import type { Events } from '../base/events.ts'
import type { Worker } from '../base/worker.ts'
import type { Sealer } from './seal/seal.ts'

export interface FailureNote {
  readonly reason: string
  /** The error's code, if it has one. */
  readonly code: string | null
  /** The first failure in a row, and the last that was recorded; database time. */
  readonly since: number
  readonly at: number
  /** Failures in a row. */
  readonly attempts: number
}

interface StoredNote extends Omit<FailureNote, 'reason'> {
  readonly reason?: string
  readonly sealed?: string
}

export const failingAttribute = '$failing'
const failureAttribute = '$failure'

/** Removes the note with a commit that happens anyway. */
export const withoutFailure: Readonly<Record<string, null>> = { [failingAttribute]: null, [failureAttribute]: null }

/** Not failures: another process has the timeline, or a caller ended the work. */
const noFailures = ['OWNED', 'FENCED', 'CLOSED', 'ABORTED', 'CANCELLED', 'WORKER_RETIRED'] as const
const reasonMax = 300
/** The same failure within this time is only counted, and written with a later one. */
const writeEveryMs = 1000
const writeAttempts = 3
const cleanMax = 10_000

/** A failure that is not written yet. */
interface Failing {
  error: unknown
  reason: string
  count: number
  since: number
  writtenMs: number
}

export interface FailureNotesOptions {
  readonly store: Pick<Store, 'head'>
  readonly clock: Clock
  readonly worker: Pick<Worker, 'now'>
  readonly sealer: Sealer
  readonly events: Events
  commit(guard: Guard, attributes: Readonly<Record<string, Attribute | null>>): Promise<Outcome>
}

export class FailureNotes {
  /** Receives each new reason while `problem` has no listener. Default: none. */
  warn: ((words: string) => void) | null = null
  readonly #options: FailureNotesOptions
  readonly #failing = new Map<string, Failing>()
  /** Timelines known to have no note. */
  readonly #clean = new Set<string>()
  readonly #writing = new Map<string, Promise<void>>()

  constructor(options: FailureNotesOptions) {
    this.#options = options
  }

  /**
   * Records a failure. Resolves when the note is written, or could not be: the store itself may be failing. An error
   * that only means that another process has the timeline is not a failure.
   */
  async failed(timeline: string, error: unknown): Promise<void> {
    if (isReprise(error, ...noFailures) || isSignal(error, 'MAIL_WAITING')) return
    const { clock, worker, events } = this.#options
    const reason = reasonOf(error)
    const known = this.#failing.get(timeline)
    // The run and its executing process record the same error.
    if (known && known.error === error) return await this.#writing.get(timeline)
    const isNew = known?.reason !== reason
    const failing = known ?? { error, reason, count: 0, since: worker.now(), writtenMs: Number.NEGATIVE_INFINITY }
    Object.assign(failing, { error, reason, count: failing.count + 1 })
    this.#failing.set(timeline, failing)
    this.#clean.delete(timeline)
    if (isNew && !events.has('problem')) this.warn?.(`${timeline} failed: ${reason}`)
    if (!isNew && clock.elapsed() - failing.writtenMs < writeEveryMs) return
    failing.writtenMs = clock.elapsed()
    await this.#inTurn(timeline, () => this.#write(timeline, failing))
  }

  /** Records progress: removes a note of this or another process. Cheap while no note exists. */
  succeeded(timeline: string): void {
    if (this.#clean.has(timeline)) return
    if (this.#clean.size >= cleanMax) this.#clean.clear()
    this.#clean.add(timeline)
    this.#failing.delete(timeline)
    void this.#inTurn(timeline, () => this.#remove(timeline))
  }

  /** This process took the timeline over: another process may have recorded a failure since this one last owned it. */
  taken(timeline: string): void {
    this.#clean.delete(timeline)
  }

  /** Resolves when no note is being written. */
  async settled(): Promise<void> {
    await Promise.all(this.#writing.values())
  }

  async #inTurn(timeline: string, work: () => Promise<void>): Promise<void> {
    const before = this.#writing.get(timeline) ?? Promise.resolve()
    const next = before.then(work).catch(() => undefined)
    this.#writing.set(timeline, next)
    await next
    if (this.#writing.get(timeline) === next) this.#writing.delete(timeline)
  }

  async #write(timeline: string, failing: Failing): Promise<void> {
    const { sealer, worker } = this.#options
    await this.#change(timeline, (head) => {
      const before = failureOf(sealer, head)
      const { error, reason, count } = failing
      const note: FailureNote = {
        reason,
        code: isReprise(error) ? error.code : null,
        since: before?.since ?? failing.since,
        at: worker.now(),
        attempts: (before?.attempts ?? 0) + count,
      }
      failing.count = 0
      return { [failingAttribute]: true, [failureAttribute]: encode(sealer, head.timeline, note) }
    })
  }

  async #remove(timeline: string): Promise<void> {
    await this.#change(timeline, ({ attributes }) => (failingAttribute in attributes ? withoutFailure : null))
  }

  async #change(
    timeline: string,
    attributesOf: (head: Head) => Readonly<Record<string, Attribute | null>> | null,
  ): Promise<void> {
    const { store, commit } = this.#options
    const id = timelineId(timeline)
    for (let attempt = 1; attempt <= writeAttempts; attempt++) {
      const [head] = await store.head([id])
      const attributes = head && attributesOf(head)
      if (!head || !attributes) return
      const outcome = await commit({ timeline: id, epoch: head.epoch }, attributes)
      if (outcome.ok || outcome.code !== 'FENCED') return
    }
  }
}

/** The note of a timeline. Null: none. */
export function failureOf(
  sealer: Sealer,
  { timeline, attributes }: Pick<Head, 'timeline' | 'attributes'>,
): FailureNote | null {
  const text = attributes[failureAttribute]
  if (typeof text !== 'string') return null
  try {
    const { sealed, reason = '', ...rest } = JSON.parse(text) as StoredNote
    return { ...rest, reason: sealed === undefined ? reason : open(sealer, timeline, sealed) }
  } catch {
    return null
  }
}

function encode(sealer: Sealer, timeline: TimelineId, { reason, ...rest }: FailureNote): string {
  if (sealer.keyId === null) return JSON.stringify({ ...rest, reason } satisfies StoredNote)
  const sealed = sealer.seal(new TextEncoder().encode(reason), contextOf(timeline))
  return JSON.stringify({ ...rest, sealed: Buffer.from(sealed).toString('base64') } satisfies StoredNote)
}

function open(sealer: Sealer, timeline: TimelineId, sealed: string): string {
  try {
    return new TextDecoder().decode(sealer.open(Buffer.from(sealed, 'base64'), contextOf(timeline)))
  } catch (error) {
    return `(sealed: ${(error as Error).message})`
  }
}

function contextOf(timeline: TimelineId): Uint8Array {
  return new TextEncoder().encode(`failure of ${timeline}`)
}

function reasonOf(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error)
  return words.length > reasonMax ? `${words.slice(0, reasonMax - 1)}…` : words
}
