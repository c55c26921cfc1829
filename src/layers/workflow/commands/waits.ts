// Waits for time and for signals. A waiting run can leave memory; its wakeup or mail loads it again.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Item } from '../history/entries.ts'
import type { Command } from '../run/command.ts'
import type { CommandRun } from '../run/command-host.ts'
import { commandName, type Scope } from '../run/scope.ts'

type WaitingRun = Pick<CommandRun, 'code' | 'alarms' | 'recorder'>

export function askSleep(run: WaitingRun, scope: Scope, until: (now: number) => number): Promise<void> {
  const at = until(run.code.execution.time)
  return run.code.execution.ask(scope, scope.next('~sleep'), {
    kind: 'timer',
    until: at,
    start: ({ id }) => run.alarms.set(id, at, () => run.recorder.record('timer', { id })),
    onItem: (command) => command.resolve(undefined),
    onAbandon: ({ id }) => run.alarms.delete(id),
  })
}

type SignalItem = Extract<Item, { kind: 'signal' }>

/** Signals that arrived before a wait, and waits that began before their signal, both in order. */
export class Signals {
  readonly #run: WaitingRun
  /** Null until the first signal is buffered: few runs have one. */
  #buffered: Map<string, SignalItem[]> | null = null
  #waiting: Map<string, Command[]> | null = null
  /** The signals that waits have taken, with the paths of those waits. */
  #taken: { readonly seq: number; readonly path: string; readonly wait: Command }[] = []

  constructor(run: WaitingRun) {
    this.#run = run
  }

  get isAwaited(): boolean {
    return this.#waiting !== null && this.#waiting.size > 0
  }

  ask<T>(scope: Scope, name: string, options: { readonly timeout?: Duration; readonly otherwise?: T }): Promise<T> {
    const run = this.#run
    const id = scope.next(`~signal:${commandName(name)}`)
    const timeoutMs = options.timeout === undefined ? null : toMs(options.timeout, 'timeout')
    return run.code.execution.ask<T>(scope, id, {
      kind: 'signal',
      ...(timeoutMs !== null && { until: run.code.execution.time + timeoutMs }),
      start: (command) => {
        if (timeoutMs === null || command.isSettled) return
        run.alarms.set(id, command.requestedAt + timeoutMs, () => run.recorder.record('timer', { id }))
      },
      onItem: (command) => {
        if (command.isSettled) return
        this.#forget(name, command)
        if ('otherwise' in options) command.resolve(options.otherwise)
        else
          command.reject(new RepriseError('TIMEOUT', `no signal ${name} within ${options.timeout}`, { signal: name }))
      },
      onAbandon: (command) => this.#forget(name, command),
      onRequested: (command) => this.#match(name, command),
    })
  }

  deliver(item: SignalItem): void {
    const [command] = this.#waiting?.get(item.name) ?? []
    if (command) {
      this.#forget(item.name, command)
      this.#give(command, item)
    } else {
      this.#buffered ??= new Map()
      const list = this.#buffered.get(item.name) ?? []
      list.push(item)
      this.#buffered.set(item.name, list)
    }
  }

  /** The run was cancelled: removes every wait. */
  stopWaiting(): void {
    this.#waiting = null
  }

  /** Sequences of the signals that waits below this path have taken, once each. */
  takenBelow(path: string): number[] {
    const below = this.#taken.filter(
      (one) => one.path === path || one.path.startsWith(`${path}/`) || one.path.startsWith(`${path}.`),
    )
    this.#taken = this.#taken.filter((one) => !below.includes(one))
    return below.map(({ seq }) => seq)
  }

  taken(): number[] {
    return this.#taken.map(({ seq }) => seq)
  }

  /** The waits that have taken a signal. */
  takers(): readonly { readonly seq: number; readonly wait: Command }[] {
    return this.#taken
  }

  #match(name: string, command: Command): void {
    const list = this.#buffered?.get(name)
    const item = list?.shift()
    if (list?.length === 0) this.#buffered?.delete(name)
    if (item) {
      this.#give(command, item)
      return
    }
    this.#waiting ??= new Map()
    this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), command])
  }

  #give(command: Command, item: SignalItem): void {
    this.#run.alarms.delete(command.id)
    this.#taken.push({ seq: item.seq, path: command.scope.path, wait: command })
    command.scope.observed.add(command.id, item.value)
    command.resolve(item.value)
  }

  #forget(name: string, command: Command): void {
    this.#run.alarms.delete(command.id)
    const waiting = (this.#waiting?.get(name) ?? []).filter((each) => each !== command)
    if (waiting.length > 0) this.#waiting?.set(name, waiting)
    else this.#waiting?.delete(name)
  }
}
