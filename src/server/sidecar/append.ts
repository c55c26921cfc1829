// One append of a client: checked, and converted into entries with one dedupe key. A repeated request with the same key
// returns the same response, even if its expected sequence has passed since. Different entries under a used key, more or
// fewer included, are refused, as long as history still has the original ones.

import { isDeepStrictEqual } from 'node:util'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { systemPrefix } from '../../engine/model/definition.ts'
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

/**
 * The first entry has the key, the others belong to it. The last of several entries has a key of its own that marks their
 * end: later entries in history are not part of the request. No header can contain this key, because it has a space.
 */
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
    const end = open().seqOfKey(endKey(key!))
    const isWhole = end === undefined || end === first + entries.length - 1
    if (!isWhole || !(await hasEntries(engine, id, first, entries, end !== undefined))) {
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

/**
 * Whether history has these entries from `first` on. Trimmed entries cannot be compared, and count as equal. Entries written
 * in TypeScript do not mark their end: entries of one commit share one time, and only the first has a key.
 */
async function hasEntries(
  engine: Reprise,
  id: TimelineId,
  first: number,
  entries: AppendRequest['entries'],
  hasEnd: boolean,
): Promise<boolean> {
  const head = await engine.head(id)
  if (!head || head.floor >= first) return true
  let at = 0
  let time = 0
  for await (const entry of entriesAfter(engine, head, first - 1)) {
    const asked = entries[at]!
    if (entry.type !== asked.type || !isDeepStrictEqual(json(entry.data), json(asked.data ?? {}))) return false
    if (at === 0) time = entry.time
    else if (!hasEnd && (entry.time !== time || entry.key !== undefined)) return false
    at += 1
    if (at === entries.length) return true
  }
  return false
}

function endKey(key: string): string {
  return `${key} end`
}

function json(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, plain))
}
