// One append as a client asks for it: checked, and made into entries with one dedupe key. Asked again with the same key, also
// with an expected sequence that has passed since, it gives the same answer.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Written } from '../../engine/commit/writer.ts'
import { systemPrefix } from '../../engine/definition.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'

export interface AppendRequest {
  readonly entries: readonly { readonly type: string; readonly data?: Readonly<Record<string, unknown>> }[]
  /** Only if this is still the last sequence, else CONFLICT. */
  readonly expect?: number
  readonly key?: string
  readonly signal?: AbortSignal
}

export interface Appended {
  /** Of the first and of the last entry. */
  readonly first: number
  readonly seq: number
  readonly isDuplicate: boolean
}

/** The first entry has the key, the others belong to it. */
export function entriesOf({ entries, key }: AppendRequest): NewEntry[] {
  return entries.map(({ type, data = {} }, i) => {
    if (type.startsWith(systemPrefix)) {
      throw new RepriseError('INVALID_ARGUMENT', `types that start with ${systemPrefix} belong to the engine`, { type })
    }
    if (Object.hasOwn(data, 'type')) {
      throw new RepriseError('INVALID_ARGUMENT', 'the data of an entry has no `type` of its own', { type })
    }
    return { type, data, ...(key !== undefined && (i === 0 ? { key } : { partOf: key })) }
  })
}

/** Writes, and tells a repetition from a conflict. `refresh` reads what others wrote meanwhile. */
export async function appendOnce(
  request: AppendRequest,
  open: () => Pick<OpenTimeline<unknown>, 'seqOfKey'>,
  write: () => Promise<Written>,
  refresh: () => Promise<unknown>,
): Promise<Appended> {
  const { entries, key } = request
  const again = (): Appended | null => {
    const first = key === undefined ? undefined : open().seqOfKey(key)
    return first === undefined ? null : { first, seq: first + entries.length - 1, isDuplicate: true }
  }
  try {
    const written = await write()
    if (written.isDuplicate) return again() ?? toAppended(written)
    return toAppended(written)
  } catch (error) {
    if (key === undefined || !isReprise(error, 'CONFLICT')) throw error
    await refresh()
    const known = again()
    if (!known) throw error
    return known
  }
}

function toAppended({ first, count, isDuplicate }: Written): Appended {
  return { first, seq: first + count - 1, isDuplicate }
}
