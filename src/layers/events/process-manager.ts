// Process managers: events of some aggregates become commands to others. The commands are sent as mail in the commit
// that moves the position in the feed, each with an id derived from the event and its coordinate: sent once, applied once.

import { type MessageId, timelineId } from '../../core/coordinate.ts'
import { checkObject, checkOptions, checkText, checkValues, namesOf } from '../../core/options.ts'
import { type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { OutgoingMessage } from '../../core/store/ports.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { callPure } from '../../engine/base/guard/zone.ts'
import { type Reads, readsAttribute } from '../../engine/branch/consumers.ts'
import { PositionSink, type Progress, progressFold } from '../../engine/feed/position-sink.ts'
import { PoisonError, placeOf } from '../../engine/feed/sink.ts'
import { Subscription } from '../../engine/feed/subscription.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { address } from '../../engine/host/mail-address.ts'
import {
  checkName,
  type Engine,
  type Entity,
  type Fold,
  opens,
  type Workable,
  works,
} from '../../engine/model/definition.ts'
import { enlistsSend, type RequestDraft, type Sendable } from '../../engine/model/enlisting.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { messageContext } from '../../engine/storage/message.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { refusedType } from './envelope.ts'
import { type Letter, letterKind, postCommand, queueOf } from './mailroom.ts'
import { helperModel, processKind } from './model.ts'
import { ProcessManager } from './process-manager-handle.ts'
import {
  checkReading,
  type EventAt,
  type EventFrom,
  type EventSource,
  Events,
  type Occurrence,
  poisonValues,
} from './source.ts'
import type { CommandInput, Metadata } from './types.ts'

/** A command to an aggregate, before it is sent. */
export interface Outgoing {
  readonly to: { readonly name: string; readonly prefix: string }
  readonly id: string
  readonly command: string
  readonly input: unknown
}

export interface SendCommandOptions {
  readonly key?: string
  readonly meta?: Metadata
}

const knownSend = namesOf<SendCommandOptions>()('key meta')

export interface Commanded<Decide> {
  readonly name: string
  readonly prefix: string
  readonly decide: Decide
}

/** @example commandTo(account, 'bob', 'deposit', { amount: 5 }) */
export function commandTo<Decide, Name extends keyof Decide & string>(
  to: Commanded<Decide>,
  id: string,
  name: Name,
  ...[input]: unknown extends CommandInput<Decide, Name> ? [input?: undefined] : [input: CommandInput<Decide, Name>]
): Outgoing & Sendable<SendCommandOptions> {
  const outgoing = { to: { name: to?.name, prefix: to?.prefix }, id, command: name, input }
  checkOutgoing('commandTo()', outgoing)
  const enlist = (engine: Host, options: SendCommandOptions) => enlistCommand(engine, outgoing, options)
  // Not enumerable: a command is data, and compares as data.
  return Object.defineProperty(outgoing as never, enlistsSend, { value: enlist })
}

/** The request of a command that is sent in a transaction of the application. */
function enlistCommand(engine: Host, outgoing: Outgoing, options: SendCommandOptions): RequestDraft {
  checkOptions('send', options, knownSend)
  const { key = newId(engine.random) } = options
  const message = engine.message(outgoing.to.prefix + outgoing.id, letterKind, letterOf(outgoing, options), key)
  return { verb: 'send', target: queueOf(outgoing.to.name), id: message.to, topic: letterKind, data: message.data, key }
}

function letterOf({ command, input }: Outgoing, { meta }: SendCommandOptions): Letter {
  return { command, input, ...(meta && { meta }) }
}

function checkOutgoing(where: string, given: Outgoing): void {
  checkObject(`${where}: a command made by commandTo()`, given)
  checkText(`${where}: the aggregate of a command`, given.to?.prefix)
  checkText(`${where}: the id of the aggregate`, given.id)
  checkText(`${where}: the name of a command`, given.command)
}

/**
 * Sends a command by mail, from anywhere. It is applied when its aggregate is next open in a process that works for its
 * kind.
 */
export async function sendCommand(rp: Engine, outgoing: Outgoing, options: SendCommandOptions = {}): Promise<string> {
  checkOutgoing('sendCommand()', outgoing)
  checkOptions('sendCommand', options, knownSend)
  return await postCommand(hostOf(rp), outgoing.to, outgoing.id, letterOf(outgoing, options), options.key)
}

/** A command that arrived by mail and was refused. */
export interface RefusedLetter {
  readonly command: string | null
  readonly input: unknown
  readonly reason: string
}

export type Reaction = Outgoing | readonly Outgoing[] | undefined | void

/** One function per event type. */
export type Reactions<Sources extends readonly EventSource[]> = {
  readonly [Type in EventFrom<Sources[number]>['type']]?: (
    event: Extract<EventFrom<Sources[number]>, { readonly type: Type }>,
    at: EventAt,
  ) => Reaction
}

export interface ProcessManagerOptions<Sources extends readonly EventSource[], On> {
  readonly from: Sources
  readonly on: On
  /** Called when an aggregate refused a command that was sent by mail: the place to compensate. */
  readonly onRefused?: (letter: RefusedLetter, at: EventAt) => Reaction
  /** Policy for an event on which a reaction throws: stop and report it, or quarantine it and continue. Default: 'stop'. */
  readonly poison?: 'stop' | 'quarantine'
  /** How often an event is tried before it is treated as poison. Default: once. */
  readonly retry?: RetryPolicy
  /**
   * Include the events of forks of these aggregates. Default: false, because a fork is a trial that other readers do
   * not see.
   */
  readonly forks?: boolean
}

export interface ProcessManagerDefinition extends Entity<ProcessManager, undefined>, Workable {
  readonly kind: 'process-manager'
  readonly name: string
}

/** The subscription that the handles of one engine share. */
interface Running {
  readonly subscription: Subscription<Occurrence>
  readonly forget: () => void
  holders: number
}

const known = namesOf<ProcessManagerOptions<never, never>>()('from on onRefused poison retry forks')

export function processManager<Sources extends readonly EventSource[], On extends Reactions<Sources>>(
  name: string,
  options: ProcessManagerOptions<Sources, On>,
): ProcessManagerDefinition {
  checkName('process manager', name)
  checkReading(`process manager ${name}`, options)
  checkOptions(`process manager ${name}`, options, known)
  checkValues(`process manager ${name}`, options, poisonValues)
  checkFunctions(`process manager ${name}`, options, [], ['onRefused'])
  const on = options.on as unknown as Readonly<Record<string, (event: unknown, at: EventAt) => Reaction>>
  const reactTo = ({ type, event, at }: Occurrence): Reaction =>
    type === refusedType ? options.onRefused?.(event as unknown as RefusedLetter, at) : on[type]?.(event, at)
  const wants = (type: string) => Object.hasOwn(on, type) || (type === refusedType && options.onRefused !== undefined)
  const retry = resolveRetry({ attempts: 1, ...options.retry })
  const running = new WeakMap<Host, Running>()
  const start = (engine: Host): Running => {
    const held = running.get(engine)
    if (held) return held
    engine.declare(helperModel(processKind, name, `process/${name}`, progressFold as Fold<never>))
    const { poison = 'stop' } = options
    const reading = new Events(engine.kernel, options.from, wants, { forks: options.forks, fingerprints: true })
    const sink = new MailSink(engine, name, reactTo, {
      scopes: options.from.map(({ prefix }) => prefix),
      forks: options.forks === true,
    })
    const named = `process manager ${name}`
    const subscription = new Subscription(engine.kernel, { name: named, reading, sink, poison, retry })
    const forget = engine.onClose(() => subscription.stop())
    const manager = { subscription, holders: 0, forget }
    running.set(engine, manager)
    return manager
  }
  const share = (engine: Host): ProcessManager => {
    const manager = start(engine)
    manager.holders += 1
    return new ProcessManager(name, manager.subscription, async () => {
      manager.holders -= 1
      if (manager.holders > 0) return
      if (running.get(engine) === manager) running.delete(engine)
      manager.forget()
      await manager.subscription.stop()
    })
  }
  return {
    kind: 'process-manager',
    name,
    [opens]: async (engine: Host) => share(engine),
    [works]: (engine: Host) => void share(engine),
  }
}

/** On the timeline of a process manager: the time from which on ids of commands contain the fingerprint of their event. */
const printsAttribute = '$prints'

class MailSink extends PositionSink<Occurrence> {
  readonly #engine: Host
  readonly #name: string
  readonly #reactTo: (occurrence: Occurrence) => Reaction
  readonly #reads: Reads
  #printsSince = 0

  constructor(engine: Host, name: string, reactTo: (occurrence: Occurrence) => Reaction, reads: Reads) {
    super(engine, `process/${name}`)
    this.#reads = reads
    this.#engine = engine
    this.#name = name
    this.#reactTo = reactTo
  }

  /** Records which events it reads, for rollbacks, and from when on the ids of commands contain the event's fingerprint. */
  protected override async prepare(open: OpenTimeline<Progress>): Promise<boolean> {
    const { attributes = {} } = (await this.#engine.head(this.timeline)) ?? {}
    const since = attributes[printsAttribute] ?? (open.state.events === 0 ? 0 : this.#engine.clock.now())
    const noted = { [readsAttribute]: JSON.stringify(this.#reads), [printsAttribute]: since }
    this.#printsSince = Number(since)
    const isNoted = Object.entries(noted).every(([name, value]) => attributes[name] === value)
    if (!isNoted) await open.write([], { attributes: noted })
    return true
  }

  protected async effectsOf(events: readonly Occurrence[]): Promise<CommitExtras> {
    const send: OutgoingMessage[] = []
    for (const occurrence of events) {
      const reactions = this.#react(occurrence)
      for (let i = 0; i < reactions.length; i++) send.push(await this.#message(reactions[i]!, occurrence, i))
    }
    return send.length > 0 ? { send } : {}
  }

  #react(occurrence: Occurrence): readonly Outgoing[] {
    try {
      const { kernel, where } = this
      const call = () => this.#reactTo(occurrence)
      const reaction = callPure(kernel.guardsFolds(), `${where}: handler`, call, placeOf(occurrence))
      const all = reaction === undefined ? [] : [reaction as Outgoing | readonly Outgoing[]].flat()
      for (const outgoing of all) checkOutgoing(`${where}: a reaction`, outgoing)
      return all
    } catch (cause) {
      throw new PoisonError(occurrence, cause)
    }
  }

  async #message(outgoing: Outgoing, { at, fingerprint }: Occurrence, index: number): Promise<OutgoingMessage> {
    const { codec, sealer } = this.kernel
    const to = timelineId(await address(this.#engine, outgoing.to.prefix + outgoing.id, queueOf(outgoing.to.name)))
    // After a rollback or a restore another event has the same sequence, perhaps in the same epoch; its command must not be
    // confused with the first event's command. Commands for events from before fingerprints existed keep their ids.
    const isFormer = at.time < this.#printsSince || this.#engine.planted.has('print-left-out')
    const which = isFormer ? at.epoch : `${at.epoch}.${fingerprint}`
    const id = `${this.#name}:${at.timeline}@${at.seq}.${which}#${index}` as MessageId
    const { correlation = `${at.timeline}@${at.seq}`, actor } = at.meta
    const meta = { causation: `${at.timeline}@${at.seq}`, correlation, ...(actor !== undefined && { actor }) }
    const letter: Letter = { command: outgoing.command, input: outgoing.input, meta }
    return { id, to, kind: letterKind, data: sealer.sealChecked(codec.encode(letter), messageContext(to, id)) }
  }
}
