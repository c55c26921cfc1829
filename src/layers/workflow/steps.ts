// Steps: the calls to the outside. An attempt is called outside of workflow code, its outcome is one entry; a failed
// attempt that will be repeated is an entry too, so that a restart goes on counting. A crash is not a failed attempt.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { Attempt } from './attempt.ts'
import type { Command } from './command.ts'
import type { StepCall, StepOptions } from './context.ts'
import { fromFailure, toFailure } from './failure.ts'
import type { Instance } from './instance.ts'
import { decideRetry, type ResolvedRetry, resolveRetry } from './retry.ts'
import { commandName, type Scope } from './scope.ts'
import { noCommand, own } from './state.ts'

type Call<T> = (step: StepCall) => Promise<T> | T

export function askStep<T>(
  run: Instance,
  scope: Scope,
  name: string,
  call: Call<T>,
  options: StepOptions<T>,
): Promise<T> {
  const id = scope.next(commandName(name))
  const retry = resolveRetry(options.retry, run.definition.options.retry)
  if (options.compensateRetry) resolveRetry(options.compensateRetry)
  return run.execution.ask<T>(scope, id, {
    kind: 'step',
    hasUndo: options.compensate !== undefined,
    start: (command) => run.spawn(() => startStep(run, command, call, options as StepOptions<unknown>, retry)),
    onItem(command, item) {
      if (item.kind === 'failed') return command.reject(command.cancelled ? run.cancelError() : fromFailure(item.error))
      if (item.kind !== 'done') return
      run.alarms.delete(id)
      if (options.compensate) {
        run.saga.add({
          id,
          result: item.result,
          call: options.compensate as (result: unknown, step: StepCall) => unknown,
          retry: options.compensateRetry,
        })
      }
      if (command.cancelled) command.reject(run.cancelError())
      else command.resolve(item.result)
    },
    onAbandon: (command) => abandonStep(run, command, 'another branch won'),
  })
}

/** Nobody waits any more. What can be undone is let finish, so that it is known what became of it. */
export function abandonStep(run: Instance, command: Command, reason: string): void {
  if (command.hasUndo) return
  run.alarms.delete(command.id)
  run.attempts.get(command.id)?.abort(new RepriseError('CANCELLED', reason))
}

async function startStep(
  run: Instance,
  command: Command,
  call: Call<unknown>,
  options: StepOptions<unknown>,
  retry: ResolvedRetry,
): Promise<void> {
  const { id } = command
  if (command.cancelled && !command.hasUndo)
    return await run.record('failed', { id, error: toFailure(run.cancelError()) })
  const before = own(run.state.open, id, noCommand)
  if (before.held) return
  const { inDoubt = 'retry' } = options
  if (before.began && inDoubt !== 'retry') {
    if (inDoubt === 'hold') return await run.record('held', { id }, { status: 'held' })
    const probed = await run.callOutside(() => inDoubt(run.keyOf(id)))
    if (probed.happened) return await recordDone(run, id, probed.result)
  }
  const wait = before.notBefore - run.now()
  if (wait > 0) return run.alarms.set(id, before.notBefore, () => run.spawn(() => attempt()))
  await attempt()

  async function attempt(): Promise<void> {
    const { failures, began } = own(run.state.open, id, noCommand)
    if (inDoubt !== 'retry' && !began) await run.record('began', { id })
    let result: unknown
    try {
      result = await new Attempt(run, id, failures + 1).call(call, options)
    } catch (error) {
      if (run.isLeaving) return
      if (command.isAbandoned && !command.hasUndo) return
      const { again, delayMs, counts } = decideRetry(retry, failures + 1, error, () => run.chance())
      if (!again || command.cancelled || command.isAbandoned) {
        return await run.record('failed', { id, error: toFailure(error) })
      }
      const at = run.now() + delayMs
      await run.record('retry', { id, n: counts ? failures + 1 : failures, error: toFailure(error), at })
      return run.alarms.set(id, at, () => run.spawn(() => attempt()))
    }
    if (command.isAbandoned && !command.hasUndo) return
    await recordDone(run, id, result)
  }
}

async function recordDone(run: Instance, id: string, result: unknown): Promise<void> {
  try {
    await run.record('done', result === undefined ? { id } : { id, result })
  } catch (error) {
    if (!isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw error
    await run.record('failed', { id, error: toFailure(error) })
  }
}
