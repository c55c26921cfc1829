// within(rp, tx): starts, signals, messages and cancellations that commit with the application's own transaction, written through
// the client that the application already uses (within-client.ts). The store carries them out after the commit, once
// (docs/decisions/within.md).

import type { MessageId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { ExecuteStatement, RequestBox, RequestRow } from '../../core/store/ports.ts'
import { sleep } from '../../lib/waiting.ts'
import { throwIfAborted } from '../base/abortable-wait.ts'
import { whileAwaited } from '../base/stay-alive.ts'
import { type Host, hostOf } from '../host/host.ts'
import type { Engine } from '../model/definition.ts'
import {
  type Carried,
  type Enlistable,
  type Enlistment,
  type EnlistsAppend,
  type EnlistsItems,
  type EnlistsMail,
  enlists,
  enlistsAppend,
  enlistsItems,
  enlistsMail,
  enlistsSend,
  type RequestDraft,
  type Sendable,
  type SignalDefinition,
} from '../model/enlisting.ts'
import { type RunArguments, splitArguments, type TakesInput } from '../model/run-arguments.ts'
import { newId } from '../storage/kernel.ts'
import { mailTarget } from '../writing/request-drain.ts'
import { clientOf, type TransactionClient } from './within-client.ts'

export interface KeyOption {
  /** The same key is delivered once. Default: generated. */
  readonly key?: string
}

export interface StartedOptions {
  readonly timeout?: Duration
  readonly signal?: AbortSignal
}

export interface CancelOption extends KeyOption {
  /** Default: 'cancelled'. */
  readonly reason?: string
}

const knownCancel = namesOf<CancelOption>()('key reason')
const knownKey = namesOf<KeyOption>()('key')
const knownStarted = namesOf<StartedOptions>()('timeout signal')

/** The poll interval for a start that waits for a worker. */
const pollMs = 50

/**
 * @example await db.transaction(async (tx) => {
 *   await tx.insert(orders).values(order)
 *   await within(rp, tx).run(checkout, order, { id: order.id })
 * })
 */
export function within(engine: Engine, transaction: unknown): Within {
  const host = hostOf(engine)
  host.check()
  const { requests, shards } = host.kernel.store
  if (requests === null) {
    const what = shards
      ? 'the shards are in memory or of different kinds, so an application cannot open a transaction in them'
      : 'this store has no database in which an application could open a transaction'
    throw new RepriseError('STORE_UNSUPPORTED', what)
  }
  return new Within(host, requests, clientOf(transaction, requests.dialect))
}

export class Within {
  readonly #host: Host
  readonly #box: RequestBox
  readonly #client: TransactionClient

  /** @internal */
  constructor(host: Host, box: RequestBox, client: TransactionClient) {
    this.#host = host
    this.#box = box
    this.#client = client
  }

  /** Starts a run if the transaction commits. Await the returned handle only after the commit. */
  async run<Input, Handle, Options>(
    definition: Enlistable<Input, Handle, Options> & TakesInput,
    ...given: RunArguments<NoInfer<Input>, Options>
  ): Promise<Enlisted<Handle>> {
    if (typeof definition?.[enlists] !== 'function') throw cannot('started', 'a workflow')
    const [input, options] = splitArguments('run()', definition, given)
    const enlistment = await definition[enlists](this.#host, input as Input, (options ?? {}) as Options)
    const number = await this.#write(enlistment.draft)
    return new Enlisted(this.#host, this.#box, enlistment, number)
  }

  /** Sends a signal to a run if the transaction commits. */
  signal<T>(
    definition: EnlistsMail,
    id: string,
    signal: SignalDefinition<T>,
    ...value: [...Carried<T>, options?: KeyOption]
  ): Promise<void>
  signal(definition: EnlistsMail, id: string, signal: string, value?: unknown, options?: KeyOption): Promise<void>
  async signal(
    definition: EnlistsMail,
    id: string,
    signal: string | SignalDefinition<unknown>,
    value?: unknown,
    options: KeyOption = {},
  ): Promise<void> {
    const name: unknown = typeof signal === 'string' ? signal : signal?.name
    if (typeof name !== 'string' || name === '') {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        'signal() needs the name of a signal, or a signal made by signal()',
        {},
      )
    }
    await this.#mail(definition, 'signal', id, value === undefined ? { name } : { name, value }, options)
  }

  /** Requests the cancellation of a run if the transaction commits. */
  async cancel(definition: EnlistsMail, id: string, options: CancelOption = {}): Promise<void> {
    checkOptions('cancel', options, knownCancel)
    const { reason = 'cancelled', ...rest } = options
    if (typeof reason !== 'string') {
      const given = reason === null ? 'null' : typeof reason
      throw new RepriseError('INVALID_ARGUMENT', `cancel() needs a reason that is text (got ${given})`, { given })
    }
    await this.#mail(definition, 'cancel', id, { reason }, rest)
  }

  /** Sends a command to an aggregate if the transaction commits; the aggregate need not exist yet. */
  send<Options>(command: Sendable<Options>, options?: Options): Promise<void>
  /** Sends a message to a timeline's inbox if the transaction commits; the timeline need not exist yet. */
  send(timeline: string, kind: string, data: unknown, options?: KeyOption): Promise<void>
  async send(to: string | Sendable<unknown>, kind: unknown, data?: unknown, options: KeyOption = {}): Promise<void> {
    if (typeof to === 'string') await this.#write(this.#message(to, kind as string, data, options))
    else if (typeof to?.[enlistsSend] === 'function') await this.#write(to[enlistsSend](this.#host, kind ?? {}))
    else
      throw new RepriseError('INVALID_ARGUMENT', 'send() needs the id of a timeline, or a command made by commandTo()')
  }

  /**
   * Appends entries to a timeline if the transaction commits, by mail to the process that owns it. A process that works on the
   * definition (`rp.work`) applies them; the timeline need not exist yet.
   */
  async append<E>(
    definition: EnlistsAppend<E>,
    id: string,
    entries: NoInfer<E | readonly E[]>,
    options: KeyOption = {},
  ): Promise<void> {
    checkOptions('append', options, knownKey)
    if (typeof definition?.[enlistsAppend] !== 'function') throw cannot('appended to', 'a timeline')
    const { key = newId(this.#host.random) } = options
    await this.#write(definition[enlistsAppend](this.#host, id, entries, key))
  }

  /**
   * Adds items to a queue if the transaction commits, in their order. A consumer of the queue handles each (`itemQueue`); the
   * same key adds its items once.
   */
  async items<T>(queue: EnlistsItems<T>, items: readonly NoInfer<T>[], options: KeyOption = {}): Promise<void> {
    checkOptions('items', options, knownKey)
    if (typeof queue?.[enlistsItems] !== 'function') throw cannot('filled', 'a queue of items')
    const { key = newId(this.#host.random) } = options
    await this.#write(queue[enlistsItems](this.#host, items, key))
  }

  #message(timeline: string, kind: string, data: unknown, options: KeyOption): RequestDraft {
    checkOptions('send', options, knownKey)
    const fault = this.#host.models.find(timeline as never)?.mailFault?.(kind, data) ?? null
    if (fault !== null) {
      const what = `a message of the kind ${kind} to ${timeline}: ${fault}`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline, kind })
    }
    const { key = newId(this.#host.random) } = options
    const { to, data: sealed } = this.#host.message(timeline, kind, data, key as MessageId)
    return { verb: 'send', target: mailTarget, id: to, topic: kind, data: sealed, key }
  }

  async #mail(
    definition: EnlistsMail,
    verb: 'signal' | 'cancel',
    id: string,
    data: unknown,
    options: KeyOption,
  ): Promise<void> {
    checkOptions(verb, options, knownKey)
    if (typeof definition?.[enlistsMail] !== 'function') throw cannot('signalled', 'a workflow')
    await this.#write(definition[enlistsMail](this.#host, { verb, id, data, ...options }))
  }

  async #write(draft: RequestDraft): Promise<number> {
    const { id: store } = await this.#host.identity.load()
    const execute: ExecuteStatement = (text, values) => this.#client.query(text, values)
    const written = await this.#box.enlist({ ...draft, store }, execute).catch((error: unknown) => {
      throw isNoStore(error) ? otherDatabase(error) : error
    })
    if (written === null) throw otherDatabase()
    return written.number
  }
}

/** A start that was written in a transaction. It can be awaited once the transaction has committed. */
export class Enlisted<Handle> {
  readonly id: string
  readonly timeline: string
  readonly #host: Host
  readonly #box: RequestBox
  readonly #enlistment: Enlistment<Handle>
  readonly #number: number

  /** @internal */
  constructor(host: Host, box: RequestBox, enlistment: Enlistment<Handle>, number: number) {
    this.#host = host
    this.#box = box
    this.#enlistment = enlistment
    this.#number = number
    this.id = enlistment.id
    this.timeline = enlistment.timeline
  }

  /**
   * The handle of the run, once a worker has started it. Rejects with NOT_COMMITTED before the commit and after a rollback, and
   * with REQUEST_REFUSED if the start can never be carried out.
   */
  async started(options: StartedOptions = {}): Promise<Handle> {
    checkOptions('started()', options, knownStarted)
    return await whileAwaited(this.#started(options), this.#host.clock)
  }

  async #started({ timeout, signal }: StartedOptions): Promise<Handle> {
    const { clock } = this.#host
    const end = timeout === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(timeout, 'timeout')
    for (let wasSeen = false; ; ) {
      throwIfAborted(signal, `waiting for ${this.timeline} to start`)
      // The row first: it vanishes in the commit that starts the run.
      const row = await this.#row()
      if (row === null && wasSeen) return await this.#enlistment.handle()
      if (row === null) return await this.#ofEarlierCommit()
      if (row.problem !== null) throw refused(this.timeline, row)
      wasSeen = true
      if (clock.elapsed() >= end) throw new RepriseError('TIMEOUT', `${this.timeline} has not started yet`)
      await sleep(clock, pollMs, signal ? { signal } : {})
    }
  }

  /** Without a row the start was carried out, or never committed: in the latter case, another run may have the id. */
  async #ofEarlierCommit(): Promise<Handle> {
    if (!(await this.#host.head(this.timeline))) throw notCommitted(this.timeline)
    try {
      return await this.#enlistment.handle()
    } catch (error) {
      throw isReprise(error, 'EXISTS') ? notCommitted(this.timeline, error) : error
    }
  }

  /** A number may be used again after a rollback. */
  async #row(): Promise<RequestRow | null> {
    const { verb, target, id } = this.#enlistment.draft
    const [row] = await this.#box.list({ number: this.#number, limit: 1 })
    return row && row.verb === verb && row.target === target && row.id === id ? row : null
  }
}

function cannot(done: string, kind: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `only ${kind} can be ${done} in a transaction of the application`)
}

/** Undefined schema, function, table or column, in the words of each database. */
function isNoStore(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown }
  return (
    ['3F000', '42883', '42P01'].includes(String(code)) || /no such table: (?:main\.)?reprise_/.test(String(message))
  )
}

function otherDatabase(cause?: unknown): RepriseError {
  const what = 'the transaction is in another database than the store, so the two could not commit together'
  return new RepriseError('OTHER_DATABASE', what, {}, cause)
}

function notCommitted(timeline: string, cause?: unknown): RepriseError {
  const what = `the transaction that starts ${timeline} has not committed`
  return new RepriseError('NOT_COMMITTED', what, { timeline }, cause)
}

function refused(timeline: string, { number, problem }: RequestRow): RepriseError {
  return new RepriseError('REQUEST_REFUSED', `${timeline} cannot be started: ${problem}`, { timeline, request: number })
}
