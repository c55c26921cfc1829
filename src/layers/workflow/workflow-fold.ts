// The fold of a workflow's history. It is the same for all workflows except for the policies that a definition
// declares. Those are stored with each run, so tools without the code apply them too.

import type { Fold } from '../../engine/model/definition.ts'
import type { AnyWorkflow } from './context.ts'
import { workflowFold } from './history/fold.ts'
import type { RunState } from './history/state.ts'

const folds = new WeakMap<AnyWorkflow, Fold<RunState>>()

export function hasOwnPolicy({ options }: AnyWorkflow): boolean {
  return options.checkpoint !== undefined || options.retain !== undefined
}

export function foldOf(definition: AnyWorkflow): Fold<RunState> {
  if (!hasOwnPolicy(definition)) return workflowFold
  const known = folds.get(definition)
  if (known) return known
  const { checkpoint, retain } = definition.options
  // `on` holds step names, which are not entry types: the run itself checks them.
  const { on: _, ...policy } = checkpoint ?? {}
  const fold = { ...workflowFold, ...(checkpoint && { checkpoint: policy }), ...(retain && { retain }) }
  folds.set(definition, fold)
  return fold
}
