// Children: runs that a run starts. A child that its parent waits for reports its end by mail; a detached child is only
// started.

import { isPassingStoreFailure, isReprise } from '../../../core/errors.ts'
import type { Clock, Head } from '../../../core/store/ports.ts'
import type { Events } from '../../../engine/base/events.ts'
import { sleep } from '../../../lib/waiting.ts'
import type { AnyWorkflow, ChildOptions, StepCall } from '../context.ts'
import { commandLink, commandOfLink } from '../history/child-mail.ts'
import type { Item } from '../history/entries.ts'
import { namesDetached, namesParent, type ParentLink } from '../history/entries.ts'
import { fromFailure, toFailure } from '../history/failure.ts'
import { itemsOf } from '../history/journal.ts'
import { own as ownOf, type RunState } from '../history/state.ts'
import { commandAttribute, endings, nameOf, workflowPrefix } from '../names.ts'
import type { CommandRun } from '../run/command-host.ts'
import type { Scope } from '../run/scope.ts'
import type { Saga } from './saga.ts'

const againMs = 500

/** Starts and stops runs on behalf of their parent. */
export interface ChildHost {
  /** Idempotent by the child's id. */
  startChild(
    definition: AnyWorkflow,
    id: string,
    input: unknown,
    options: ChildOptions,
    parent: ParentLink,
  ): Promise<void>
  cancelChild(timeline: string, reason: string, by: string): Promise<void>
  /** Resolves once every step of the child is undone. */
  undoChild(definition: AnyWorkflow, id: string, reason: string): Promise<void>
}

/** The parts of the parent run that a child uses. */
export interface ParentRun extends CommandRun {
  readonly definition: { readonly name: string; readonly prefix: string }
  readonly open: { readonly id: string }
  readonly code: CommandRun['code'] & { readonly saga: Pick<Saga, 'add'> }
  readonly host: ChildHost
  readonly kernel: CommandRun['kernel'] & { readonly clock: Clock; readonly events: Events }
}

/**
 * A child that the parent waits for. The live run starts it (idempotent by its id) whenever history has no result for
 * it yet.
 */
export function askChild(
  run: ParentRun,
  scope: Scope,
  definition: AnyWorkflow,
  input: unknown,
  options: ChildOptions,
): Promise<unknown> {
  const id = scope.next(`~child:${definition.name}`)
  const childId = options.id ?? childIdOf(run, id)
  const undoes = options.whenUndone === 'undo'
  return run.code.execution.ask(scope, id, {
    kind: 'child',
    hasUndo: undoes,
    start: (command) =>
      run.spawn(async () => {
        try {
          const link = { timeline: run.open.id as string, command: commandLink(run.state, id) }
          if (!(await started(run, () => run.host.startChild(definition, childId, input, options, link)))) return
        } catch (error) {
          await run.recorder.record('failed', { id, error: toFailure(error) })
        }
        if (command.isAbandoned) await stopChild(run, definition, childId, options)
      }),
    onItem: (command, item) => {
      if (undoes && item.kind === 'child' && !item.error) {
        const call = (_: unknown, _step: StepCall, state: RunState) => {
          const undone = options.id ?? childIdOf({ definition: run.definition, state }, id)
          return run.host.undoChild(definition, undone, `its parent ${run.id} is undone`)
        }
        run.code.saga.add({ command, item, result: undefined, call, retry: undefined })
      }
      if (command.isSettled) return
      if (item.kind === 'failed') command.reject(fromFailure(item.error))
      else if (item.kind === 'child')
        item.error ? command.reject(fromFailure(item.error)) : command.resolve(item.result)
    },
    onAbandon: () => run.spawn(() => stopChild(run, definition, childId, options)),
  })
}

/**
 * An unavailable database does not fail the child, which may be stored in another database than its parent: the start
 * is retried. So is the start under an id that an unfinished import brings, until the import is resumed or abandoned.
 * Returns false if this process releases the parent meanwhile; the parent's next owner starts the child.
 */
async function started(run: ParentRun, start: () => Promise<void>): Promise<boolean> {
  const { clock, events } = run.kernel
  for (;;) {
    try {
      await start()
      return true
    } catch (error) {
      const isComing = isReprise(error, 'CHANGE_UNFINISHED')
      if (!isPassingStoreFailure(error) && !isComing) throw error
      if (run.tenure.isLeaving) return false
      if (isComing) events.emit('problem', { where: run.open.id, error })
      await sleep(clock, againMs, { isAwaited: false })
      if (run.tenure.isLeaving) return false
    }
  }
}

async function stopChild(
  run: ParentRun,
  definition: AnyWorkflow,
  childId: string,
  options: ChildOptions,
): Promise<void> {
  if (options.whenCancelled === 'abandon') return
  await run.host.cancelChild(definition.prefix + childId, `its parent ${run.id} no longer waits`, `${run.open.id}`)
}

/** A detached child: history records that it was started. */
export function askStart(
  run: ParentRun,
  scope: Scope,
  definition: AnyWorkflow,
  input: unknown,
  options: ChildOptions,
): Promise<string> {
  const id = scope.next(`~start:${definition.name}`)
  const childId = options.id ?? childIdOf(run, id)
  return run.code.execution.ask(scope, id, {
    kind: 'child',
    start: () =>
      run.spawn(async () => {
        try {
          const link = { timeline: run.open.id as string, command: commandLink(run.state, id), detached: true }
          if (!(await started(run, () => run.host.startChild(definition, childId, input, options, link)))) return
        } catch (error) {
          return await run.recorder.record('failed', { id, error: toFailure(error) })
        }
        await run.recorder.record('done', { id, result: childId })
      }),
    onItem: (command, item) => {
      if (item.kind === 'failed') command.reject(fromFailure(item.error))
      else if (item.kind === 'done') command.resolve(item.result)
    },
  })
}

/** Derived from the parent's id and the command's id, so a parent that starts the child again finds the same one. */
function childIdOf(run: Pick<ParentRun, 'definition' | 'state'>, command: string): string {
  const behaviour = run.state.started?.behaviour ?? 0
  const detached = behaviour >= namesDetached ? 'start:' : ''
  const own = command.replaceAll('~child:', '').replaceAll('~start:', detached).replaceAll('/', '.')
  const generation = run.state.generation === 0 ? '' : `.${run.state.generation}`
  const count = ownOf(run.state.reruns ?? {}, command, 0)
  const parent = run.state.keyBase.slice(run.definition.prefix.length).replaceAll('/', '.')
  const workflow = behaviour >= namesParent ? `${run.definition.name}.` : ''
  return `${workflow}${parent}${generation}.${own}${count === 0 ? '' : `.rerun-${count}`}`
}

/** The timelines of children whose start or end was recorded after `seq`, and of those that run: a rollback leaves them. */
export function childrenAfter(state: RunState, timeline: string, seq: number, known: readonly Head[]): string[] {
  // The newest generation of a command counts.
  const oldestFirst = [...known].sort((a, b) => a.createdAt - b.createdAt)
  const byCommand = new Map(oldestFirst.map((child) => [commandOf(child), child.timeline as string]))
  const recorded = itemsOf(state.journal).flatMap((item) => {
    const child = item.seq > seq ? childOf(state, timeline, item) : null
    return child && 'id' in item ? [byCommand.get(item.id) ?? child] : []
  })
  const running = known.filter((child) => !endings.has(child.status) && commandOf(child).includes('~child:'))
  return [...new Set([...recorded, ...running.map((child) => child.timeline)])]
}

/** The timelines of the children of these commands, by their usual ids. */
export function childrenOf(state: RunState, timeline: string, isWanted: (command: string) => boolean): string[] {
  return itemsOf(state.journal).flatMap((item) => {
    const child = 'id' in item && isWanted(item.id) ? childOf(state, timeline, item) : null
    return child ? [child] : []
  })
}

function childOf(state: RunState, timeline: string, item: Item): string | null {
  const of = 'id' in item ? /~(child|start):([^/]+?)(?:#\d+)?$/.exec(item.id) : null
  if (!of || !('id' in item)) return null
  const name = nameOf(timeline)
  const run = { definition: { name, prefix: `${workflowPrefix}${name}/` }, state }
  const id = item.kind === 'done' && typeof item.result === 'string' ? item.result : childIdOf(run, item.id)
  return `${workflowPrefix}${of[2]}/${id}`
}

/** The command of the parent that started this child, without its generation. */
function commandOf({ attributes }: Head): string {
  return commandOfLink(String(attributes[commandAttribute] ?? ''))
}
