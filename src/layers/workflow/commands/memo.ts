// Results shared between runs: a step that reads a memo. The outcome and its origin are recorded like those of any
// step, so a replay does not read the cache again. The arguments are part of the step's name, so code that passes other
// arguments in a replay has diverged.

import type { Coordinate } from '../../../core/coordinate.ts'
import type { LayerHost } from '../../../engine/model/definition.ts'
import { type Recallable, recallingOf } from '../../../engine/model/memo-protocol.ts'
import type { StepSettings } from '../context.ts'
import { currentPlace, readableId, type Scope } from '../run/scope.ts'
import { askStep, SharedResult, type StepRun } from './steps.ts'

/** The parts of a run that a shared result uses. */
export interface SharingRun extends StepRun {
  readonly open: { readonly coordinate: Coordinate }
  readonly host: { readonly engine: LayerHost }
}

export function askMemo<Args extends readonly unknown[], Result>(
  run: SharingRun,
  scope: Scope,
  definition: Recallable<Args, Result>,
  args: Args,
): Promise<Result> {
  // The check comes first: it reports a value that is not a memo.
  const recalling = recallingOf(definition)
  const name = `${definition.name}(${recalling.print(run.host.engine, args)})`
  return askNamedMemo(run, scope, name, definition, args, {})
}

/** The same as a step with a name and options of its own. */
export function askNamedMemo<Args extends readonly unknown[], Result>(
  run: SharingRun,
  scope: Scope,
  name: string,
  definition: Recallable<Args, Result>,
  args: Args,
  options: StepSettings<Result>,
): Promise<Result> {
  const recalling = recallingOf(definition)
  const { engine } = run.host
  const call = async ({ signal }: { readonly signal: AbortSignal }) => {
    const asker = { ...run.open.coordinate, step: readableId(currentPlace()?.step?.name ?? name) }
    const { result, shared } = await recalling.recall(engine, args, { signal, asker })
    return new SharedResult(result, shared) as unknown as Result
  }
  return askStep(run, scope, name, call, options)
}
