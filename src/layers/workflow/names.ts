// Names of runs: their timelines, their claim queue, and their final statuses.

import { parentAttribute } from '../../engine/branch/consumers.ts'

export const workflowPrefix = 'workflow/'

/** The queue from which workers claim the definition's runs. */
export function queueOf(definition: { readonly name: string }): string {
  return workflowPrefix + definition.name
}

/** The name of the workflow that a timeline is a run of. */
export function nameOf(timeline: string): string {
  return timeline.split('/')[1] ?? ''
}

/** Statuses of runs that have ended. */
export const endings: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'terminated'])

/** The attribute that names the schedule that started a run. Its forks do not have it. */
export const scheduleAttribute = 'schedule'

/** The attribute of a child with the command of its parent, and the generation of that command. Its forks do not have it. */
export const commandAttribute = '$command'

/** Removes the attributes of a run that its forks and copies do not have. */
export const withoutOriginal = { [scheduleAttribute]: null, [parentAttribute]: null, [commandAttribute]: null }
