// A command: something that code asked for and that has an outcome, now or later. It is settled once, whoever comes first.

import type { Item } from '../history/entries.ts'
import type { KeyedStep } from './key.ts'
import type { Position } from './observed.ts'
import { leaveScope, type Scope } from './scope.ts'

export type CommandKind = 'step' | 'timer' | 'signal' | 'child' | 'loop' | 'undo'

/** What a kind of command does at each turn of its life. */
export interface Asked {
  readonly kind: CommandKind
  readonly hasUndo?: boolean
  /** The digest of the input that a step declares. */
  readonly input?: string | null
  /** When it is over whatever happens. */
  readonly until?: number
  start(command: Command): void
  onItem(command: Command, item: Item): void
  onAbandon?(command: Command): void
  /** At once, also in a replay. */
  onAsked?(command: Command): void
}

/** A promise that knows whether anybody looks at it: a failure that nobody looks at would be lost in silence. */
export class Given extends Promise<unknown> {
  isObserved = false

  static override get [Symbol.species]() {
    return Promise
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise, and counts who asks.
  override then<A = unknown, B = never>(
    onfulfilled?: ((value: unknown) => A | PromiseLike<A>) | null,
    onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.isObserved = true
    return super.then(onfulfilled, onrejected)
  }
}

/**
 * `await` asks a promise for its constructor. Told that it is a plain one, it waits for it directly, without a promise around
 * it and two more rounds of microtasks; that it asks says that somebody looks. For runs that began so (entries.ts).
 */
class DirectGiven extends Given {
  static {
    Object.defineProperty(DirectGiven.prototype, 'constructor', {
      get(this: Given): PromiseConstructor {
        this.isObserved = true
        return Promise
      },
    })
  }
}

/** @example givenOf(isDirect, (resolve) => { this.#resolve = resolve }) */
export function givenOf(isDirect: boolean, executor: ConstructorParameters<typeof Given>[0]): Given {
  return isDirect ? new DirectGiven(executor) : new Given(executor)
}

export class Command implements KeyedStep {
  readonly id: string
  readonly kind: CommandKind
  readonly scope: Scope
  /** Workflow time when it was asked for. */
  readonly askedAt: number
  readonly hasUndo: boolean
  readonly until: number | null
  isStarted = false
  /** Asked for by code that went on in this process: nobody else can have begun it. */
  readonly isNew: boolean
  isSettled = false
  /** Nobody waits for it any more: another branch won. */
  isAbandoned = false
  /** Asked for before the run was cancelled, and not settled then. */
  cancelled: string | null = null
  failure: { readonly error: unknown } | null = null
  /** What the code is given. */
  readonly promise: Given
  readonly input: string | null
  /** Up to the moment in which it was asked for. */
  readonly observed: Position
  /** Null until the call, or somebody else, asked for it. */
  keyUsed: string | null = null
  readonly #keyOf: (command: Command) => string
  readonly #asked: Asked
  readonly #settle: (command: Command) => boolean
  #resolve!: (value: unknown) => void
  #reject!: (error: unknown) => void

  constructor(
    scope: Scope,
    id: string,
    asked: Asked,
    askedAt: number,
    settle: (command: Command) => boolean,
    isDirect: boolean,
    isNew: boolean,
    keyOf: (command: Command) => string,
  ) {
    this.id = id
    this.kind = asked.kind
    this.scope = scope
    this.askedAt = askedAt
    this.hasUndo = asked.hasUndo ?? false
    this.until = asked.until ?? null
    this.#asked = asked
    this.#settle = settle
    this.isNew = isNew
    this.input = asked.input ?? null
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

  /** The code has awaited it, or handed it to something that does. */
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
    leaveScope(() => this.#asked.start(this))
  }

  /** An outcome for it: delivered also when it is abandoned. */
  onItem(item: Item): void {
    this.#asked.onItem(this, item)
  }

  onAbandon(): void {
    this.#asked.onAbandon?.(this)
  }
}

/** A failure that nobody awaits must not end the process. */
export function tolerated<T>(promise: Promise<T>): Promise<T> {
  const given = promise instanceof Given ? promise : null
  const isObserved = given?.isObserved ?? false
  // Not by its own method: that somebody looks at it is said by others.
  Promise.prototype.then.call(promise, undefined, ignore)
  if (given) given.isObserved = isObserved
  return promise
}

function ignore(): void {}
