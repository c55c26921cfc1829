// Results that runs share: what a memo remembers, asked for in a step. The outcome is recorded like that of every step, with
// where it came from, so a replay does not ask the cache again. The arguments are part of the step's name: code that asks for
// something else in a replay has diverged.

import type { Coordinate } from '../../../core/coordinate.ts'
import type { LayerHost } from '../../../engine/model/definition.ts'
import { type Recallable, recallingOf } from '../../../engine/model/memo-protocol.ts'
import { currentPlace, readableId, type Scope } from '../run/scope.ts'
import { askStep, SharedResult, type StepRun } from './steps.ts'

/** What a shared result needs of its run. */
export interface SharingRun extends StepRun {
  readonly open: { readonly coordinate: Coordinate }
  readonly host: StepRun['host'] & { readonly engine: LayerHost }
}

export function askMemo<Args extends readonly unknown[], Result>(
  run: SharingRun,
  scope: Scope,
  definition: Recallable<Args, Result>,
  args: Args,
): Promise<Result> {
  const recalling = recallingOf(definition)
  const { engine } = run.host
  const name = `${definition.name}(${recalling.print(engine, args)})`
  const call = async ({ signal }: { readonly signal: AbortSignal }) => {
    const asker = { ...run.open.coordinate, step: readableId(currentPlace()?.step?.name ?? name) }
    const { result, shared } = await recalling.recall(engine, args, { signal, asker })
    return new SharedResult(result, shared) as unknown as Result
  }
  return askStep(run, scope, name, call, {})
}
