// Waiting: for time, for signals, for children. A wait costs nothing while it lasts: the run can leave memory and come
// back by its wakeup or by mail.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Command } from './command.ts'
import type { ChildOptions } from './context.ts'
import type { AnyWorkflow } from './definition.ts'
import type { Item } from './entries.ts'
import { fromFailure, toFailure } from './failure.ts'
import type { Instance } from './instance.ts'
import { commandName, type Scope } from './scope.ts'

export function askSleep(run: Instance, scope: Scope, until: (now: number) => number): Promise<void> {
  const at = until(run.execution.time)
  return run.execution.ask(scope, scope.next('~sleep'), {
    kind: 'timer',
    until: at,
    start: ({ id }) => run.alarms.set(id, at, () => run.record('timer', { id })),
    onItem: (command) => command.resolve(undefined),
    onAbandon: ({ id }) => run.alarms.delete(id),
  })
}

type SignalItem = Extract<Item, { kind: 'signal' }>

/** Signals that came before anybody waited, and waits that came before their signal. Both in order. */
export class Signals {
  readonly #run: Instance
  /** Null as long as there are none: few runs have any. */
  #buffered: Map<string, SignalItem[]> | null = null
  #waiting: Map<string, Command[]> | null = null
  /** Which signals were taken by waits, and where. */
  #taken: { readonly seq: number; readonly path: string }[] = []

  constructor(run: Instance) {
    this.#run = run
  }

  get isAwaited(): boolean {
    return this.#waiting !== null && this.#waiting.size > 0
  }

  ask<T>(scope: Scope, name: string, options: { readonly timeout?: Duration; readonly otherwise?: T }): Promise<T> {
    const run = this.#run
    const id = scope.next(`~signal:${commandName(name)}`)
    const timeoutMs = options.timeout === undefined ? null : toMs(options.timeout, 'timeout')
    return run.execution.ask<T>(scope, id, {
      kind: 'signal',
      ...(timeoutMs !== null && { until: run.execution.time + timeoutMs }),
      start: (command) => {
        if (timeoutMs === null || command.isSettled) return
        run.alarms.set(id, command.askedAt + timeoutMs, () => run.record('timer', { id }))
      },
      onItem: (command) => {
        if (command.isSettled) return
        this.#forget(name, command)
        if ('otherwise' in options) command.resolve(options.otherwise)
        else
          command.reject(new RepriseError('TIMEOUT', `no signal ${name} within ${options.timeout}`, { signal: name }))
      },
      onAbandon: (command) => this.#forget(name, command),
      onAsked: (command) => this.#match(name, command),
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

  /** The run was cancelled: nobody waits any more. */
  stopWaiting(): void {
    this.#waiting = null
  }

  /** Signals that waits below this path took, once each. */
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
    this.#taken.push({ seq: item.seq, path: command.scope.path })
    command.resolve(item.value)
  }

  #forget(name: string, command: Command): void {
    this.#run.alarms.delete(command.id)
    const waiting = (this.#waiting?.get(name) ?? []).filter((each) => each !== command)
    if (waiting.length > 0) this.#waiting?.set(name, waiting)
    else this.#waiting?.delete(name)
  }
}

/** A child that is waited for. It is started (once, by its id) whenever this run is live and has no result of it yet. */
export function askChild(
  run: Instance,
  scope: Scope,
  definition: AnyWorkflow,
  input: unknown,
  options: ChildOptions,
): Promise<unknown> {
  const id = scope.next(`~child:${definition.name}`)
  const childId = options.id ?? childIdOf(run, id)
  const undoes = options.whenUndone === 'undo'
  return run.execution.ask(scope, id, {
    kind: 'child',
    hasUndo: undoes,
    start: (command) =>
      run.spawn(async () => {
        try {
          const link = { timeline: run.open.id as string, command: `${run.state.generation}:${id}` }
          await run.host.startChild(definition, childId, input, options, link)
        } catch (error) {
          await run.record('failed', { id, error: toFailure(error) })
        }
        if (command.isAbandoned) await stopChild(run, definition, childId, options)
      }),
    onItem: (command, item) => {
      if (undoes && item.kind === 'child' && !item.error) {
        const call = () => {
          run.host.work(definition)
          return run.host.handle(definition, childId).undo(`its parent ${run.id} is undone`)
        }
        run.saga.add({ id, result: undefined, call, retry: undefined })
      }
      if (command.isSettled) return
      if (item.kind === 'failed') command.reject(fromFailure(item.error))
      else if (item.kind === 'child')
        item.error ? command.reject(fromFailure(item.error)) : command.resolve(item.result)
    },
    onAbandon: () => run.spawn(() => stopChild(run, definition, childId, options)),
  })
}

async function stopChild(
  run: Instance,
  definition: AnyWorkflow,
  childId: string,
  options: ChildOptions,
): Promise<void> {
  if (options.whenCancelled === 'abandon') return
  await run.host.cancelChild(definition.prefix + childId, `its parent ${run.id} no longer waits`, `${run.open.id}`)
}

/** A child that lives on its own: that it was started is recorded. */
export function askStart(
  run: Instance,
  scope: Scope,
  definition: AnyWorkflow,
  input: unknown,
  options: ChildOptions,
): Promise<string> {
  const id = scope.next(`~start:${definition.name}`)
  const childId = options.id ?? childIdOf(run, id)
  return run.execution.ask(scope, id, {
    kind: 'child',
    start: () =>
      run.spawn(async () => {
        try {
          const link = { timeline: run.open.id as string, command: `${run.state.generation}:${id}`, detached: true }
          await run.host.startChild(definition, childId, input, options, link)
        } catch (error) {
          return await run.record('failed', { id, error: toFailure(error) })
        }
        await run.record('done', { id, result: childId })
      }),
    onItem: (command, item) => {
      if (item.kind === 'failed') command.reject(fromFailure(item.error))
      else if (item.kind === 'done') command.resolve(item.result)
    },
  })
}

/** The parent's id and the command's, so that a parent that starts it again finds the same child. */
function childIdOf(run: Instance, command: string): string {
  const own = command.replace(/~child:|~start:/g, '').replaceAll('/', '.')
  const generation = run.state.generation === 0 ? '' : `.${run.state.generation}`
  return `${run.state.keyBase.slice(run.definition.prefix.length).replaceAll('/', '.')}${generation}.${own}`
}
