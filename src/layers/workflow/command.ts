// A command: something that code asked for and that has an outcome, now or later. It is settled once, whoever comes first.

import type { Item } from './entries.ts'
import { leaveScope, type Scope } from './scope.ts'

export type CommandKind = 'step' | 'timer' | 'signal' | 'child' | 'loop'

/** What a kind of command does at each turn of its life. */
export interface Asked {
  readonly kind: CommandKind
  readonly hasUndo?: boolean
  start(command: Command): void
  onItem(command: Command, item: Item): void
  onAbandon?(command: Command): void
  /** At once, also in a replay. */
  onAsked?(command: Command): void
}

export class Command {
  readonly id: string
  readonly kind: CommandKind
  readonly scope: Scope
  /** Workflow time when it was asked for. */
  readonly askedAt: number
  readonly hasUndo: boolean
  isStarted = false
  isSettled = false
  /** Nobody waits for it any more: another branch won. */
  isAbandoned = false
  /** Asked for before the run was cancelled, and not settled then. */
  cancelled: string | null = null
  /** What the code is given. */
  readonly promise: Promise<unknown>
  readonly #asked: Asked
  readonly #settle: (command: Command) => boolean
  #resolve!: (value: unknown) => void
  #reject!: (error: unknown) => void

  constructor(scope: Scope, id: string, asked: Asked, askedAt: number, settle: (command: Command) => boolean) {
    this.id = id
    this.kind = asked.kind
    this.scope = scope
    this.askedAt = askedAt
    this.hasUndo = asked.hasUndo ?? false
    this.#asked = asked
    this.#settle = settle
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  resolve(value: unknown): void {
    if (this.#settle(this)) this.#resolve(value)
  }

  reject(error: unknown): void {
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
  promise.catch(ignore)
  return promise
}

function ignore(): void {}
