// One append of a client: checked, and converted into entries with one dedupe key. A repeated request with the same key
// returns the same response, even if its expected sequence has passed since. Different entries under a used key, more or
// fewer included, are refused, as long as history still has the original ones.

import { isDeepStrictEqual } from 'node:util'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { systemPrefix } from '../../engine/model/definition.ts'
import { endKey } from '../../engine/model/entry.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import type { Written } from '../../engine/writing/writer.ts'
import { entriesAfter } from '../../operations/history.ts'
import { plain } from '../../operations/json.ts'

export interface AppendRequest {
  readonly entries: readonly { readonly type: string; readonly data?: Readonly<Record<string, unknown>> }[]
  /** Appends only if this is still the last sequence; otherwise CONFLICT. */
  readonly expect?: number
  readonly key?: string
  readonly signal?: AbortSignal
}

export interface Appended {
  /** Sequences of the first and the last entry. */
  readonly first: number
  readonly seq: number
  readonly isDuplicate: boolean
}

/** As in TypeScript: the first entry has the key, the others belong to it, and the last of several marks their end. */
export function entriesOf({ entries, key }: AppendRequest): NewEntry[] {
  const last = entries.length - 1
  const keysAt = (i: number) => {
    if (i === 0) return { key }
    return i === last ? { key: endKey(key!), partOf: key } : { partOf: key }
  }
  return entries.map(({ type, data = {} }, i) => {
    if (type.startsWith(systemPrefix)) {
      throw new RepriseError('INVALID_ARGUMENT', `types that start with ${systemPrefix} belong to the engine`, { type })
    }
    if (Object.hasOwn(data, 'type')) {
      throw new RepriseError('INVALID_ARGUMENT', 'the data of an entry must not contain `type`', { type })
    }
    return { type, data, ...(key !== undefined && keysAt(i)) }
  })
}

/** Writes, and distinguishes a repetition from a conflict. `refresh` reads the commits of other writers. */
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
    const end = endOf(open(), key!) ?? first
    if (end !== first + entries.length - 1 || !(await hasEntries(engine, id, first, entries))) {
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

/** The sequence of the mark. Null: the entry with the key is the only one of its append. */
function endOf(open: Pick<OpenTimeline<unknown>, 'seqOfKey'>, key: string): number | null {
  // Earlier versions put the mark after the key.
  return open.seqOfKey(endKey(key)) ?? open.seqOfKey(`${key} end`) ?? null
}

/** Whether history has these entries from `first` on. Trimmed entries cannot be compared, and are treated as equal. */
async function hasEntries(
  engine: Reprise,
  id: TimelineId,
  first: number,
  entries: AppendRequest['entries'],
): Promise<boolean> {
  const head = await engine.head(id)
  if (!head || head.floor >= first) return true
  let at = 0
  for await (const entry of entriesAfter(engine, head, first - 1)) {
    const requested = entries[at]!
    if (entry.type !== requested.type || !isDeepStrictEqual(json(entry.data), json(requested.data ?? {}))) return false
    at += 1
    if (at === entries.length) return true
  }
  return false
}

function json(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, plain))
}
