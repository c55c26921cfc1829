// The memory world as the rules of a commit see it (core/commit).

import type { CommitView } from '../../core/commit/view.ts'
import type { Hash } from '../../core/store/ports.ts'
import { toPosition } from '../numbered-position.ts'
import { pastOf } from './past.ts'
import { isAlive } from './view.ts'
import { messageKey, type Space } from './world.ts'

export function commitView(space: Space, hash: Hash, now: number): CommitView {
  return {
    now,
    head: (timeline) => space.timelines.get(timeline) ?? null,
    past: (timeline) => pastOf(space, hash, timeline),
    *forks(parent) {
      for (const { id, base, floor } of space.timelines.values()) {
        if (base?.timeline === parent) yield { timeline: id, floor, baseSeq: base.seq }
      }
    },
    catalog: (timeline) => space.timelines.get(timeline)?.catalog ?? [],
    hasCheckpoint: (id) => space.manifests.has(id),
    sweepMark: () => space.sweepMark,
    runEndingAt(timeline, seq) {
      const runs = space.timelines.get(timeline)?.runs
      const run = runs?.at(runs.search(({ first }) => first > seq) - 1)
      return run && run.first + run.count - 1 === seq ? toPosition(run.number) : null
    },
    nextPosition: toPosition(space.nextFeedNumber),
    cursorBefore(position) {
      for (const cursor of space.cursors.values()) if (cursor.position < position) return cursor.name
      return null
    },
    cursor: (name) => space.cursors.get(name) ?? null,
    unread: (timeline) => space.unread.get(timeline)?.length ?? 0,
    message(to, id) {
      const message = space.messages.get(messageKey(to, id))
      if (!message) return null
      return message.consumedAt === null ? 'unread' : 'consumed'
    },
    hasRequest: () => false,
    isRetired: (worker) => (space.workers.get(worker)?.retiredAt ?? null) !== null,
    isAlive: (worker) => isAlive(space.workers.get(worker), now),
  }
}
