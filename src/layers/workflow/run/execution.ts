// One execution of workflow code against its history. Outcomes are delivered one at a time, and between two of them the
// code runs as far as it can, so that races and branches interleave in every replay as they did the first time. No
// command starts before history is used up; if history holds an outcome that nobody asks for, the code has diverged.

import { RepriseError } from '../../../core/errors.ts'
import { whenDrained } from '../../../engine/base/drained.ts'
import { thisTick } from '../../../engine/base/event-loop-tick.ts'
import { userLine } from '../../../engine/base/guard/refusal.ts'
import type { Item } from '../history/entries.ts'
import { cancelledError } from '../history/failure.ts'
import type { Seed } from './chance.ts'
import { type Asked, Command, type CommandKind, givenOf, tolerated } from './command.ts'
import { describeItem, divergence, type Expected } from './divergence.ts'
import { type Digester, Observed } from './observed.ts'
import { leaveScope, readableId, Scope } from './scope.ts'

export interface ExecutionHooks {
  readonly digester: Digester
  soon(call: () => void): void
  after(delayMs: number, call: () => void): void
  /** Of values that are drawn after the outcome with this sequence was delivered. */
  seed(seq: number): Seed
  keyOf(command: Command): string
  /** What the code is given is awaited directly (command.ts). */
  readonly isDirect: boolean
  onSignal(item: Extract<Item, { kind: 'signal' }>): void
  onUpdate(item: Extract<Item, { kind: 'update' }>): void
  onCancel(item: Extract<Item, { kind: 'cancel' }>): void
  /** False while the run is rolled back: its code runs only to say how to undo what it did. And until its mail was read. */
  mayStart(kind: CommandKind): boolean
  /** Commands that history says were begun and have no outcome: the code must ask for them again. */
  begun(): readonly string[]
  /** History is used up. */
  onLive(): void
  /** Everything that could run has run. */
  onQuiet(): void
  onDiverged(error: RepriseError): void
  /** The code did what it may not: the run fails with this, whatever the code makes of it. */
  onBlamed(error: RepriseError): void
}

/** Others get their turn after this many deliveries in a row. */
const yieldEvery = 256

/** Turns of the event loop, then milliseconds, that code may take to ask for what history says it asked for. */
const patienceTurns = 20
const patienceMs = [1, 4, 15, 60]

/** What does something outside: its failure must not be lost. */
const canBeLost: ReadonlySet<CommandKind> = new Set(['step', 'child'])

export class Execution {
  readonly root: Scope
  readonly digester: Digester
  readonly updates: Observed
  readonly #hooks: ExecutionHooks
  readonly #isDirect: boolean
  readonly #scopes = new Map<string, Scope>()
  #loops: Map<string, number> | null = null
  readonly #waiting = new Set<Command>()
  /** Nobody waits for these, yet what became of them must be known: they may have to be undone. */
  #orphans: Set<Command> | null = null
  #queue: Item[]
  /** Where in it the last cancellation lies. */
  #cancelAt = -1
  #at = 0
  #isDraining = false
  #suspicion = 0
  #delivered = 0
  #onQuiet: (() => void)[] = []
  /** Steps wait for a cancellation to be delivered. */
  #hasHeldBack = false
  /** They failed before anybody looked at them. */
  #unseen: Unseen[] = []
  #time: number
  /** Of the last outcome that was delivered. */
  #seq = 0
  /** The turn in which the code last ran as far as it could. */
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
    this.#scopes.set('', this.root)
  }

  /** Workflow time: when the last delivered outcome was recorded. */
  get time(): number {
    return this.#time
  }

  seed(): Seed {
    return this.#hooks.seed(this.#seq)
  }

  /** Commands asked for and not settled, in the order they were asked for. */
  get open(): ReadonlySet<Command> {
    return this.#waiting
  }

  /** Everything in history was delivered: from here on code goes where it was not before. */
  get isAtEnd(): boolean {
    return !this.isReplaying || this.#at >= this.#queue.length
  }

  /** A failure that nobody ever looked at, if there is one; meant to be asked for when the code has ended. */
  get lostFailure(): { readonly error: unknown } | null {
    return this.#unseen.find((command) => !command.isObserved && !command.isAbandoned)?.failure ?? null
  }

  /** All was delivered, and the code waits. */
  get isQuiet(): boolean {
    return this.isStopped || (!this.isReplaying && !this.#isDraining && this.#at >= this.#queue.length)
  }

  /** What the code did that it may not, if it was not told by an error. */
  get blamed(): RepriseError | null {
    return this.#blamed
  }

  /**
   * Not thrown, since others would be harmed: the run fails all the same. In a replay it waits for the end of history, as
   * the run got there once.
   */
  blame(error: RepriseError): void {
    if (this.isStopped || this.isOver || this.#blamed) return
    this.#blamed = error
    if (!this.isReplaying) leaveScope(() => whenDrained(() => this.#failIfBlamed()))
  }

  /**
   * Code runs when it is told an outcome, and stops when it waits for the next. If it goes on in another turn by itself, it
   * waited for something that no history has: then it is blamed for that.
   */
  blameIfLate(): RepriseError | null {
    if (this.isReplaying || this.isStopped || this.#isDraining || this.#restedIn === thisTick()) return null
    const at = userLine()
    const why =
      'after waiting for something that history does not have (a client, a stream, another promise, an import)'
    const cure = "wait for it in a step, as in ctx.step('name', () => …), and import at the top of the module"
    const error = new RepriseError('NON_DETERMINISTIC', `workflow code went on at ${at} ${why}: ${cure}`, {
      call: 'await',
      at,
    })
    this.blame(error)
    return error
  }

  whenQuiet(): Promise<void> {
    return this.isQuiet ? Promise.resolve() : new Promise((resolve) => this.#onQuiet.push(resolve))
  }

  /** Calls that can be undone and whose outcome is not known yet. */
  get isUndoable(): boolean {
    if (this.#orphans && this.#orphans.size > 0) return true
    for (const command of this.#waiting) if (command.hasUndo) return true
    return false
  }

  /** The same, of those calls only. */
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
    this.#scopes.set(path, scope)
    return scope
  }

  /** Code may ask for something and never look at it: a failure that nobody awaits does not end the process. */
  ask<T>(scope: Scope, id: string, asked: Asked): Promise<T> {
    if (scope.abandoned) return tolerated(Promise.reject(cancelledError(scope.abandoned)))
    const late = this.blameIfLate()
    if (late) return tolerated(Promise.reject(late))
    const { keyOf } = this.#hooks
    const isNew = !this.isReplaying
    const command = new Command(scope, id, asked, this.#time, this.#settle, this.#isDirect, isNew, keyOf)
    scope.commands.set(id, command)
    this.#waiting.add(command)
    asked.onAsked?.(command)
    if (this.isReplaying || this.isStopped || command.isSettled || !this.#hooks.mayStart(asked.kind)) {
      return command.promise as Promise<T>
    }
    if (asked.kind === 'step' && this.#willBeCancelled()) this.#hasHeldBack = true
    else command.start()
    return command.promise as Promise<T>
  }

  /** History has a cancellation that the code was not told of yet. */
  #willBeCancelled(): boolean {
    return this.#cancelAt >= this.#at
  }

  /** What is more than one command, as code is given it: that too must not fail unseen. */
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

  /** Entries became durable: deliver them in turn. */
  offer(item: Item): void {
    if (this.isStopped) return
    const count = this.#queue.push(item)
    if (item.kind === 'cancel') this.#cancelAt = count - 1
    this.#pump()
  }

  /** An outcome of that kind is still to be delivered. */
  expects(kind: Item['kind'], id: string): boolean {
    for (let i = this.#at; i < this.#queue.length; i++) {
      const item = this.#queue[i]!
      if (item.kind === kind && 'id' in item && item.id === id) return true
    }
    return false
  }

  /** Nobody waits for what this scope and those below it asked for. */
  abandon(scope: Scope, reason: string): void {
    leaveScope(() => this.#abandon(scope, reason))
  }

  #abandon(scope: Scope, reason: string): void {
    const inside = (each: Scope | null): boolean => each !== null && (each === scope || inside(each.parent))
    for (const each of this.#scopes.values()) if (inside(each)) each.abandoned = reason
    for (const command of [...this.#waiting]) {
      if (!inside(command.scope)) continue
      command.isAbandoned = true
      if (command.hasUndo) this.keepOrphan(command)
      command.onAbandon()
      command.reject(cancelledError(reason))
    }
  }

  /** What became of it must be known before the run ends badly. */
  keepOrphan(command: Command): void {
    this.#orphans ??= new Set()
    this.#orphans.add(command)
  }

  /** Iteration n of a loop begins: what earlier ones left no longer matters. */
  passIteration(loop: string, n: number): void {
    this.#loops ??= new Map()
    this.#loops.set(loop, n)
    for (const path of this.#scopes.keys()) if (path.startsWith(`${loop}.`)) this.#scopes.delete(path)
  }

  /** The code ended: look whether history agrees. */
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

  /** True the first time. */
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
    // Batched outcomes are delivered before they have one.
    if (item.seq > this.#seq) this.#seq = item.seq
    this.#isDraining = true
    this.#deliver(item, command)
    this.#whenDrained()
  }

  #whenDrained(): void {
    this.#delivered += 1
    if (this.#delivered % yieldEvery === 0) this.#hooks.soon(this.#drained)
    // Not by the engine's clock, which may be a virtual one: the code's own promises are real.
    else leaveScope(() => whenDrained(this.#drained))
  }

  /** `command`: who asked for it, if it is the outcome of one; a straggler has nobody. */
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
    return this.#scopes.get(slash === -1 ? '' : id.slice(0, slash))?.commands.get(id) as Command | undefined
  }

  /** A straggler of an iteration that the loop has left behind. */
  #isPast(id: string): boolean {
    for (const [loop, n] of this.#loops ?? []) {
      if (id.startsWith(`${loop}.`) && Number.parseInt(id.slice(loop.length + 1), 10) < n) return true
    }
    return false
  }

  /** All outcomes are delivered; what was begun must have been asked for as well. */
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

  /** Starts what was asked for and may start now. */
  startAll(): void {
    if (this.isReplaying) return
    for (const command of [...(this.#orphans ?? []), ...this.#waiting]) {
      if (!this.#hooks.mayStart(command.kind)) continue
      // Once the code has ended, only what may have to be undone is still of interest.
      if (this.isOver && !command.hasUndo) continue
      if (!command.isStarted && !this.isStopped) command.start()
    }
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

  /** Code may be slow to ask (an await on something else than a command): it gets a little time before it is blamed. */
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

/** The outcome of a command, as its code sees it. What the SQL of a transaction returned is observed there. */
function observe({ scope, id }: Command, item: Item): void {
  if (item.kind === 'done' && item.rode === null) scope.observed.addResult(id, item.result)
  else if (item.kind === 'child' && !item.error) scope.observed.add(id, item.result)
  else if ((item.kind === 'failed' || item.kind === 'child') && item.error) {
    const { name, message, code } = item.error
    scope.observed.addResult(id, [name, message, code ?? null])
  }
}

/** A failure, and whether anybody has looked at it by now. */
interface Unseen {
  readonly isObserved: boolean
  readonly isAbandoned: boolean
  readonly failure: { readonly error: unknown } | null
}
