// Finds a place in history: a coordinate on the current branch of its timeline, or on a branch that a rollback archived.

import { type Coordinate, equalBytes, fromHex, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { noTimeline, RepriseError } from '../../core/errors.ts'
import { archivesStart, isAmongArchives, isArchiveOf } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'
import { soundPage } from '../storage/sound-page.ts'
import { digestAt, floorOf, lineageOf, offBranch, type Point, reachOf } from './history.ts'

/** Where: a whole coordinate, or a sequence on the current branch. */
export type TimelinePoint = Coordinate | { readonly timeline: string; readonly seq: number }

/** For callers without TypeScript: refuses a value that is not a place. */
export function checkWhere(where: unknown): asserts where is TimelinePoint {
  const { timeline, seq } = (typeof where === 'object' && where !== null ? where : {}) as Partial<TimelinePoint>
  if (typeof timeline === 'string' && typeof seq === 'number') return
  const example = `{ timeline: ${JSON.stringify(typeof where === 'string' ? where.slice(0, 80) : 'counter/x')}, seq: 1 }`
  throw new RepriseError('INVALID_ARGUMENT', `where must be a coordinate, or a timeline and a sequence: ${example}`, {
    given: typeof where,
  })
}

export interface Located {
  readonly head: Head
  readonly lineage: readonly Head[]
  readonly point: Point
}

/** Finds a coordinate: on the current branch of its timeline, or on one that was rolled back and archived. */
export async function locate(kernel: Kernel, where: TimelinePoint): Promise<Located> {
  checkWhere(where)
  const id = timelineId(where.timeline)
  const head = await existing(kernel, id)
  if (!Number.isSafeInteger(where.seq) || where.seq < 0) {
    throw new RepriseError('INVALID_ARGUMENT', 'a sequence must be a whole number of at least 0', { seq: where.seq })
  }
  const wanted = 'digest' in where ? fromHex(where.digest) : null
  const found = await pointOn(kernel, head, where.seq, wanted)
  if (found) return found
  for (const archived of await archivesOf(kernel, id)) {
    const elsewhere = await pointOn(kernel, archived, where.seq, wanted).catch(() => null)
    if (elsewhere) return elsewhere
  }
  throw offBranch(id, where.seq)
}

/** Null: the entry at this sequence has another digest on this branch. */
export async function pointOn(
  kernel: Kernel,
  head: Head,
  seq: number,
  wanted: Uint8Array | null,
): Promise<Located | null> {
  const lineage = await lineageOf(kernel, head)
  const floor = seq < floorOf(lineage).seq ? await reachOf(kernel, lineage) : floorOf(lineage)
  if (wanted && (seq > head.seq || seq < floor.seq)) return null
  if (seq > head.seq || seq < floor.seq) {
    throw new RepriseError(
      'OUT_OF_RANGE',
      `${head.timeline} has history from ${floor.seq} to ${head.seq}, not at ${seq}`,
      {
        timeline: head.timeline,
        seq,
        floor: floor.seq,
        head: head.seq,
      },
    )
  }
  const digest = await digestAt(kernel, lineage, seq)
  return wanted && !equalBytes(digest, wanted) ? null : { head, lineage, point: { seq, digest } }
}

export async function existing(kernel: Kernel, id: TimelineId): Promise<Head> {
  const [head] = await kernel.store.head([id])
  if (!head) throw noTimeline(id)
  return head
}

const pageOfArchives = 32

/** Not by scope: timelines below this id may be many, and are not archives of it. */
export async function archivesOf(kernel: Kernel, id: TimelineId): Promise<Head[]> {
  const found: Head[] = []
  const unlessOurs = (timeline: string, error: RepriseError) => {
    if (isArchiveOf(id, timeline)) throw error
  }
  for (let after = archivesStart(id) as TimelineId; ; ) {
    const page = await soundPage(kernel, { after, limit: pageOfArchives }, unlessOurs)
    found.push(...page.filter((head) => isArchiveOf(id, head.timeline)))
    const last = page.at(-1)
    if (!last || page.length < pageOfArchives || !isAmongArchives(id, last.timeline)) return found
    after = last.timeline
  }
}
