// How timelines fold, for the commands that need state: the models that this package brings, and whatever definitions the
// user's module exports.

import { RepriseError } from '../core/errors.ts'
import { isWithin } from '../core/scope.ts'
import type { Fold } from '../engine/definition.ts'
import type { Reprise } from '../engine/reprise.ts'

export interface Folding {
  readonly prefix: string
  readonly fold: Fold<unknown>
}

export async function registerKnown(engine: Reprise, module: string | undefined): Promise<void> {
  for (const { prefix, fold } of await knownFolds(module)) engine.register(prefix, fold)
}

async function knownFolds(module: string | undefined): Promise<Folding[]> {
  const { jobFold } = await import('../layers/job/index.ts')
  const folds: Folding[] = [{ prefix: 'job/', fold: jobFold() as Fold<unknown> }]
  const { migrateFold } = await import('../layers/migrate/index.ts')
  folds.push({ prefix: 'migrate/', fold: migrateFold as Fold<unknown> })
  const { workflowFold } = await import('../layers/workflow/state.ts')
  folds.push({ prefix: 'workflow/', fold: workflowFold as Fold<unknown> })
  if (module !== undefined) {
    const { loadModule } = await import('./module.ts')
    for (const value of Object.values(await loadModule(module))) if (isFolding(value)) folds.push(value)
  }
  return folds
}

/** The fold for a timeline, or an error that says how to name it. */
export async function foldFor(timeline: string, module: string | undefined): Promise<Folding> {
  let best: Folding | null = null
  for (const folding of await knownFolds(module)) {
    if (isWithin(folding.prefix, timeline) && folding.prefix.length >= (best?.prefix.length ?? 0)) best = folding
  }
  if (best) return best
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `the state of ${timeline} needs its definition: name the module that exports it with --module FILE`,
    { timeline },
  )
}

function isFolding(value: unknown): value is Folding {
  const { prefix, fold } = (value ?? {}) as { prefix?: unknown; fold?: { apply?: unknown } }
  return typeof prefix === 'string' && typeof fold?.apply === 'function'
}
