// The own checks of all shards, at the same time. Their progress is reported as one, and so is the mark to resume from.

import type { Inspected, Inspection, StoreFault } from '../../core/store/ports.ts'
import type { Shard } from './shard.ts'

const ended = 'end'

export async function inspectShards(
  shards: readonly Shard[],
  { onProgress, signal, after }: Inspection,
): Promise<StoreFault[]> {
  const marks = marksOf(after, shards.length)
  const at: (Inspected | null)[] = shards.map(() => null)
  const report = (part: string) => {
    const known = at.filter((each) => each !== null)
    const isTotalKnown = known.length === shards.length && known.every(({ total }) => total !== null)
    onProgress?.({
      part,
      done: known.reduce((sum, { done }) => sum + done, 0),
      total: isTotalKnown ? known.reduce((sum, { total }) => sum + total!, 0) : null,
      faults: known.reduce((sum, { faults }) => sum + faults, 0),
      mark: JSON.stringify(marks),
    })
  }
  const lists = await Promise.all(
    shards.map(async (shard, index) => {
      const mark = marks[index]!
      if (mark === ended) return []
      const own: Inspection = {
        ...(signal && { signal }),
        ...(mark !== '' && { after: mark }),
        onProgress: (now) => {
          at[index] = now
          marks[index] = now.mark
          report(`shard ${shard.index}: ${now.part}`)
        },
      }
      const faults = await shard.ask((store) => store.upkeep.inspect(own))
      marks[index] = ended
      return faults.map((fault) => ({ ...fault, where: `shard ${shard.index}: ${fault.where}` }))
    }),
  )
  return lists.flat()
}

/** One per shard; '' is the beginning. An unreadable mark, or one for another number of shards, is ignored. */
function marksOf(after: string | undefined, count: number): string[] {
  try {
    const marks: unknown = JSON.parse(after ?? '')
    if (Array.isArray(marks) && marks.length === count) return marks.map(String)
  } catch {
    // Not a mark of this store.
  }
  return Array.from({ length: count }, () => '')
}
