// Carries out the requests that applications wrote in transactions of their own (core/store/requests.ts), in every process that
// works. A request is removed by the commit that carries it out, so it happens once, whichever process does it and whenever it
// is killed. Requests of one transaction are carried out in order; a request that can never be carried out is kept with the
// reason, and the others continue.

import type { MessageId } from '../../core/coordinate.ts'
import { timelineId } from '../../core/coordinate.ts'
import { isPassingStoreFailure, isReprise, RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { NewRequest, OutgoingMessage, RequestQuery, RequestRow, RequestTarget } from '../../core/store/ports.ts'
import { inexactNumber } from '../../lib/inexact-number.ts'
import { refusalError } from '../base/refusal-error.ts'
import { type Kernel, newId, submit } from '../storage/kernel.ts'
import { messageTo } from '../storage/message.ts'

/**
 * Carries a request out with a commit that settles it. 'done before': there was nothing left to commit, and the request is
 * removed. Throws if it can never be carried out.
 */
export type RequestHandler = (request: RequestRow) => Promise<'settled' | 'done before'>

/** Enters the timeline in the queue of its workers, so that they find the message. */
type Address = (timeline: string) => Promise<unknown>

type Addressed = Pick<NewRequest, 'verb' | 'target' | 'id'>

/** The target of messages: any process can deliver them. */
export const mailTarget = 'mail'

/** The store notifies; this is for notifications that were lost or switched off. */
const pollMs = 3000
const takenAtOnce = 200
/** One drain passes at most this many requests whose group has to wait. */
const passedMax = 5000
/** How long a process without a needed key leaves the requests to others. */
const keylessMs = 10_000
const problemLengthMax = 2000

/** The reason the rest of a group is not carried out now. `releases`: another process may be able to carry it out. */
interface Stuck {
  readonly group: string
  readonly releases: boolean
}

export class RequestDrain {
  readonly #kernel: Kernel
  readonly #handlers = new Map<RequestTarget, RequestHandler>()
  /** By the prefix of the timelines. */
  readonly #addresses = new Map<string, Address>()
  #unlisten: (() => void) | null = null
  #cancelTimer: (() => void) | null = null
  #draining: Promise<void> | null = null
  #wantsAnother = false
  #isStopped = false
  #failure: unknown = null
  /** Monotonic time before which this process takes no requests. */
  #restsUntil = Number.NEGATIVE_INFINITY

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** The error of the last attempt to read requests. Null: it succeeded, or there was none yet. */
  get failure(): unknown {
    return this.#failure
  }

  get isDraining(): boolean {
    return this.#draining !== null
  }

  /** This process carries out requests of the target, and delivers messages. */
  serve(target: RequestTarget, handler: RequestHandler): void {
    if (this.#kernel.store.requests === null || this.#isStopped) return
    this.#handlers.set(target, handler)
    this.#handlers.set(mailTarget, (request) => this.#deliver(request))
    this.#unlisten ??= this.#kernel.store.listen((_, mayHaveRequests = true) => mayHaveRequests && this.wake())
    this.wake()
  }

  /** The same for messages to the timelines of a definition, which have to be addressed before they are delivered. */
  serveMail(target: RequestTarget, prefix: string, address: Address): void {
    this.#addresses.set(prefix, address)
    this.serve(target, (request) => this.#deliver(request))
  }

  /** A request may have been written. */
  wake(): void {
    if (this.#isStopped || this.#handlers.size === 0) return
    if (this.#draining) {
      this.#wantsAnother = true
      return
    }
    this.#cancelTimer?.()
    const restMs = this.#restsUntil - this.#kernel.clock.elapsed()
    if (restMs > 0) {
      this.#cancelTimer = this.#kernel.clock.after(restMs, () => this.wake())
      return
    }
    this.#draining = this.#drain()
      .then(() => {
        this.#failure = null
      })
      .catch((error) => {
        this.#failure = error
        if (!this.#isStopped) this.#kernel.events.emit('problem', { where: 'requests', error })
      })
      .finally(() => {
        this.#draining = null
        if (this.#isStopped) return
        if (this.#wantsAnother) {
          this.#wantsAnother = false
          this.wake()
        } else this.#cancelTimer = this.#kernel.clock.after(pollMs, () => this.wake())
      })
  }

  /** Waits for the requests in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#unlisten?.()
    this.#cancelTimer?.()
    await this.#draining
  }

  /** The time of the next poll if requests of this process's targets wait. Null: none waits. */
  async nextDue(): Promise<number | null> {
    const targets = [...this.#handlers.keys()]
    const rows = targets.length === 0 ? [] : await this.list({ targets, hasProblem: false, limit: 1 })
    return rows.length === 0 ? null : this.#kernel.worker.now() + pollMs
  }

  /** In the order of their numbers. A store without requests has none. */
  async list(query: RequestQuery): Promise<RequestRow[]> {
    return (await this.#kernel.store.requests?.list(query)) ?? []
  }

  /** 'removed', or null: it waits again. */
  async mark(number: number, as: 'removed' | null): Promise<void> {
    await this.#kernel.store.requests?.mark(number, as)
  }

  /** The payload of a request that a process writes, sealed for its target and id. */
  seal(address: Addressed, value: unknown): Uint8Array {
    const { codec, sealer } = this.#kernel
    return sealer.sealChecked(codec.encode(value), contextOf(address))
  }

  /** The payload of a request. `json`: the value of a request that SQL wrote, from its payload (undefined: none). */
  open<Value>(request: RequestRow, json: (payload: unknown) => Value): Value {
    const { codec, sealer } = this.#kernel
    const { data } = request
    if (data instanceof Uint8Array) return codec.decode(sealer.openChecked(data, contextOf(request))) as Value
    return json(parsed(data))
  }

  /** A group that must wait is skipped, and retried at the next poll: it must not hold back the others. */
  async #drain(): Promise<void> {
    const { store, worker } = this.#kernel
    const stuck = new Set<string>()
    const released = new Set<string>()
    const except: number[] = []
    while (!this.#isStopped && except.length < passedMax) {
      const id = await worker.register()
      const targets = [...this.#handlers.keys()]
      const rows = await store.requests!.take({ worker: id, targets, limit: takenAtOnce, except })
      // Without the transactions, all requests of a SQLite file are one group.
      const groups = groupsOf(rows).filter(([first]) => !stuck.has(first!.group))
      const ended = await Promise.all(groups.map((group) => this.#carryOutGroup(group)))
      for (const each of ended) {
        if (each) stuck.add(each.group)
        if (each?.releases) released.add(each.group)
      }
      await this.#release(rows.filter(({ group }) => released.has(group)))
      if (rows.length < takenAtOnce || groups.length === 0) return
      for (const { number, group } of rows) if (stuck.has(group)) except.push(number)
    }
  }

  /** In order. Null: all of them were carried out, or are kept with a problem. */
  async #carryOutGroup(group: readonly RequestRow[]): Promise<Stuck | null> {
    for (const request of group) {
      const stuck = (releases: boolean) => ({ group: request.group, releases })
      try {
        await this.#carryOut(request)
      } catch (error) {
        if (this.#isStopped) return stuck(false)
        this.#kernel.events.emit('problem', { where: `request ${request.number}`, error })
        if (mayPass(error)) return stuck(isReprise(error, 'KEY_MISSING'))
        await this.#kernel.store.requests!.mark(request.number, { problem: problemOf(error) })
      }
    }
    return null
  }

  /** A process with the key can take them, so this process leaves the requests to it for a while. */
  async #release(rows: readonly RequestRow[]): Promise<void> {
    if (rows.length === 0 || this.#isStopped) return
    const { clock, store } = this.#kernel
    this.#restsUntil = clock.elapsed() + keylessMs
    await store.requests!.release(rows.map(({ number }) => number))
  }

  async #carryOut(request: RequestRow): Promise<void> {
    if (this.#isStopped) throw new RepriseError('CLOSED', 'the engine is closing')
    const handler = this.#handlers.get(request.target)!
    if ((await handler(request)) === 'done before') await this.#kernel.store.requests!.mark(request.number, 'removed')
  }

  async #deliver(request: RequestRow): Promise<'settled'> {
    if (request.verb !== 'send') throw unknownVerb(request)
    const message = this.#messageOf(request)
    for (const [prefix, address] of this.#addresses) if (isWithin(prefix, message.to)) await address(message.to)
    return await this.deliver(request, message)
  }

  /** Sends a message, and settles the request in the same commit. */
  async deliver({ number }: RequestRow, message: OutgoingMessage): Promise<'settled'> {
    const outcome = await submit(this.#kernel, { guard: null, send: [message], settles: [number] })
    // CONFLICT: another process carried it out.
    if (!outcome.ok && outcome.code !== 'CONFLICT') throw refusalError(message.to, outcome)
    return 'settled'
  }

  #messageOf(request: RequestRow): OutgoingMessage {
    const { id, topic, data, key } = request
    const to = timelineId(id)
    if (data instanceof Uint8Array) {
      if (topic === null || key === null) throw malformed(request)
      return { id: key as MessageId, to, kind: topic, data }
    }
    if (topic === null || topic === '') throw new RepriseError('INVALID_ARGUMENT', 'a message must have a kind')
    const value = parsed(data)
    const fault = this.#kernel.models.find(to)?.mailFault?.(topic, value) ?? null
    if (fault !== null) throw new RepriseError('INVALID_ARGUMENT', `a message of the kind ${topic} to ${to}: ${fault}`)
    return messageTo(this.#kernel, to, topic, value, key ?? newId(this.#kernel.random))
  }
}

/** The JSON that SQL wrote. Undefined: none. */
function parsed(data: string | null): unknown {
  if (data === null) return undefined
  const inexact = inexactNumber(data)
  if (inexact === null) return JSON.parse(data)
  const what = `the number ${inexact} in the payload cannot be represented exactly: send it as text`
  throw new RepriseError('INVALID_ARGUMENT', what, { number: inexact })
}

function groupsOf(rows: readonly RequestRow[]): RequestRow[][] {
  const groups = new Map<string, RequestRow[]>()
  for (const row of rows) {
    const group = groups.get(row.group)
    if (group) group.push(row)
    else groups.set(row.group, [row])
  }
  return [...groups.values()]
}

function contextOf({ verb, target, id }: Addressed): Uint8Array {
  return new TextEncoder().encode(`request\n${verb}\n${target}\n${id}`)
}

export function unknownVerb({ verb, target }: RequestRow): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `${target} has no requests of the kind ${verb}`, { verb, target })
}

function malformed({ number }: RequestRow): RepriseError {
  return new RepriseError('MALFORMED', `request ${number} was not written by this release or by its functions`)
}

/** The request may succeed later, or in another process. */
function mayPass(error: unknown): boolean {
  return isPassingStoreFailure(error) || isReprise(error, 'CLOSED', 'FENCED', 'KEY_MISSING', 'STORE_READ_ONLY')
}

function problemOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, problemLengthMax)
}
