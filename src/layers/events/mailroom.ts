// The aggregates of one kind that are open in one engine, and the mail of the others. A command by mail is decided when
// its aggregate is next open in a process: at once if a process works for this kind. The message is consumed in the
// commit with its events, so it is applied once; a refusal is recorded as ":refused" and consumed in the same way.

import { timelineId } from '../../core/coordinate.ts'
import { ignoring, isReprise, RepriseError } from '../../core/errors.ts'
import { decideRetry, resolveRetry } from '../../core/retry/retry.ts'
import type { Head, Message } from '../../core/store/ports.ts'
import { headsInReach } from '../../core/store/shard-set.ts'
import { pollEvery } from '../../engine/feed/wake-up.ts'
import type { Host } from '../../engine/host/host.ts'
import { address } from '../../engine/host/mail-address.ts'
import type { Fold, OpenOptions } from '../../engine/model/definition.ts'
import { sleep } from '../../lib/waiting.ts'
import { refusedType } from './envelope.ts'
import { aggregateModel } from './model.ts'
import { OpenAggregate } from './open-aggregate.ts'
import type { AggregateModel, DoOptions, Metadata } from './types.ts'

/** A command as it is sent. */
export interface Letter {
  readonly command: string
  readonly input: unknown
  readonly meta?: Metadata
}

export const letterKind = 'command'
const lookMs = 1000

/** A command that throws is retried by the default policy; then it is treated as refused. */
const deliveries = resolveRetry({})

export function queueOf(name: string): string {
  return `events/${name}`
}

export class Mailroom<State> {
  readonly #engine: Host
  readonly #model: AggregateModel<State>
  readonly #openAggregates = new Map<string, Promise<OpenAggregate<State>>>()
  /** Commands that threw an error other than a refusal, by message. */
  readonly #postponed = new Map<string, { readonly failures: number; readonly until: number }>()
  /** The last call of `receive`. */
  readonly #receiving = new WeakMap<OpenAggregate<State>, Promise<unknown>>()
  #isServing = false

  constructor(engine: Host, model: AggregateModel<State>) {
    this.#engine = engine
    this.#model = model
    engine.declare(aggregateModel(model.name, model.prefix, model.fold as Fold<never>))
  }

  /** Opens the aggregate without ownership; the first command takes it. */
  async open(id: string, options: OpenOptions): Promise<OpenAggregate<State>> {
    for (;;) {
      const live = await (this.#openAggregates.get(id) ?? this.#begin(id, options))
      // Its last holder may have closed it during the wait: no poll would find mail for it any longer.
      if (live.isClosed) continue
      live.holders += 1
      return live
    }
  }

  async close(live: OpenAggregate<State>): Promise<void> {
    live.holders -= 1
    if (live.holders > 0) return
    live.isClosed = true
    this.#openAggregates.delete(live.id)
    await live.close()
  }

  /** This process handles the mail of all aggregates of this kind. */
  serve(): void {
    if (this.#isServing) return
    this.#isServing = true
    const where = queueOf(this.#model.name)
    this.#engine.serve(where, (head) => this.#claimed(head))
    this.#engine.requests.serveMail(where, this.#model.prefix, (to) => address(this.#engine, to, where))
    const stop = pollEvery(
      this.#engine.clock,
      lookMs,
      () => this.#look(),
      (error) => this.#engine.events.emit('problem', { where, error }),
    )
    this.#engine.onClose(async () => stop())
  }

  /**
   * Processes all mail in order; a message that waits for a retry blocks the rest. One call at a time: two calls would find the
   * same message, and the second would lose the aggregate.
   */
  async receive(live: OpenAggregate<State>): Promise<boolean> {
    const before = this.#receiving.get(live)
    const receiving = (before ?? Promise.resolve()).then(() => this.#receive(live))
    this.#receiving.set(
      live,
      receiving.catch(() => undefined),
    )
    return await receiving
  }

  async #receive(live: OpenAggregate<State>): Promise<boolean> {
    let hadMail = false
    for (;;) {
      const messages = await live.open.inbox()
      if (messages.length === 0) return hadMail
      for (const message of messages) {
        if (this.#pauseMs(message) > 0) return hadMail
        // Another process processed the message meanwhile: the rest is read again.
        await this.#deliver(live, message).catch(ignoring('CONFLICT'))
      }
      hadMail = true
    }
  }

  async #begin(id: string, options: OpenOptions): Promise<OpenAggregate<State>> {
    const { mustExist = false, evenInvalid = false, takeover = false } = options
    const opening = this.#engine
      .openTurns(timelineId(this.#model.prefix + id), this.#model.fold, { mustExist, evenInvalid })
      .then((turns) => new OpenAggregate(this.#engine, this.#model, id, turns, options))
    this.#openAggregates.set(id, opening)
    try {
      const live = await opening
      if (takeover) await live.own(options.signal)
      return live
    } catch (error) {
      this.#openAggregates.delete(id)
      throw error
    }
  }

  /** The aggregate is due because of mail, and the dispatcher claimed it for this process. */
  async #claimed(head: Head): Promise<void> {
    const id = head.timeline.slice(this.#model.prefix.length)
    const live = await this.open(id, { mustExist: true })
    try {
      await live.adopt(head)
      await this.receive(live)
      // Keeps the aggregate until the retry is due: if released, it would be claimed again at once, because its mail is
      // unread.
      for (let ms = await this.#pauseOf(live); ms > 0 && this.#isServing; ms = await this.#pauseOf(live)) {
        await sleep(this.#engine.clock, Math.min(ms, lookMs), { isAwaited: false })
        await this.receive(live)
      }
    } finally {
      await this.close(live)
    }
  }

  async #deliver(live: OpenAggregate<State>, message: Message): Promise<void> {
    const consume = [message.id]
    let letter: Letter
    try {
      letter = readLetter(this.#engine.openMessage(message), message)
    } catch (error) {
      await this.#refuse(live, { command: null, input: null }, error, consume)
      return
    }
    const options: DoOptions = { key: `mail:${message.id}`, meta: letter.meta ?? {} }
    try {
      await live.command(letter.command, letter.input, options, { consume })
      this.#postponed.delete(message.id)
    } catch (error) {
      if (isReprise(error) && !isRefusal(error)) throw error
      if (this.#postpone(message, error)) return
      this.#postponed.delete(message.id)
      await this.#refuse(live, letter, error, consume)
    }
  }

  /** Returns true if the command is retried later. The delay is not stored: another process decides it at once. */
  #postpone({ id }: Message, error: unknown): boolean {
    const { clock, random, worker } = this.#engine
    const failures = this.#postponed.get(id)?.failures ?? 0
    const given = { chance: () => random.number(), now: worker.now() }
    const { again, delayMs, counts } = decideRetry(deliveries, failures + 1, error, given)
    if (!again) return false
    this.#postponed.set(id, { failures: counts ? failures + 1 : failures, until: clock.elapsed() + delayMs })
    this.#engine.events.emit('problem', { where: queueOf(this.#model.name), error })
    return true
  }

  /** How long the first message still has to wait. */
  async #pauseOf(live: OpenAggregate<State>): Promise<number> {
    const [first] = this.#postponed.size > 0 ? await live.open.inbox(1) : []
    return first ? this.#pauseMs(first) : 0
  }

  #pauseMs({ id }: Pick<Message, 'id'>): number {
    return Math.max(0, (this.#postponed.get(id)?.until ?? 0) - this.#engine.clock.elapsed())
  }

  async #refuse(
    live: OpenAggregate<State>,
    letter: { readonly command: string | null; readonly input: unknown; readonly meta?: Metadata },
    error: unknown,
    consume: Message['id'][],
  ): Promise<void> {
    const reason = error instanceof Error ? error.message : String(error)
    const { command, input, meta = {} } = letter
    await live.note(refusedType, { command, input, reason }, meta, { consume })
  }

  /** Mail for aggregates that are open in this process is not claimed, so it is polled. */
  async #look(): Promise<void> {
    const openAggregates = await Promise.all([...this.#openAggregates.values()].map((live) => live.catch(() => null)))
    const open = openAggregates.filter((live): live is OpenAggregate<State> => live?.open.isOwner === true)
    const { store } = this.#engine.kernel
    const ids = open.map((live) => live.timeline)
    const heads = ids.length > 0 ? await headsInReach(store, ids) : []
    for (let i = 0; i < open.length; i++) if ((heads[i]?.mail ?? 0) > 0) await this.receive(open[i]!)
  }
}

function isRefusal(error: RepriseError): boolean {
  return isReprise(error, 'REFUSED', 'SUPERSEDED', 'INVALID_ARGUMENT', 'FOLD_FAILED', 'UNSERIALIZABLE')
}

function readLetter(data: unknown, message: Message): Letter {
  const letter = data as Letter | null
  if (
    message.kind !== letterKind ||
    typeof letter !== 'object' ||
    letter === null ||
    typeof letter.command !== 'string'
  ) {
    throw new RepriseError('INVALID_ARGUMENT', `a message of kind ${message.kind} is not a command`)
  }
  return letter
}

/** @example await send(rp, account, 'bob', 'deposit', { amount: 5 }, { id: 'transfer-17' }) */
export async function postCommand(
  engine: Host,
  to: { readonly name: string; readonly prefix: string },
  id: string,
  letter: Letter,
  messageId?: string,
): Promise<string> {
  const timeline = await address(engine, to.prefix + id, queueOf(to.name))
  return await engine.send(timeline, letterKind, letter, messageId === undefined ? {} : { id: messageId })
}
