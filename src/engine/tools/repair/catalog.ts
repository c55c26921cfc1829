// Verifies the catalog of a timeline and restores its damaged lines. A damaged line with a copy is read from the copy; with
// `repair` it is written back. A missing line without a copy is lost: with `repair` the others are counted again, so that they
// can be read.

import type { ManifestId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Head, ManifestRecord } from '../../../core/store/ports.ts'
import type { Kernel } from '../../storage/kernel.ts'

export interface ReadCatalog {
  readonly records: readonly ManifestRecord[]
  /** Damaged or missing lines that were read from their copies. */
  readonly mended: readonly { readonly id: ManifestId; readonly isPutRight: boolean }[]
  /** Lines without a copy. */
  readonly lost: string | null
  /** True: rows are permanently lost, and the others were recounted, so that later checks do not miss them. */
  readonly isCounted: boolean
}

export async function readCatalog(kernel: Kernel, head: Head, repair: boolean): Promise<ReadCatalog> {
  const { timeline } = head
  try {
    const { records, mended } = await examine(kernel, head)
    if (!repair || mended.length === 0)
      return { records, mended: toMended(mended, false), lost: null, isCounted: false }
    const lines = records.filter(({ id }) => mended.includes(id))
    const missing = await putBack(kernel, head, lines)
    return {
      records,
      mended: toMended(mended, missing !== null),
      lost: missing ? lostLines(missing) : null,
      isCounted: (missing ?? 0) > 0,
    }
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
    const missing = repair ? await putBack(kernel, head, []) : null
    if (missing === null) return { records: [], mended: [], lost: error.message, isCounted: false }
    return {
      records: await kernel.store.checkpoints(timeline),
      mended: [],
      lost: lostLines(missing),
      isCounted: missing > 0,
    }
  }
}

async function examine(kernel: Kernel, { timeline }: Head) {
  if (kernel.redundancy) return await kernel.redundancy.examine(timeline)
  return { records: await kernel.store.checkpoints(timeline), mended: [] }
}

/** Returns the number of lines that are missing permanently; null: the storage itself is damaged. */
async function putBack(kernel: Kernel, { timeline }: Head, lines: readonly ManifestRecord[]): Promise<number | null> {
  try {
    return (await kernel.store.upkeep.mendCatalog(timeline, lines)).missing
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED', 'STORE_READ_ONLY')) throw error
    return null
  }
}

function toMended(ids: readonly ManifestId[], isPutRight: boolean): ReadCatalog['mended'] {
  return ids.map((id) => ({ id, isPutRight }))
}

function lostLines(missing: number): string {
  const lines = missing === 1 ? 'one row of its catalog was' : `${missing} rows of its catalog were`
  return `${lines} lost, without a copy; the others were counted again`
}
