// Finds the steps that people name in a run's history.

import { RepriseError } from '../../../core/errors.ts'
import { commandName, readableId } from '../run/scope.ts'
import { itemsOf, type Journal } from './journal.ts'

/** Finds a step by its name, its name and occurrence, or its full id. */
export function findStep(
  journal: Journal,
  step: string,
  timeline: string,
): { readonly id: string; readonly seq: number } {
  for (const item of itemsOf(journal)) if ('id' in item && hasName(item.id, step)) return item
  throw new RepriseError('NOT_FOUND', `${timeline} has no step ${step} in its history`, { step })
}

/** Whether a command matches the name that a person wrote. */
export function hasName(id: string, step: string): boolean {
  const readable = readableId(id)
  return id === step || readable === step || id === commandIdOf(step) || readable === commandIdOf(step)
}

export function commandIdOf(step: string): string {
  const occurrence = /#\d+$/.exec(step)?.[0] ?? ''
  return step.includes('/') ? step : commandName(step.slice(0, step.length - occurrence.length)) + occurrence
}

/** The failures at the end of history, which made the run fail if a step did. */
export function lastFailures(journal: Journal): string[] {
  const ids: string[] = []
  for (const item of itemsOf(journal).toReversed()) {
    const isFailure = item.kind === 'failed' || (item.kind === 'child' && item.error !== null)
    if (isFailure && 'id' in item) ids.push(item.id)
    else break
  }
  return ids
}
