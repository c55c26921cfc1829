// The user's handle of an open aggregate: commands in, state out. Handles of one aggregate in one process share it.

import type { Coordinate } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import type { Host } from '../../engine/host/host.ts'
import type { StateAt } from '../../engine/model/definition.ts'
import { type Happened, historyOf, type PastMoment, stateAt } from './history.ts'
import type { Mailroom } from './mailroom.ts'
import type { OpenAggregate } from './open-aggregate.ts'
import { type Personal, reveal, shred } from './personal.ts'
import type { AggregateModel, DoOptions, DoResult, EventOf, InputArgs } from './types.ts'

const known = namesOf<DoOptions>()('key expect meta signal')

export class AggregateHandle<State, Evolve, Decide> {
  readonly id: string
  readonly timeline: string
  readonly #engine: Host
  readonly #model: AggregateModel<State>
  readonly #live: OpenAggregate<State>
  readonly #room: Mailroom<State>
  #isClosed = false

  /** @internal */
  constructor(engine: Host, model: AggregateModel<State>, live: OpenAggregate<State>, room: Mailroom<State>) {
    this.#engine = engine
    this.#model = model
    this.#live = live
    this.#room = room
    this.id = live.id
    this.timeline = live.timeline
  }

  /**
   * The state at `coordinate`, the last event that this process has read. `refresh()` reads events from other
   * processes.
   */
  get state(): State {
    return this.#live.open.state
  }

  get coordinate(): Coordinate {
    return this.#live.open.coordinate
  }

  get seq(): number {
    return this.#live.open.seq
  }

  get recovery(): RecoveryReport {
    return this.#live.open.recovery
  }

  get checkpointing() {
    return this.#live.open.checkpointing
  }

  /**
   * Decides and writes; durable when it resolves. If another process wrote first, it reads those events and decides
   * again.
   */
  do<Name extends keyof Decide & string>(
    command: Name,
    ...args: InputArgs<Decide, Name>
  ): Promise<DoResult<State, EventOf<Evolve>>> {
    const [input, options = {}] = args as [unknown, DoOptions?]
    checkOptions(`command ${command}`, options, known)
    this.#check()
    return this.#live.command(command, input, options)
  }

  /** Writes a compensating event: history keeps the wrong event, and records its correction and the reason. */
  async correct(
    seq: number,
    events: EventOf<Evolve> | readonly EventOf<Evolve>[],
    reason: string,
    options: DoOptions = {},
  ): Promise<DoResult<State, EventOf<Evolve>>> {
    this.#check()
    if (!Number.isSafeInteger(seq) || seq < 1 || seq > this.seq) {
      throw new RepriseError('OUT_OF_RANGE', `${this.timeline} has no event ${seq} to correct`, { seq, head: this.seq })
    }
    checkOptions('correct', options, known)
    const list = Array.isArray(events) ? events : [events]
    return await this.#live.append(list, { ...options, meta: { ...options.meta, corrects: seq, reason } })
  }

  /** Reads the events that other processes have written; ownership does not change. */
  async refresh(): Promise<State> {
    this.#check()
    await this.#live.refresh()
    return this.state
  }

  /** The state at a sequence or a time (ms since 1970 or a Date). */
  at(when: PastMoment): Promise<StateAt<State>> {
    return stateAt(this.#engine, this.#model, this.id, when)
  }

  /** The events with position, time and metadata, in their current versions. */
  history(range: { readonly after?: number; readonly to?: number } = {}): AsyncGenerator<Happened<EventOf<Evolve>>> {
    return historyOf(this.#engine, this.#model, this.id, range) as AsyncGenerator<Happened<EventOf<Evolve>>>
  }

  /** The plain value of a personal field; null once it was shredded. */
  reveal<T>(field: Personal<T> | undefined | null): Promise<T | null> {
    return reveal(this.#engine, this.#model.name, this.id, field)
  }

  /**
   * Destroys the key of this aggregate's personal data: history stays complete, and the data can never be read again.
   * Returns the places where bytes of the key may remain.
   */
  shred(): Promise<readonly string[]> {
    return shred(this.#engine, this.#model.name, this.id)
  }

  /** Publishes a checkpoint of the current state; ownership does not change. */
  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#live.checkpoint(request)
  }

  /** Processes commands that arrived by mail now; returns true if there were any. */
  receive(): Promise<boolean> {
    this.#check()
    return this.#room.receive(this.#live)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#room.close(this.#live)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #check(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
  }
}
