// The pending steps, and whether the applied ones still match the steps.

import { RepriseError } from '../../core/errors.ts'
import type { MigrateState } from './state.ts'
import { type CheckedStep, numberOf } from './steps.ts'

/** The steps not applied yet, in order. Throws MIGRATION_DRIFT if an applied step changed, is missing, or was overtaken. */
export function planMigration(name: string, steps: readonly CheckedStep[], state: MigrateState): CheckedStep[] {
  const byId = new Map(steps.map((step) => [step.id, step]))
  for (const { id, checksum } of state.applied) {
    const step = byId.get(id)
    if (!step) throw drift(`step ${id} was applied and is not there any more`, id)
    if (checksum !== '' && step.checksum !== '' && checksum !== step.checksum) {
      throw drift(`step ${id} was applied with another content`, id)
    }
  }
  const applied = new Set(state.applied.map((step) => step.id))
  const last = Math.max(-1, ...state.applied.map((step) => numberOf(step.id)))
  const pending = steps.filter((step) => !applied.has(step.id))
  const late = pending.find((step) => numberOf(step.id) < last)
  if (late) throw drift(`step ${late.id} is new, and a later step was already applied: choose a higher number`, late.id)
  return pending

  function drift(what: string, step: string): RepriseError {
    return new RepriseError('MIGRATION_DRIFT', `migrations ${name}: ${what}`, { name, step })
  }
}
