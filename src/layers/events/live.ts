// One aggregate that is open in this process, shared by all its handles. Commands wait in one queue; all that wait in the
// same moment are decided one after another, each on the state that the ones before it leave, and written as one commit.
// Whoever lost the aggregate to another process takes it back, reloads, and decides again: that is the optimistic
// concurrency of this layer. Nothing is answered before it is durable.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { Keyed } from '../../core/keyed.ts'
import type { OpenOptions } from '../../engine/definition.ts'
import type { Entry } from '../../engine/history.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import type { Along } from '../../engine/writer.ts'
import type { Model } from './aggregate.ts'
import { entryOf, toEntry } from './envelope.ts'
import { validate } from './schema.ts'
import type { CommandOptions, Done, Metadata } from './types.ts'

/** How often a command is decided again before it gives up on a contended aggregate. */
const attemptsMax = 20
/** Entries that one batch of commands may make. */
const batchEntries = 1000

/** This process is no longer the owner, or does not know: reload, then decide again. */
const lost = ['FENCED', 'CONFLICT', 'OWNED', 'WORKER_RETIRED', 'CLOSED', 'OUTCOME_UNKNOWN'] as const

interface Request<State> {
  readonly decide: (state: State, seq: number, now: number) => readonly unknown[]
  readonly options: CommandOptions
  readonly along: Along | null
  resolve(done: Done<State, never>): void
  reject(error: unknown): void
}

interface Decided<State> {
  readonly request: Request<State>
  readonly entries: readonly NewEntry[]
  readonly events: readonly unknown[]
}

interface Failed<State> {
  readonly decided: readonly Decided<State>[]
  readonly error: unknown
}

const nothingToWrite = Promise.resolve()

export class Live<State> {
  readonly timeline: TimelineId
  readonly id: string
  readonly #engine: Reprise
  readonly #model: Model<State>
  readonly #options: OpenOptions
  #open: OpenTimeline<State>
  #queue: Request<State>[] = []
  #isBusy = false
  holders = 0

  constructor(engine: Reprise, model: Model<State>, id: string, open: OpenTimeline<State>, options: OpenOptions) {
    this.#engine = engine
    this.#model = model
    this.id = id
    this.timeline = open.id
    this.#open = open
    this.#options = options
  }

  get open(): OpenTimeline<State> {
    return this.#open
  }

  get isIdle(): boolean {
    return !this.#isBusy && this.#queue.length === 0
  }

  /** It was claimed again for this process, under a new epoch. */
  adopt(open: OpenTimeline<State>): void {
    this.#open = open
  }

  command(name: string, input: unknown, options: CommandOptions, along: Along | null = null) {
    const decision = this.#model.decide[name]
    if (!decision || !Object.hasOwn(this.#model.decide, name)) {
      const what = `${this.#model.name} has no command ${String(name).slice(0, 80)}`
      return Promise.reject(new RepriseError('INVALID_ARGUMENT', what, { command: String(name).slice(0, 80) }))
    }
    const meta = options.meta ?? {}
    const decide = (state: State, seq: number, now: number) => {
      const checked = validate(decision, `command ${name}`, input)
      return listOf(decision(state, checked as never, { id: this.id, seq, now, meta }), name)
    }
    return this.#submit(decide, options, along)
  }

  /** Events without a command: corrections, imports. */
  append(events: readonly unknown[], options: CommandOptions, along: Along | null = null) {
    return this.#submit(() => events, options, along)
  }

  /** Reads what others have written since: takes the aggregate if it was lost. */
  async refresh(): Promise<void> {
    if (this.#open.broken) await this.#reopen()
  }

  /** Entries of this layer itself, in a commit of their own. */
  async note(type: string, fields: unknown, meta: Metadata, along: Along): Promise<void> {
    await this.#open.write([entryOf(type, fields, meta, undefined)], along)
  }

  #submit(decide: Request<State>['decide'], options: CommandOptions, along: Along | null): Promise<Done<State, never>> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ decide, options, along, resolve, reject })
      if (!this.#isBusy) this.#next()
    })
  }

  /** Not an async function, nor what it calls while all goes well: each of those costs promises a command. */
  #next(): void {
    this.#isBusy = this.#queue.length > 0
    if (!this.#isBusy) return
    const batch = this.#takeBatch()
    if (this.#open.broken) {
      this.#settleThenNext(batch)
      return
    }
    const { decided, rest } = this.#decideAll(batch)
    this.#write(decided).then(
      () => {
        this.#answer(decided)
        if (rest.length > 0) this.#settleThenNext(rest)
        else this.#next()
      },
      (error) => this.#settleThenNext(batch, { decided, error }),
    )
  }

  #settleThenNext(batch: readonly Request<State>[], failed?: Failed<State>): void {
    void this.#settle(batch, failed).finally(() => this.#next())
  }

  /** All that wait, or the first alone if something must go along in its commit. */
  #takeBatch(): Request<State>[] {
    const isAlone = this.#model.inline !== null || holdsKeyed(this.#open.state)
    let count = 1
    while (!isAlone && !this.#queue[0]!.along && count < this.#queue.length && !this.#queue[count]!.along) count += 1
    return this.#queue.splice(0, count)
  }

  /** `failed`: what became of the first attempt. */
  async #settle(batch: readonly Request<State>[], failed?: Failed<State>): Promise<void> {
    let waiting = batch
    for (let attempt = 1; waiting.length > 0; attempt++) {
      let decided: readonly Decided<State>[] = []
      try {
        if (failed && attempt === 1) {
          decided = failed.decided
          throw failed.error
        }
        if (this.#open.broken) await this.#reopen()
        const round = this.#decideAll(waiting)
        decided = round.decided
        await this.#write(decided)
        this.#answer(decided)
        waiting = round.rest
        attempt = 0
      } catch (error) {
        if (decided.length > 1 && !isReprise(error, ...lost)) {
          // One of them is at fault, perhaps for a value that cannot be stored: each for itself then.
          for (const request of waiting) await this.#settle([request])
          return
        }
        const again = waiting.filter((request) => this.#mayRepeat(request, error, attempt))
        for (const request of waiting) if (!again.includes(request)) request.reject(error)
        waiting = again
        if (waiting.length > 0) await this.#pause(attempt)
      }
    }
  }

  /** Decides in order on the state that each leaves to the next. Refusals are answered at once. */
  #decideAll(batch: readonly Request<State>[]): { decided: Decided<State>[]; rest: readonly Request<State>[] } {
    const { clock } = this.#engine.kernel
    const decided: Decided<State>[] = []
    const keys = new Set<string>()
    let { state, seq } = this.#open
    const now = clock.now()
    for (let i = 0; i < batch.length; i++) {
      const request = batch[i]!
      const { id, expect, signal } = request.options
      // The same id twice in one moment: the second is answered when the first is durable.
      if (decided.length > 0 && ((id !== undefined && keys.has(id)) || seq - this.#open.seq >= batchEntries)) {
        return { decided, rest: batch.slice(i) }
      }
      try {
        if (signal?.aborted) throw new RepriseError('ABORTED', `${this.timeline}: aborted`, {}, signal.reason)
        if (id !== undefined && this.#open.hasKey(id) && !request.along) {
          request.resolve({ events: [], seq: this.#open.seq, state: this.#open.state, wasApplied: true })
          continue
        }
        if (expect !== undefined && expect !== seq) {
          throw new RepriseError('CONFLICT', `${this.timeline} is at ${seq}, not at ${expect}`, { seq, expect })
        }
        const events = id !== undefined && this.#open.hasKey(id) ? [] : request.decide(state, seq, now)
        const meta = request.options.meta ?? {}
        const entries = events.map((event, n) => toEntry(this.#model.check(event), meta, keyOf(id, n)))
        // Also for the last one: an event that cannot be folded must fail its own command, not its neighbours.
        if (batch.length > 1) state = this.#model.evolveAll(state, entries, this.timeline, seq, now)
        seq += entries.length
        if (id !== undefined) keys.add(id)
        decided.push({ request, entries, events })
      } catch (error) {
        request.reject(error)
      }
    }
    return { decided, rest: [] }
  }

  #write(decided: readonly Decided<State>[]): Promise<unknown> {
    try {
      if (decided.length === 0) return nothingToWrite
      const entries = decided.length === 1 ? decided[0]!.entries : decided.flatMap((each) => each.entries)
      const along = this.#alongOf(decided)
      if (entries.length === 0 && !along) return nothingToWrite
      const sealed = this.#model.seal(this.#engine, this.id, entries)
      const write = (ready: readonly NewEntry[]) => this.#open.write(ready, along ?? undefined)
      return sealed instanceof Promise ? sealed.then(write) : write(sealed)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #answer(decided: readonly Decided<State>[]): void {
    const { seq, state } = this.#open
    for (const { request, events } of decided) {
      request.resolve({ events: events as readonly never[], seq, state, wasApplied: false })
    }
  }

  #alongOf(decided: readonly Decided<State>[]): Along | null {
    const along = decided[0]!.request.along
    const { inline } = this.#model
    if (!inline || decided.every((each) => each.entries.length === 0)) return along
    const first = this.#open.seq + 1
    const entries = decided.flatMap((each) => each.entries)
    return { ...along, ride: (sql) => inline(sql, entries, { timeline: this.timeline, first }) }
  }

  #mayRepeat(request: Request<State>, error: unknown, attempt: number): boolean {
    if (attempt >= attemptsMax) return false
    // Not written, as the fence or the guard says; a handle that was closed beside us has written nothing either. With an
    // unknown outcome it is perhaps written: only an id can tell.
    if (isReprise(error, 'CLOSED')) return attempt === 1
    if (isReprise(error, ...lost)) return !isReprise(error, 'OUTCOME_UNKNOWN') || request.options.id !== undefined
    return false
  }

  async #reopen(): Promise<void> {
    this.#open = await this.#engine.openTimeline(this.timeline, this.#model.fold, { ...this.#options, mustExist: true })
  }

  async #pause(attempt: number): Promise<void> {
    const { clock, random } = this.#engine.kernel
    const pauseMs = attempt === 1 ? 0 : random.number() * Math.min(200, 4 * 2 ** attempt)
    await new Promise<void>((resolve) => clock.after(pauseMs, resolve, true))
    // A closed handle looks whole; only a new one can be written through.
    if (!this.#open.broken && attempt === 1) await this.#reopen().catch(() => undefined)
  }

  watch(call: (entries: readonly Entry[]) => void): () => void {
    return this.#open.watch(call)
  }
}

function keyOf(id: string | undefined, n: number): string | undefined {
  return id === undefined ? undefined : n === 0 ? id : `${id}#${n}`
}

function listOf(decision: unknown, name: string): readonly unknown[] {
  if (decision === undefined) return []
  if (decision instanceof Promise) {
    decision.catch(() => undefined)
    throw new RepriseError('INVALID_ARGUMENT', `decide.${name} returned a promise: deciding is pure and cannot wait`)
  }
  return Array.isArray(decision) ? decision : [decision]
}

function holdsKeyed(state: unknown): boolean {
  if (state instanceof Keyed) return true
  return typeof state === 'object' && state !== null && Object.values(state).some((part) => part instanceof Keyed)
}
