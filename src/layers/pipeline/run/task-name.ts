// Names of the task timelines of a shared pipeline: one per partition, below the pipeline's own.

/** @example taskTimeline('pipeline/revenue', '3') // 'pipeline/revenue/@3' */
export function taskTimeline(timeline: string, partition: string): string {
  return `${timeline}/@${encodeURIComponent(partition)}`
}

/** Null: the timeline is not a task. @example taskPartition('pipeline/revenue', 'pipeline/revenue/@3') // '3' */
export function taskPartition(timeline: string, task: string): string | null {
  return task.startsWith(`${timeline}/@`) ? decodeURIComponent(task.slice(timeline.length + 2)) : null
}
