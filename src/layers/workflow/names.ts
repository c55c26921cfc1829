// How runs are named: their timelines, their queue of claims, and the words for their ends.

export const workflowPrefix = 'workflow/'

/** The queue that workers claim its runs from. */
export function queueOf(definition: { readonly name: string }): string {
  return workflowPrefix + definition.name
}

/** The workflow that a timeline is a run of. */
export function nameOf(timeline: string): string {
  return timeline.split('/')[1] ?? ''
}

/** Statuses of runs that have ended. */
export const endings: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'terminated'])

/** The attribute that names the schedule which started a run. Its forks have none. */
export const scheduleAttribute = 'schedule'
