// The models a command knows: the kinds of this package, and the definitions of the user's module.

import type { Reprise } from '../engine/api/reprise.ts'
import { declareAll, declareKinds } from '../operations/known-models.ts'

export async function registerKnown(engine: Reprise, module: string | undefined): Promise<void> {
  await declareKinds(engine)
  if (module === undefined) return
  const { loadModule } = await import('./module.ts')
  declareAll(engine, Object.values(await loadModule(module)))
}
