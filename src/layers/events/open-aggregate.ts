// One aggregate that is open in this process, shared by all its handles. Commands wait in one queue; all waiting
// commands are decided one after another, each on the state after the previous one, and written as one commit. The
// commit applies only if no other process wrote since that state was read; otherwise the new entries are read, and all
// commands are decided again. No command is answered before it is durable, and no refusal before its state is known to
// be current.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Head } from '../../core/store/ports.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import { callPure } from '../../engine/base/guard/zone.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import type { Host } from '../../engine/host/host.ts'
import { type OpenOptions, turnWaitMs } from '../../engine/model/definition.ts'
import { isLost } from '../../engine/ownership/contest.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import type { TurnTimeline } from '../../engine/writing/turn-timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { entryOf, supersededStatus, toEntry } from './envelope.ts'
import { validate } from './schema.ts'
import type { AggregateModel, DoOptions, DoResult, Metadata } from './types.ts'

/** The maximum number of entries of one batch of commands. */
const batchEntries = 1000

interface Request<State> {
  readonly decide: (state: State, seq: number, now: number) => readonly unknown[]
  /** Entries of this layer itself: nothing is decided. */
  readonly entries?: readonly NewEntry[]
  readonly options: DoOptions
  readonly extras: CommitExtras | null
  resolve(done: DoResult<State, never>): void
  reject(error: unknown): void
}

/** Other work that must not overlap with a write. */
interface Task {
  readonly task: () => Promise<void>
}

interface Decided<State> {
  readonly request: Request<State>
  readonly entries: readonly NewEntry[]
  readonly events: readonly unknown[]
}

/** Decisions on one state. Verdicts are called once that state is known to be current. */
interface Round<State> {
  readonly decided: readonly Decided<State>[]
  readonly verdicts: readonly (() => void)[]
  readonly rest: readonly Request<State>[]
}

interface Failed<State> {
  readonly round: Round<State>
  readonly error: unknown
}

export class OpenAggregate<State> {
  readonly timeline: TimelineId
  readonly id: string
  readonly #engine: Host
  readonly #model: AggregateModel<State>
  readonly #turns: TurnTimeline<State>
  readonly #waitMs: number
  #queue: (Request<State> | Task)[] = []
  #isBusy = false
  holders = 0
  /** Its last holder has closed it. */
  isClosed = false

  constructor(
    engine: Host,
    model: AggregateModel<State>,
    id: string,
    turns: TurnTimeline<State>,
    options: OpenOptions,
  ) {
    this.#engine = engine
    this.#model = model
    this.id = id
    this.timeline = turns.id
    this.#turns = turns
    this.#waitMs = options.wait === undefined ? turnWaitMs : toMs(options.wait, 'wait')
  }

  get open(): OpenTimeline<State> {
    return this.#turns.open
  }

  /** The dispatcher claimed the aggregate for this process, under a new epoch. */
  adopt(head: Head): Promise<void> {
    return this.#inTurn(() => this.#turns.adopt(head))
  }

  /** This process owns the aggregate when it resolves. */
  own(signal?: AbortSignal): Promise<OpenTimeline<State>> {
    return this.#inTurn(() => this.#turns.own(this.#waitMs, () => !signal?.aborted))
  }

  /** Checkpoints the current state; for an aggregate without events, its initial state. */
  async checkpoint(request: CheckpointRequest): Promise<PublishedCheckpoint> {
    await this.refresh()
    if (!this.#turns.exists) await this.own()
    return await this.open.checkpoint(request)
  }

  /** Reads the entries of other processes; ownership does not change. */
  refresh(): Promise<void> {
    return this.#inTurn(() => this.#turns.refresh())
  }

  close(): Promise<void> {
    return this.#inTurn(() => this.#turns.close())
  }

  command(name: string, input: unknown, options: DoOptions, extras: CommitExtras | null = null) {
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
    return this.#submit({ decide, options, extras })
  }

  /** Appends events without a command: corrections, imports. */
  append(events: readonly unknown[], options: DoOptions, extras: CommitExtras | null = null) {
    return this.#submit({ decide: () => events, options, extras })
  }

  /** Writes entries of this layer itself, in their own commit. */
  async note(type: string, fields: unknown, meta: Metadata, extras: CommitExtras): Promise<void> {
    await this.#submit({ decide: () => [], entries: [entryOf(type, fields, meta, undefined)], options: {}, extras })
  }

  #submit(request: Omit<Request<State>, 'resolve' | 'reject'>): Promise<DoResult<State, never>> {
    return new Promise((resolve, reject) => this.#enqueue({ ...request, resolve, reject }))
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => this.#enqueue({ task: () => work().then(resolve, reject) }))
  }

  #enqueue(item: Request<State> | Task): void {
    this.#queue.push(item)
    if (!this.#isBusy) this.#next()
  }

  /** Neither this function nor its successful path is async: each async function allocates promises per command. */
  #next(): void {
    this.#isBusy = this.#queue.length > 0
    if (!this.#isBusy) return
    const first = this.#queue[0]!
    if ('task' in first) {
      this.#queue.shift()
      void first.task().finally(() => this.#next())
      return
    }
    const batch = this.#takeBatch(first)
    if (!this.#turns.tryReady()) {
      this.#settleThenNext(batch)
      return
    }
    const round = this.#decideAll(batch)
    const writing = this.#write(round)
    if (!writing) {
      this.#settleThenNext(batch, { round, error: null })
      return
    }
    writing.then(
      () => {
        this.#answer(round)
        if (round.rest.length > 0) this.#settleThenNext(round.rest)
        else this.#next()
      },
      (error) => this.#settleThenNext(batch, { round, error }),
    )
  }

  #settleThenNext(batch: readonly Request<State>[], failed?: Failed<State>): void {
    void this.#settle(batch, failed).finally(() => this.#next())
  }

  /** All waiting requests, or the first alone if its commit has extras. */
  #takeBatch(first: Request<State>): Request<State>[] {
    const batch = [first]
    this.#queue.shift()
    if (first.extras || holdsKeyed(this.open.state)) return batch
    while (this.#queue.length > 0) {
      const next = this.#queue[0]!
      if ('task' in next || next.extras) break
      batch.push(next)
      this.#queue.shift()
    }
    return batch
  }

  /** `failed` is the result of the first attempt; with a null error, there was nothing to write. */
  async #settle(batch: readonly Request<State>[], failed?: Failed<State>): Promise<void> {
    let waiting = batch
    let contest = this.#turns.contest(this.#waitMs)
    let known = failed
    let before: Round<State> | null = null
    const { planted } = this.#engine
    while (waiting.length > 0) {
      let round: Round<State> | null = null
      try {
        if (known) {
          round = known.round
          const { error } = known
          known = undefined
          if (error) throw error
        } else {
          await this.#turns.ready()
          round = before && planted.has('stale-decision') ? before : this.#decideAll(waiting)
        }
        const writing = this.#write(round)
        if (writing) await writing
        else if (round.verdicts.length > 0 && !(await this.#turns.isCurrent())) throw outdated(this.timeline)
        this.#answer(round)
        waiting = round.rest
        contest = this.#turns.contest(this.#waitMs)
      } catch (error) {
        if (!isLost(error) && waiting.length > 1) {
          // One of the requests is at fault, perhaps with a value that cannot be stored: each is settled alone.
          for (const request of waiting) await this.#settle([request])
          return
        }
        waiting = this.#rejectSome(waiting, (request) => (mayRepeat(request, error) ? null : error))
        if (waiting.length > 0 && isLost(error)) waiting = await this.#lose(waiting, contest, error)
        before = round
      }
    }
  }

  /** Waits until a retry makes sense; aborted requests are rejected. */
  async #lose(
    waiting: readonly Request<State>[],
    contest: ReturnType<TurnTimeline<State>['contest']>,
    error: RepriseError,
  ): Promise<readonly Request<State>[]> {
    let rest = waiting
    const isWanted = () => {
      rest = this.#rejectSome(rest, ({ options: { signal } }) =>
        signal?.aborted ? aborted(this.timeline, signal) : null,
      )
      return rest.length > 0
    }
    try {
      await this.#turns.lose(contest, error, isWanted)
      const consumed = rest.flatMap((request) => request.extras?.consume ?? [])
      if (consumed.length === 0 || (await this.#areUnread(consumed))) return rest
      const taken = new RepriseError('CONFLICT', `${this.timeline}: another process took the message into history`)
      return this.#rejectSome(rest, (request) => (request.extras?.consume ? taken : null))
    } catch (failure) {
      return this.#rejectSome(rest, () => failure)
    }
  }

  /** If another process has processed the message, there is nothing to repeat. */
  async #areUnread(ids: readonly MessageId[]): Promise<boolean> {
    const unread = new Set((await this.open.inbox(1000)).map(({ id }) => id))
    return ids.every((id) => unread.has(id))
  }

  #rejectSome(
    requests: readonly Request<State>[],
    reasonFor: (request: Request<State>) => unknown,
  ): readonly Request<State>[] {
    return requests.filter((request) => {
      const reason = reasonFor(request)
      if (reason !== null) request.reject(reason)
      return reason === null
    })
  }

  /** Decides in order, each on the state after the previous one. */
  #decideAll(batch: readonly Request<State>[]): Round<State> {
    const { clock } = this.#engine
    const { open } = this
    const decided: Decided<State>[] = []
    const verdicts: (() => void)[] = []
    const keys = new Set<string>()
    const superseded = supersededBy(this.#turns.head)
    let { seq } = open
    let state = batch.length > 1 ? this.#preview() : open.state
    let rest: readonly Request<State>[] = []
    const now = clock.now()
    for (let i = 0; i < batch.length; i++) {
      const request = batch[i]!
      let isEvolving = false
      const { key, expect, signal } = request.options
      // The same key twice in one batch: the second is answered when the first is durable.
      if (decided.length > 0 && ((key !== undefined && keys.has(key)) || seq - open.seq >= batchEntries)) {
        return { decided, verdicts, rest: batch.slice(i) }
      }
      try {
        if (signal?.aborted) throw aborted(this.timeline, signal)
        if (superseded && !request.entries) throw superseded
        if (key !== undefined && open.hasKey(key) && !request.extras) {
          verdicts.push(() =>
            request.resolve({ events: [], seq: this.open.seq, state: this.open.state, isDuplicate: true }),
          )
          continue
        }
        if (expect !== undefined && expect !== seq) {
          throw new RepriseError('CONFLICT', `${this.timeline} is at ${seq}, not at ${expect}`, { seq, expect })
        }
        const events = key !== undefined && open.hasKey(key) ? [] : request.decide(state, seq, now)
        const meta = request.options.meta ?? {}
        const entries = request.entries ?? events.map((event, n) => toEntry(this.#model.check(event), meta, key, n > 0))
        // Also for the last one: an event that cannot be folded must fail its own command, not the others.
        if (batch.length > 1) {
          const [before, at] = [state, seq]
          isEvolving = true
          state = callPure(this.#engine.kernel.guardsFolds(), `evolve of ${this.timeline}`, () =>
            this.#model.evolveAll(before, entries, this.timeline, at, now),
          )
        }
        seq += entries.length
        if (key !== undefined) keys.add(key)
        decided.push({ request, entries, events })
      } catch (error) {
        verdicts.push(() => request.reject(error))
        // `evolve` may have changed the preview before it threw: the others are decided on the state of history.
        if (isEvolving && !this.#model.fold.immutable) {
          rest = batch.slice(i + 1)
          break
        }
      }
    }
    for (const { request, entries, events } of decided) {
      if (entries.length === 0 && !request.extras) verdicts.push(() => this.#notify(request, events))
    }
    return {
      decided: decided.filter(({ entries, request }) => entries.length > 0 || request.extras),
      verdicts,
      rest,
    }
  }

  /** The state on which later commands are decided while the earlier ones are not durable: `evolve` may change it in place. */
  #preview(): State {
    const { state } = this.open
    if (this.#model.fold.immutable || !isObject(state)) return state
    return this.open.copyOf(state) as State
  }

  /** Returns null if there is nothing to write. */
  #write({ decided }: Round<State>): Promise<unknown> | null {
    if (decided.length === 0) return null
    try {
      const entries = decided.length === 1 ? decided[0]!.entries : decided.flatMap((each) => each.entries)
      const extras = this.#alongOf(decided, entries)
      const { open } = this
      const sealed = this.#model.seal(this.#engine, this.id, entries)
      const write = (ready: readonly NewEntry[]) => open.write(ready, extras ?? undefined)
      return sealed instanceof Promise ? sealed.then(write) : write(sealed)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #answer({ decided, verdicts }: Round<State>): void {
    for (const { request, events } of decided) this.#notify(request, events)
    for (const verdict of verdicts) verdict()
  }

  #notify(request: Request<State>, events: readonly unknown[]): void {
    const { seq, state } = this.open
    request.resolve({ events: events as readonly never[], seq, state, isDuplicate: false })
  }

  #alongOf(decided: readonly Decided<State>[], entries: readonly NewEntry[]): CommitExtras | null {
    const extras = decided[0]!.request.extras
    const { inline } = this.#model
    if (!inline || entries.length === 0) return extras
    const first = this.open.seq + 1
    return { ...extras, userSql: (sql) => inline(sql, entries, { timeline: this.timeline, first }) }
  }
}

/**
 * A lost write can be repeated: the guard refused it. With an unknown outcome it may have been written, and only a key
 * shows whether it was.
 */
function mayRepeat<State>(request: Request<State>, error: unknown): boolean {
  if (!isLost(error)) return false
  return error.code !== 'OUTCOME_UNKNOWN' || request.options.key !== undefined
}

/** A rewritten aggregate is read-only: its commands belong to its successor. */
function supersededBy(head: Head | null): RepriseError | null {
  if (head?.status !== supersededStatus) return null
  const { timeline, attributes } = head
  const { supersededBy: by = null, reason = null } = attributes
  return new RepriseError('SUPERSEDED', `${timeline} was rewritten as ${by}`, { timeline, supersededBy: by, reason })
}

function outdated(timeline: string): RepriseError {
  return new RepriseError('CONFLICT', `${timeline} has changed since it was read`, { timeline })
}

function aborted(timeline: string, signal: AbortSignal): RepriseError {
  return new RepriseError('ABORTED', `${timeline}: aborted`, {}, signal.reason)
}

function listOf(decision: unknown, name: string): readonly unknown[] {
  if (decision === undefined) return []
  refuseThenable(decision, `decide.${name}`, 'wait before the command, and pass the result as its input')
  return Array.isArray(decision) ? decision : [decision]
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function holdsKeyed(state: unknown): boolean {
  if (state instanceof Keyed) return true
  return isObject(state) && Object.values(state).some((part) => part instanceof Keyed)
}
