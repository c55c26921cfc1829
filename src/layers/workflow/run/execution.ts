// One execution of workflow code against its history. Outcomes are delivered one at a time, and between two of them the
// code runs as far as it can, so that races and branches interleave in every replay as they did the first time. No
// command starts before all of history is delivered; an outcome of a command that the code never issues is a divergence.

import { RepriseError } from '../../../core/errors.ts'
import { whenDrained } from '../../../engine/base/after-microtasks.ts'
import { userLine } from '../../../engine/base/guard/refusal.ts'
import { thisTick } from '../../../engine/base/yielder.ts'
import type { Item } from '../history/entries.ts'
import { cancelledError } from '../history/failure.ts'
import { Command, type CommandKind, type CommandSpec, givenOf, tolerated } from './command.ts'
import { describeItem, divergence, type Expected } from './divergence.ts'
import { type Digester, Observed } from './observations.ts'
import type { Seed } from './randomness.ts'
import { leaveScope, leaveScopeWith, readableId, Scope } from './scope.ts'

export interface ExecutionHooks {
  readonly digester: Digester
  soon(call: () => void): void
  after(delayMs: number, call: () => void): void
  /** The seed of values that are drawn after the outcome with this sequence was delivered. */
  seed(seq: number): Seed
  keyOf(command: Command): string
  /** The code's promises are awaited directly (command.ts). */
  readonly isDirect: boolean
  onSignal(item: Extract<Item, { kind: 'signal' }>): void
  onUpdate(item: Extract<Item, { kind: 'update' }>): void
  onCancel(item: Extract<Item, { kind: 'cancel' }>): void
  /**
   * False while the run is rolled back (its code then only registers its undos), held, paused or replayed dry. Also
   * false, except for timers and signals, until its mail was read.
   */
  mayStart(kind: CommandKind): boolean
  /** True if a re-run kept the command's outcome, which is then delivered instead of a start. */
  reuses(command: Command): boolean
  /** Commands that history has begun and that have no outcome: the code must issue them again. */
  begun(): readonly string[]
  /** All of history was delivered. */
  onLive(): void
  /** Everything that could run has run. */
  onQuiet(): void
  onDiverged(error: RepriseError): void
  /** The code broke a rule: the run fails with this error, even if the code catches it. */
  onBlamed(error: RepriseError): void
}

/** The execution yields to the event loop after this many deliveries in a row. */
const yieldEvery = 256

/** How long code may take to issue the command that history expects: first in event loop turns, then in milliseconds. */
const patienceTurns = 20
const patienceMs = [1, 4, 15, 60]

/** Commands with outside effects: their failures must not be lost. */
const canBeLost: ReadonlySet<CommandKind> = new Set(['step', 'child'])

export class Execution {
  readonly root: Scope
  readonly digester: Digester
  readonly updates: Observed
  readonly #hooks: ExecutionHooks
  readonly #isDirect: boolean
  /** By path, except the root. Null until the first branch, loop or handler. */
  #scopes: Map<string, Scope> | null = null
  #loops: Map<string, number> | null = null
  readonly #waiting = new Set<Command>()
  /** Commands that no branch waits for, but whose outcome must be known because they may have to be undone. */
  #orphans: Set<Command> | null = null
  #queue: Item[]
  /** The index of the last cancellation in the queue. */
  #cancelAt = -1
  #at = 0
  #isDraining = false
  #suspicion = 0
  #delivered = 0
  #onQuiet: (() => void)[] = []
  /** Steps wait for a cancellation to be delivered. */
  #hasHeldBack = false
  /** Failures of commands that were not observed at the time. */
  #unseen: Unseen[] = []
  #time: number
  /** The sequence of the last delivered outcome. */
  #seq = 0
  /** The tick of the event loop in which the code last ran as far as it could. */
  #restedIn = -1
  #blamed: RepriseError | null = null
  isReplaying = true
  isStopped = false
  /** The code has returned or thrown. */
  isOver = false

  constructor(hooks: ExecutionHooks, items: readonly Item[], startedAt: number, input?: unknown) {
    this.#hooks = hooks
    this.digester = hooks.digester
    this.updates = new Observed(hooks.digester)
    this.#isDirect = hooks.isDirect
    this.#queue = items.length > 0 ? [...items] : []
    this.#time = startedAt
    this.root = new Scope(this, '', null)
    this.root.observed.add('~input', input)
  }

  /** Workflow time: the time at which the last delivered outcome was recorded. */
  get time(): number {
    return this.#time
  }

  seed(): Seed {
    return this.#hooks.seed(this.#seq)
  }

  /** Unsettled commands in the order in which they were issued. */
  get open(): ReadonlySet<Command> {
    return this.#waiting
  }

  /** All of history was delivered: from here on the code is new. */
  get isAtEnd(): boolean {
    return !this.isReplaying || this.#at >= this.#queue.length
  }

  /** A failure that the code never observed, if there is one; read it after the code has ended. */
  get lostFailure(): { readonly error: unknown } | null {
    return this.#unseen.find((command) => !command.isObserved && !command.isAbandoned)?.failure ?? null
  }

  /** All outcomes are delivered and the code waits. */
  get isQuiet(): boolean {
    return this.isStopped || (!this.isReplaying && !this.#isDraining && this.#at >= this.#queue.length)
  }

  /** The rule violation of the code, if there is one. */
  get blamed(): RepriseError | null {
    return this.#blamed
  }

  /**
   * The error is not thrown, because it could reach unrelated code; the run fails all the same. In a replay the failure
   * waits for the end of history, because the run got that far before.
   */
  blame(error: RepriseError): void {
    if (this.isStopped || this.isOver || this.#blamed) return
    this.#blamed = error
    if (!this.isReplaying) leaveScope(() => whenDrained(() => this.#failIfBlamed()))
  }

  /**
   * Code runs when an outcome is delivered and stops at the next wait. Code that continues by itself in a later tick
   * waited for something that is not in history, and is blamed for it.
   */
  blameIfLate(): RepriseError | null {
    if (this.isReplaying || this.isStopped || this.#isDraining || this.#restedIn === thisTick()) return null
    const at = userLine()
    const why = 'after waiting for something that is not in history (a client, a stream, another promise, an import)'
    const cure = "wait for it in a step, as in ctx.step('name', () => …), and import at the top of the module"
    const error = new RepriseError('NON_DETERMINISTIC', `workflow code continued at ${at} ${why}: ${cure}`, {
      call: 'await',
      at,
    })
    this.blame(error)
    return error
  }

  whenQuiet(): Promise<void> {
    return this.isQuiet ? Promise.resolve() : new Promise((resolve) => this.#onQuiet.push(resolve))
  }

  /** True if a call with an undo has no known outcome yet. */
  get isUndoable(): boolean {
    if (this.#orphans && this.#orphans.size > 0) return true
    for (const command of this.#waiting) if (command.hasUndo) return true
    return false
  }

  /** Like `isUndoable`, for commands that match `isTarget` only. */
  isUndoableBelow(isTarget: (id: string) => boolean): boolean {
    for (const command of [...(this.#orphans ?? []), ...this.#waiting]) {
      if (command.hasUndo && isTarget(command.id)) return true
    }
    return false
  }

  begin(call: () => void): void {
    this.#isDraining = true
    call()
    this.#whenDrained()
  }

  scope(parent: Scope, path: string): Scope {
    const scope = parent.child(path)
    this.#scopes ??= new Map()
    this.#scopes.set(path, scope)
    return scope
  }

  /** Issues a command. Code may never observe it: a failure that no code awaits does not end the process. */
  ask<T>(scope: Scope, id: string, spec: CommandSpec): Promise<T> {
    if (scope.abandoned) return tolerated(Promise.reject(cancelledError(scope.abandoned)))
    const late = this.blameIfLate()
    if (late) return tolerated(Promise.reject(late))
    const { keyOf } = this.#hooks
    const isNew = !this.isReplaying
    const command = new Command(scope, id, spec, this.#time, this.#settle, this.#isDirect, isNew, keyOf)
    command.since = this.#seq
    scope.commands.set(id, command)
    this.#waiting.add(command)
    spec.onRequested?.(command)
    if (this.isReplaying || this.isStopped || command.isSettled || !this.#hooks.mayStart(spec.kind)) {
      return command.promise as Promise<T>
    }
    if (spec.kind === 'step' && this.#willBeCancelled()) this.#hasHeldBack = true
    else this.#start(command)
    return command.promise as Promise<T>
  }

  /** History has a cancellation that was not delivered yet. */
  #willBeCancelled(): boolean {
    return this.#cancelAt >= this.#at
  }

  /** The promise for a call of more than one command; an unobserved failure of it is recorded, too. */
  given(scope: Scope, work: Promise<unknown>): Promise<unknown> {
    const given = givenOf(this.#isDirect, (resolve, reject) => {
      const failed = (error: unknown) => {
        const unseen = { isAbandoned: scope.abandoned !== null, failure: { error } }
        this.#noteUnseen(Object.defineProperty(unseen, 'isObserved', { get: () => given.isObserved }) as Unseen)
        reject(error)
      }
      work.then(resolve, failed)
    })
    return tolerated(given)
  }

  /** Queues a durable outcome and delivers it in turn. */
  offer(item: Item): void {
    if (this.isStopped) return
    const count = this.#queue.push(item)
    if (item.kind === 'cancel') this.#cancelAt = count - 1
    this.#pump()
  }

  /** True if an outcome of that kind is still to be delivered. */
  expects(kind: Item['kind'], id: string): boolean {
    for (let i = this.#at; i < this.#queue.length; i++) {
      const item = this.#queue[i]!
      if (item.kind === kind && 'id' in item && item.id === id) return true
    }
    return false
  }

  /** Abandons the commands of this scope and the scopes below it. */
  abandon(scope: Scope, reason: string): void {
    leaveScope(() => this.#abandon(scope, reason))
  }

  #abandon(scope: Scope, reason: string): void {
    const inside = (each: Scope | null): boolean => each !== null && (each === scope || inside(each.parent))
    for (const each of [this.root, ...(this.#scopes?.values() ?? [])]) if (inside(each)) each.abandoned = reason
    for (const command of [...this.#waiting]) {
      if (!inside(command.scope)) continue
      command.isAbandoned = true
      if (command.hasUndo) this.keepOrphan(command)
      command.onAbandon()
      command.reject(cancelledError(reason))
    }
  }

  /** Keeps a command whose outcome must be known before the run can fail. */
  keepOrphan(command: Command): void {
    this.#orphans ??= new Set()
    this.#orphans.add(command)
  }

  /** Iteration n of a loop begins: drops the data of earlier iterations. */
  passIteration(loop: string, n: number): void {
    this.#loops ??= new Map()
    this.#loops.set(loop, n)
    for (const path of this.#scopes?.keys() ?? []) if (path.startsWith(`${loop}.`)) this.#scopes!.delete(path)
  }

  /** The code has ended: checks that history agrees. */
  over(): void {
    this.isOver = true
    this.wake()
  }

  wake(): void {
    if (!this.isStopped && !this.#isDraining) leaveScope(() => this.#pump())
  }

  stop(): void {
    this.isStopped = true
    this.#queue = []
    this.#waiting.clear()
    this.#orphans = null
    this.#quiet()
  }

  /** Returns true the first time. */
  readonly #settle = (command: Command): boolean => {
    if (command.isSettled) return false
    command.isSettled = true
    this.#waiting.delete(command)
    if (command.failure && canBeLost.has(command.kind)) this.#noteUnseen(command)
    return true
  }

  #noteUnseen(failed: Unseen): void {
    if (failed.isObserved) return
    this.#unseen = [...this.#unseen.filter((each) => !each.isObserved), failed]
  }

  #failIfBlamed(): void {
    if (!this.#blamed || this.isStopped || this.isOver) return
    this.#hooks.onBlamed(this.#blamed)
  }

  readonly #drained = (): void => {
    this.#isDraining = false
    this.#restedIn = thisTick()
    this.#pump()
  }

  #pump(): void {
    if (this.isStopped || this.#isDraining) return
    const item = this.#queue[this.#at]
    if (item === undefined) {
      this.#queue = []
      this.#at = 0
      this.#cancelAt = -1
      if (this.isReplaying) this.#reachEnd()
      else this.#rest()
      return
    }
    const command = 'id' in item ? this.#find(item.id) : undefined
    if ('id' in item && !command && this.isReplaying && !this.#isPast(item.id)) {
      this.#suspect({ id: item.id, seq: item.seq, what: describeItem(item) })
      return
    }
    this.#suspicion = 0
    this.#at += 1
    this.#time = item.at
    // Batched outcomes are delivered before they have a sequence.
    if (item.seq > this.#seq) this.#seq = item.seq
    this.#isDraining = true
    this.#deliver(item, command)
    this.#whenDrained()
  }

  #whenDrained(): void {
    this.#delivered += 1
    if (this.#delivered % yieldEvery === 0) this.#hooks.soon(this.#drained)
    // Uses the platform's timers instead of the engine's clock, which may be virtual: the code's own promises are real.
    else leaveScopeWith(whenDrained, this.#drained)
  }

  /** `command` is undefined for a straggler, which no code waits for. */
  #deliver(item: Item, command: Command | undefined): void {
    if (item.kind === 'signal') this.#hooks.onSignal(item)
    else if (item.kind === 'update') this.#hooks.onUpdate(item)
    else if (item.kind === 'cancel') this.#hooks.onCancel(item)
    else if (command) {
      this.#orphans?.delete(command)
      if (!command.isSettled) observe(command, item)
      command.onItem(item)
    }
  }

  #find(id: string): Command | undefined {
    const slash = id.lastIndexOf('/')
    const scope = slash === -1 ? this.root : this.#scopes?.get(id.slice(0, slash))
    return scope?.commands.get(id) as Command | undefined
  }

  /** True for a straggler from an earlier iteration of a loop. */
  #isPast(id: string): boolean {
    for (const [loop, n] of this.#loops ?? []) {
      if (id.startsWith(`${loop}.`) && Number.parseInt(id.slice(loop.length + 1), 10) < n) return true
    }
    return false
  }

  /** All outcomes are delivered; every command that history has begun must have been issued as well. */
  #reachEnd(): void {
    const missing = this.#hooks.begun().find((id) => !this.#find(id) && !this.#isPast(id))
    if (missing === undefined) this.#goLive()
    else this.#suspect({ id: missing, seq: null, what: `${readableId(missing)} begun` })
  }

  #goLive(): void {
    this.isReplaying = false
    this.#hooks.onLive()
    this.#failIfBlamed()
    if (this.isStopped) return
    this.startAll()
    if (!this.isStopped) this.#quiet()
  }

  /** Starts the issued commands that may start now. */
  startAll(): void {
    if (this.isReplaying) return
    for (const command of [...(this.#orphans ?? []), ...this.#waiting]) {
      if (!this.#hooks.mayStart(command.kind)) continue
      // Once the code has ended, only commands with an undo still matter.
      if (this.isOver && !command.hasUndo) continue
      if (!command.isStarted && !this.isStopped) this.#start(command)
    }
  }

  #start(command: Command): void {
    if (this.#hooks.reuses(command)) command.isStarted = true
    else command.start()
  }

  #rest(): void {
    if (this.#hasHeldBack) {
      this.#hasHeldBack = false
      this.startAll()
    }
    this.#quiet()
  }

  #quiet(): void {
    if (!this.isStopped) this.#hooks.onQuiet()
    if (this.#onQuiet.length > 0 && this.isQuiet) for (const call of this.#onQuiet.splice(0)) call()
  }

  /** Code may be slow to issue a command (an await on something else): it has a little time before it is blamed. */
  #suspect(expected: Expected): void {
    this.#suspicion += 1
    const again = () => {
      this.#isDraining = false
      this.#restedIn = thisTick()
      this.#pump()
    }
    this.#isDraining = true
    const pause = patienceMs[this.#suspicion - patienceTurns - 1]
    if (this.#suspicion <= patienceTurns) this.#hooks.soon(again)
    else if (pause !== undefined) this.#hooks.after(pause, again)
    else this.#hooks.onDiverged(divergence(expected, this.#waiting, this.isOver))
  }
}

/** Records a command's outcome as observed by its code. Results of SQL: commands/transaction.ts. */
function observe({ scope, id }: Command, item: Item): void {
  if (item.kind === 'done' && item.rode === null) scope.observed.addResult(id, item.result)
  else if (item.kind === 'child' && !item.error) scope.observed.add(id, item.result)
  else if ((item.kind === 'failed' || item.kind === 'child') && item.error) {
    const { name, message, code } = item.error
    scope.observed.addResult(id, [name, message, code ?? null])
  }
}

/** A failure, and whether the code has observed it since. */
interface Unseen {
  readonly isObserved: boolean
  readonly isAbandoned: boolean
  readonly failure: { readonly error: unknown } | null
}
