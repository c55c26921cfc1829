// A command: a request of the code that has an outcome, now or later. It settles once, with the first outcome.

import type { Item } from '../history/entries.ts'
import type { Position } from './observations.ts'
import { leaveScopeWith, type Scope } from './scope.ts'
import type { KeyedStep } from './step-key.ts'

export type CommandKind = 'step' | 'timer' | 'signal' | 'child' | 'loop' | 'undo'

/** The callbacks of a kind of command during its life. */
export interface CommandSpec {
  readonly kind: CommandKind
  readonly hasUndo?: boolean
  /** The digest of the input that a step declares. */
  readonly input?: string | null
  /** The ids of the commands that a step declares to depend on. */
  readonly after?: readonly string[] | null
  /** The time at which the command ends in any case. */
  readonly until?: number
  start(command: Command): void
  onItem(command: Command, item: Item): void
  onAbandon?(command: Command): void
  /** Called at once, also in a replay. */
  onRequested?(command: Command): void
}

/** A promise that records whether it is observed: an unobserved failure would be lost silently. */
export class ObservedPromise extends Promise<unknown> {
  isObserved = false

  static override get [Symbol.species]() {
    return Promise
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise that records whether it is observed.
  override then<A = unknown, B = never>(
    onfulfilled?: ((value: unknown) => A | PromiseLike<A>) | null,
    onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.isObserved = true
    return super.then(onfulfilled, onrejected)
  }
}

/**
 * `await` reads a promise's constructor. If that is `Promise`, it awaits the object directly, without a wrapper promise
 * and two more rounds of microtasks; the read also shows that the promise is observed. Used for runs from behaviour
 * `awaitsDirectly` on (history/entries.ts).
 */
class DirectGiven extends ObservedPromise {
  static {
    Object.defineProperty(DirectGiven.prototype, 'constructor', {
      get(this: ObservedPromise): PromiseConstructor {
        this.isObserved = true
        return Promise
      },
    })
  }
}

/** @example givenOf(isDirect, (resolve) => { this.#resolve = resolve }) */
export function givenOf(
  isDirect: boolean,
  executor: ConstructorParameters<typeof ObservedPromise>[0],
): ObservedPromise {
  return isDirect ? new DirectGiven(executor) : new ObservedPromise(executor)
}

export class Command implements KeyedStep {
  readonly id: string
  readonly kind: CommandKind
  readonly scope: Scope
  /** Workflow time when the code issued the command. */
  readonly requestedAt: number
  readonly hasUndo: boolean
  readonly until: number | null
  isStarted = false
  /** Issued by code that is past its replay, so no earlier owner can have begun it. */
  readonly isNew: boolean
  isSettled = false
  /** No branch waits for the command any longer: another branch won. */
  isAbandoned = false
  /** The reason, if the command was issued before the run was cancelled and not settled by then. */
  cancelled: string | null = null
  failure: { readonly error: unknown } | null = null
  /** The promise that the code receives. */
  readonly promise: ObservedPromise
  readonly input: string | null
  readonly after: readonly string[] | null
  /** The sequence of the last outcome that was delivered before the command was issued. */
  since = 0
  /** The observations of the scope up to the moment of the command. */
  readonly observed: Position
  /** Null until the key is first read. */
  keyUsed: string | null = null
  readonly #keyOf: (command: Command) => string
  readonly #spec: CommandSpec
  readonly #settle: (command: Command) => boolean
  #resolve!: (value: unknown) => void
  #reject!: (error: unknown) => void

  constructor(
    scope: Scope,
    id: string,
    spec: CommandSpec,
    requestedAt: number,
    settle: (command: Command) => boolean,
    isDirect: boolean,
    isNew: boolean,
    keyOf: (command: Command) => string,
  ) {
    this.id = id
    this.kind = spec.kind
    this.scope = scope
    this.requestedAt = requestedAt
    this.hasUndo = spec.hasUndo ?? false
    this.until = spec.until ?? null
    this.#spec = spec
    this.#settle = settle
    this.isNew = isNew
    this.input = spec.input ?? null
    this.after = spec.after ?? null
    this.observed = scope.observed.here()
    this.#keyOf = keyOf
    this.promise = givenOf(isDirect, (resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** The idempotency key of a step. */
  get key(): string {
    this.keyUsed ??= this.#keyOf(this)
    return this.keyUsed
  }

  /** The code has awaited the promise, or passed it to something that does. */
  get isObserved(): boolean {
    return this.promise.isObserved
  }

  resolve(value: unknown): void {
    if (this.#settle(this)) this.#resolve(value)
  }

  reject(error: unknown): void {
    if (!this.isSettled) this.failure = { error }
    if (!this.#settle(this)) return
    tolerated(this.promise)
    this.#reject(error)
  }

  start(): void {
    this.isStarted = true
    leaveScopeWith(startNow, this)
  }

  /** @internal Outside of the scope of the code. */
  startOutside(): void {
    this.#spec.start(this)
  }

  /** Delivers an outcome, also to an abandoned command. */
  onItem(item: Item): void {
    this.#spec.onItem(this, item)
  }

  onAbandon(): void {
    this.#spec.onAbandon?.(this)
  }
}

function startNow(command: Command): void {
  command.startOutside()
}

/** A failure that no code awaits must not end the process. */
export function tolerated<T>(promise: Promise<T>): Promise<T> {
  const given = promise instanceof ObservedPromise ? promise : null
  const isObserved = given?.isObserved ?? false
  // Bypasses the promise's own `then`, which would mark it as observed.
  Promise.prototype.then.call(promise, undefined, ignore)
  if (given) given.isObserved = isObserved
  return promise
}

function ignore(): void {}
