// What a reader of the feed has read last, so that it can tell whether the store still has it. A position alone cannot: a
// store that went back to an older copy grows past it again, with other entries below it.

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { lastSeq } from '../../core/entry-run.ts'
import { RepriseError } from '../../core/errors.ts'
import type { FeedPosition, Head } from '../../core/ports.ts'
import type { Kernel } from '../kernel.ts'
import type { Point } from '../recovery/history.ts'

/** Timelines that are remembered: of the newest, its history may have been forgotten or trimmed meanwhile. */
const marksMax = 8

/** 'unknown': what would tell was trimmed or forgotten. */
export type Whereabouts = 'there' | 'gone' | 'unknown'

export class FeedMarks {
  readonly #kernel: Kernel
  /** The newest last. */
  readonly #points = new Map<TimelineId, Point>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  note(timeline: TimelineId, point: Point): void {
    this.#points.delete(timeline)
    this.#points.set(timeline, point)
    if (this.#points.size <= marksMax) return
    for (const oldest of this.#points.keys()) {
      this.#points.delete(oldest)
      return
    }
  }

  /** POSITION_GONE if the store does not have what was read last. The newest that can be told decides. */
  async check(position: FeedPosition): Promise<void> {
    if (this.#kernel.planted.has('feed-trusts-position')) return
    for (const [timeline, point] of [...this.#points].reverse()) {
      const found = await whereabouts(this.#kernel, timeline, point)
      if (found === 'gone') throw goneAt(timeline, point, position)
      if (found === 'there') return
    }
  }

  clear(): void {
    this.#points.clear()
  }
}

/** Whether this timeline's history went through this point: on its branch of now, or on one that was rolled back. */
export async function whereabouts(
  { store }: Pick<Kernel, 'store'>,
  timeline: TimelineId,
  point: Point,
): Promise<Whereabouts> {
  let [head] = await store.head([timeline])
  const seen = new Set<string>()
  while (head && !seen.has(head.timeline)) {
    const { base }: Head = head
    seen.add(head.timeline)
    if (point.seq <= head.seq && (!base || point.seq > base.seq)) {
      const found = await at(store, head, point)
      if (found !== 'gone') return found
    }
    if (!base) return 'gone'
    ;[head] = await store.head([base.timeline])
  }
  return 'unknown'
}

async function at(store: Kernel['store'], head: Head, point: Point): Promise<Whereabouts> {
  const told = (isSame: boolean) => (isSame ? 'there' : 'gone')
  if (point.seq === head.seq) return told(equalBytes(head.digest, point.digest))
  if (point.seq === head.floor) return told(equalBytes(head.floorDigest, point.digest))
  if (point.seq < head.floor) return 'unknown'
  const [run] = await store.read(head.timeline, point.seq - 1, 1)
  // Trimmed since its head was read.
  if (!run || run.first > point.seq) return 'unknown'
  return told(lastSeq(run) === point.seq && equalBytes(run.digest, point.digest))
}

export function goneAt(timeline: TimelineId, { seq }: Point, position: FeedPosition): RepriseError {
  const what = `the store does not have ${timeline}@${seq} as it was read before ${position || 'the start'}: it went back to an older copy`
  return new RepriseError('POSITION_GONE', what, { timeline, seq, position })
}
