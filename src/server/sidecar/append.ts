// One append as a client asks for it: checked, and made into entries with one dedupe key. Asked again with the same key, also
// with an expected sequence that has passed since, it gives the same answer. Other entries under a key that was used are
// refused, as far as history still has what was written.

import { isDeepStrictEqual } from 'node:util'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Written } from '../../engine/commit/writer.ts'
import { systemPrefix } from '../../engine/definition.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import { entriesAfter } from '../../operations/history.ts'
import { plain } from '../../operations/json.ts'

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
  { engine, id }: { readonly engine: Reprise; readonly id: TimelineId },
  request: AppendRequest,
  open: () => Pick<OpenTimeline<unknown>, 'seqOfKey'>,
  write: () => Promise<Written>,
  refresh: () => Promise<unknown>,
): Promise<Appended> {
  const { entries, key } = request
  const again = async (): Promise<Appended | null> => {
    const first = key === undefined ? undefined : open().seqOfKey(key)
    if (first === undefined) return null
    if (!(await hasEntries(engine, id, first, entries))) {
      throw new RepriseError('KEY_REUSED', 'this Idempotency-Key was used for other entries', { timeline: id, first })
    }
    return { first, seq: first + entries.length - 1, isDuplicate: true }
  }
  try {
    const written = await write()
    if (written.isDuplicate) return (await again()) ?? toAppended(written)
    return toAppended(written)
  } catch (error) {
    if (key === undefined || !isReprise(error, 'CONFLICT')) throw error
    await refresh()
    const known = await again()
    if (!known) throw error
    return known
  }
}

function toAppended({ first, count, isDuplicate }: Written): Appended {
  return { first, seq: first + count - 1, isDuplicate }
}

/** Whether history has these entries from there on. What was trimmed away cannot be compared, and is taken for the same. */
async function hasEntries(engine: Reprise, id: TimelineId, first: number, entries: AppendRequest['entries']) {
  const head = await engine.head(id)
  if (!head || head.floor >= first) return true
  let at = 0
  for await (const { type, data } of entriesAfter(engine, head, first - 1)) {
    const asked = entries[at]!
    if (type !== asked.type || !isDeepStrictEqual(json(data), json(asked.data ?? {}))) return false
    at += 1
    if (at === entries.length) return true
  }
  return false
}

function json(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, plain))
}
