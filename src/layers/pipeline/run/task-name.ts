// The timelines of the tasks of a shared pipeline: one per partition, below its own.

/** @example taskTimeline('pipeline/revenue', '3') // 'pipeline/revenue/@3' */
export function taskTimeline(timeline: string, partition: string): string {
  return `${timeline}/@${encodeURIComponent(partition)}`
}

/** Null: it is no task. @example taskPartition('pipeline/revenue', 'pipeline/revenue/@3') // '3' */
export function taskPartition(timeline: string, task: string): string | null {
  return task.startsWith(`${timeline}/@`) ? decodeURIComponent(task.slice(timeline.length + 2)) : null
}
