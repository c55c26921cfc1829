// One thread: its timeline, shared with other processes that use it, and the cache of its lists and leaves.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Host } from '../../engine/host/host.ts'
import { SharedTimeline } from '../../engine/host/shared-timeline.ts'
import { type ThreadState, threadFold } from './fold.ts'
import { Leaves } from './leaves.ts'
import { Lists } from './lists.ts'
import type { Portable } from './portable.ts'

export class Thread extends SharedTimeline<ThreadState> {
  readonly lists: Lists
  readonly leaves: Leaves

  constructor(engine: Host, id: TimelineId, portable: Portable) {
    const lists = new Lists(portable)
    const leaves = new Leaves()
    super(engine, id, threadFold, () => {
      lists.forget()
      leaves.forget()
    })
    this.lists = lists
    this.leaves = leaves
  }

  /** Captures the state at two sequences: then the history before them is no longer needed, and retention trims it. */
  async settle(): Promise<void> {
    await this.checkpoint('pruned')
    await this.write(() => ({ entry: { type: 'pruned', data: [[], [], [], []] }, done: () => undefined }))
    await this.checkpoint('pruned')
  }
}
