// Replaces stored bytes by others (Upkeep.rewrite), in the memory world.

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import type { Change, ManifestRecord, Rewritable, Rewritten, RunChange } from '../../core/store/ports.ts'
import { copyRecord } from './apply.ts'
import { Log } from './copy-on-write.ts'
import { type MessageRow, messageKey, type RunRow, type Space } from './world.ts'

/** All in one call: a store in memory needs no paging. */
export function rewrite(space: Space, kind: Rewritable, change: Change): Rewritten {
  const count = new Count(change)
  if (kind === 'runs') rewriteRuns(space, count)
  else if (kind === 'checkpoints') {
    for (const row of [...space.timelines.values()]) {
      const catalog = row.catalog.map((record) => ({ ...record, body: count.apply(record.body) }))
      space.timelines.set(row.id, { ...row, catalog })
    }
  } else {
    for (const [timeline, messages] of [...space.unread.entries()]) {
      const rows = messages.map((message): MessageRow => ({ ...message, data: count.apply(message.data) }))
      space.unread.set(timeline, rows)
      for (const row of rows) space.messages.set(messageKey(row.to, row.id), row)
    }
  }
  return { next: null, seen: count.seen, changed: count.changed, left: 0 }
}

export function replace(
  space: Space,
  timeline: TimelineId,
  changes: readonly RunChange[],
): Pick<Rewritten, 'changed' | 'left'> {
  const row = space.timelines.get(timeline)
  if (!row) return { changed: 0, left: 0 }
  const renewed = new Map<RunRow, RunRow>()
  for (const run of row.runs) {
    const isIt = ({ first, digest, count }: RunChange) =>
      first === run.first && (count !== undefined || equalBytes(digest, run.digest))
    const change = changes.find(isIt)
    if (!change) continue
    const { count = run.count, digest, bytes } = change
    renewed.set(run, { ...run, count, digest: new Uint8Array(digest), bytes: new Uint8Array(bytes) })
  }
  const renew = (run: RunRow) => renewed.get(run) ?? run
  space.timelines.set(timeline, { ...row, runs: new Log([...row.runs].map(renew)) })
  space.feed = new Log([...space.feed].map((item) => ({ ...item, run: renew(item.run) })))
  return { changed: renewed.size, left: 0 }
}

/** Upkeep.mendCatalog. The entry published last stays last. */
export function mendLines(space: Space, timeline: TimelineId, lines: readonly ManifestRecord[]): void {
  const row = space.timelines.get(timeline)
  if (!row) return
  const copies = new Map(lines.map((line) => [line.id, copyRecord(line)]))
  const catalog = row.catalog.map((record) => copies.get(record.id) ?? record)
  const added = [...copies.values()].reverse().filter(({ id }) => !row.catalog.some((record) => record.id === id))
  for (const { id } of added) space.manifests.set(id, timeline)
  space.timelines.set(timeline, { ...row, catalog: [...added, ...catalog] })
}

/** The feed and the timeline share the same row objects, before and after. */
function rewriteRuns(space: Space, count: Count): void {
  const renewed = new Map<RunRow, RunRow>()
  const renew = (run: RunRow): RunRow => {
    const known = renewed.get(run)
    if (known) return known
    const row = { ...run, bytes: count.apply(run.bytes) }
    renewed.set(run, row)
    return row
  }
  for (const row of [...space.timelines.values()]) {
    space.timelines.set(row.id, { ...row, runs: new Log([...row.runs].map(renew)) })
  }
  space.feed = new Log([...space.feed].map((item) => ({ ...item, run: renew(item.run) })))
}

class Count {
  seen = 0
  changed = 0
  readonly #change: Change

  constructor(change: Change) {
    this.#change = change
  }

  apply(bytes: Uint8Array): Uint8Array {
    this.seen += 1
    const other = this.#change(new Uint8Array(bytes))
    if (!other) return bytes
    this.changed += 1
    return new Uint8Array(other)
  }
}
