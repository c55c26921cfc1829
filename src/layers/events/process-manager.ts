// Process managers: events of some aggregates become commands to others. The commands go out as mail in the same commit
// that moves the position in the feed, each with an id made from the event's coordinate: sent once, done once.

import { type MessageId, timelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { type FeedPosition, feedStart, type OutgoingMessage } from '../../core/ports.ts'
import { checkName, type Entity, type Fold, opens, type Workable, works } from '../../engine/definition.ts'
import { callPure } from '../../engine/guard/zone.ts'
import { messageContext, type Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { refusedType } from './envelope.ts'
import { address, type Letter, letterKind, sendCommand } from './mailroom.ts'
import { helperModel, processKind } from './model.ts'
import { Runner } from './runner.ts'
import { Ahead, cursorAt, hasWritten, isAside, PoisonError, placeOf, type Quarantined, type Sink } from './sink.ts'
import { checkReading, type EventAt, type EventFrom, type EventSource, Events, type Occurrence } from './source.ts'
import { progressFold } from './sql-sink.ts'
import type { InputOf, Metadata } from './types.ts'

/** A command on its way to an aggregate. */
export interface Outgoing {
  readonly to: { readonly name: string; readonly prefix: string }
  readonly id: string
  readonly command: string
  readonly input: unknown
}

interface Commanded<Decide> {
  readonly name: string
  readonly prefix: string
  readonly decide: Decide
}

/** @example command(account, 'bob', 'deposit', { amount: 5 }) */
export function command<Decide, Name extends keyof Decide & string>(
  to: Commanded<Decide>,
  id: string,
  name: Name,
  ...[input]: unknown extends InputOf<Decide, Name> ? [input?: undefined] : [input: InputOf<Decide, Name>]
): Outgoing {
  return { to: { name: to.name, prefix: to.prefix }, id, command: name, input }
}

/** A command by mail, from anywhere: done when its aggregate is next open in a process that works for its kind. */
export async function send(
  engine: Reprise,
  outgoing: Outgoing,
  options: { readonly id?: string; readonly meta?: Metadata } = {},
): Promise<string> {
  const letter: Letter = {
    command: outgoing.command,
    input: outgoing.input,
    ...(options.meta && { meta: options.meta }),
  }
  return await sendCommand(engine, outgoing.to, outgoing.id, letter, options.id)
}

/** A command that came by mail and was refused. */
export interface RefusedLetter {
  readonly command: string | null
  readonly input: unknown
  readonly reason: string
}

type Reaction = Outgoing | readonly Outgoing[] | undefined | void

/** One function an event type. */
export type Reactions<Sources extends readonly EventSource[]> = {
  readonly [Type in EventFrom<Sources[number]>['type']]?: (
    event: Extract<EventFrom<Sources[number]>, { readonly type: Type }>,
    at: EventAt,
  ) => Reaction
}

export interface ProcessManagerOptions<Sources extends readonly EventSource[], On> {
  readonly from: Sources
  readonly on: On
  /** When an aggregate refused a command that came by mail: the place to compensate. */
  readonly onRefused?: (letter: RefusedLetter, at: EventAt) => Reaction
  readonly poison?: 'stop' | 'quarantine'
  /** Also the events of forks of these aggregates; by default a fork is a trial that nobody else sees. */
  readonly forks?: boolean
}

export interface ProcessManagerDefinition extends Entity<Runner>, Workable {
  readonly kind: 'process-manager'
  readonly name: string
}

export function processManager<Sources extends readonly EventSource[], On extends Reactions<Sources>>(
  name: string,
  options: ProcessManagerOptions<Sources, On>,
): ProcessManagerDefinition {
  checkName('process manager', name)
  checkReading(`process manager ${name}`, options)
  const on = options.on as unknown as Readonly<Record<string, (event: unknown, at: EventAt) => Reaction>>
  const reactTo = ({ type, event, at }: Occurrence): Reaction =>
    type === refusedType ? options.onRefused?.(event as unknown as RefusedLetter, at) : on[type]?.(event, at)
  const wants = (type: string) => Object.hasOwn(on, type) || (type === refusedType && options.onRefused !== undefined)
  const runners = new WeakMap<Reprise, Runner>()
  const start = (engine: Reprise): Runner => {
    const held = runners.get(engine)
    if (held) return held
    engine.declare(helperModel(processKind, name, `process/${name}`, progressFold as Fold<never>))
    const sink = new MailSink(engine, name, reactTo)
    const runner = new Runner(
      engine.kernel,
      new Events(engine.kernel, options.from, wants, undefined, options.forks),
      sink,
      options.poison ?? 'stop',
    )
    runners.set(engine, runner)
    engine.onClose(() => runner.stop())
    return runner
  }
  return {
    kind: 'process-manager',
    name,
    [opens]: async (engine: Reprise) => start(engine),
    [works]: (engine: Reprise) => void start(engine),
  }
}

type Progress = ReturnType<typeof progressFold.initial>

class MailSink implements Sink {
  readonly #engine: Reprise
  readonly #name: string
  readonly #reactTo: (occurrence: Occurrence) => Reaction
  #open: OpenTimeline<Progress> | null = null
  #ahead: Ahead

  constructor(engine: Reprise, name: string, reactTo: (occurrence: Occurrence) => Reaction) {
    this.#engine = engine
    this.#name = name
    this.#reactTo = reactTo
    this.#ahead = new Ahead(engine.kernel.clock.elapsed())
  }

  get where(): string {
    return `process/${this.#name}`
  }

  get position(): FeedPosition {
    return this.#ahead.over(this.#open?.state.position ?? feedStart)
  }

  get quarantine(): readonly Quarantined[] {
    return this.#open?.state.quarantine ?? []
  }

  get isOwned(): boolean {
    return this.#open !== null && this.#open.broken === null
  }

  stored(): Promise<FeedPosition> {
    return cursorAt(this.#engine.kernel, ({ name }) => name === `process/${this.#name}`)
  }

  async apply(events: readonly Occurrence[], next: FeedPosition): Promise<void> {
    if (events.length === 0 && this.#ahead.pass(next, this.#engine.kernel.clock.elapsed())) return
    const open = this.#open!
    const messages: OutgoingMessage[] = []
    for (const occurrence of events) {
      if (isAside(open.state.quarantine, occurrence)) continue
      const reactions = this.#react(occurrence)
      for (let i = 0; i < reactions.length; i++) messages.push(await this.#message(reactions[i]!, occurrence, i))
    }
    const data = { position: next, events: open.state.events + events.length }
    await open.write([{ type: 'advanced', data }], {
      cursors: { [open.id]: next },
      ...(messages.length > 0 && { send: messages }),
    })
    this.#ahead.wrote(this.#engine.kernel.clock.elapsed())
  }

  async setAside(poison: Quarantined): Promise<void> {
    await this.#open!.write([{ type: 'aside', data: poison }])
  }

  async idle(): Promise<void> {
    if (this.isOwned) return
    try {
      this.#open = await this.#engine.openTimeline(timelineId(`process/${this.#name}`), progressFold)
      this.#ahead = new Ahead(this.#engine.kernel.clock.elapsed())
    } catch (error) {
      if (!isReprise(error, 'OWNED', 'FENCED')) throw error
    }
  }

  isCurrent(): Promise<boolean> {
    return hasWritten(this.#engine.kernel, this.#open!.id, this.#open!)
  }

  async reload(): Promise<void> {
    // What it writes is refused: it is another history by now.
    await this.close().catch(() => undefined)
    this.#open = null
    this.#ahead = new Ahead(this.#engine.kernel.clock.elapsed())
  }

  async close(): Promise<void> {
    if (this.isOwned) await this.#open!.close()
  }

  #react(occurrence: Occurrence): readonly Outgoing[] {
    try {
      const call = () => this.#reactTo(occurrence)
      const reaction = callPure(
        this.#engine.kernel.guardsFolds(),
        `process/${this.#name}: handler`,
        call,
        placeOf(occurrence),
      )
      return reaction === undefined
        ? []
        : Array.isArray(reaction)
          ? (reaction as readonly Outgoing[])
          : [reaction as Outgoing]
    } catch (cause) {
      throw new PoisonError(occurrence, cause)
    }
  }

  async #message(outgoing: Outgoing, { at }: Occurrence, index: number): Promise<OutgoingMessage> {
    const { codec, sealer } = this.#engine.kernel
    const to = timelineId(await address(this.#engine, outgoing.to.prefix, outgoing.to.name, outgoing.id))
    // With the epoch: after a rollback another event has the same sequence, and its command must not be taken for the first one's.
    const id = `${this.#name}:${at.timeline}@${at.seq}.${at.epoch}#${index}` as MessageId
    const { correlation = `${at.timeline}@${at.seq}`, actor } = at.meta
    const meta = { causation: `${at.timeline}@${at.seq}`, correlation, ...(actor !== undefined && { actor }) }
    const letter: Letter = { command: outgoing.command, input: outgoing.input, meta }
    return { id, to, kind: letterKind, data: sealer.sealChecked(codec.encode(letter), messageContext(to, id)) }
  }
}
