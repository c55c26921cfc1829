// Removes shipped data that no restore within the retention time needs. Parts are deleted before the records that name
// them: if the process is killed in between, the next run finds the same again. Parts that no base names are deleted
// after a day.

import type { BaseState, RecordHead } from '../../../core/shipping/record.ts'
import { keyOf } from '../../../core/shipping/record.ts'
import { type FoundRecord, readOr, type ShipLog } from './log.ts'

export interface BaseRow {
  readonly number: number
  readonly at: number
  readonly whole: BaseState
}

const orphanMs = 86_400_000
const atOnce = 200

/** Newest first, from this record down. Damaged records are skipped. */
export async function* basesFrom(log: ShipLog, number: number, oldest = 1): AsyncGenerator<BaseRow> {
  for (let at = number; at >= oldest; ) {
    const found: FoundRecord | string = await readOr(log, at)
    if (typeof found === 'string') {
      at -= 1
      continue
    }
    const { head } = found
    if (head.whole) yield { number: found.number, at: head.at, whole: head.whole }
    at = nextBase(head, found.number)
  }
}

function nextBase(head: RecordHead, number: number): number {
  return head.base < number ? head.base : 0
}

/**
 * Returns the number of deleted objects. `tip` is the shipper's last record: a later record means that another shipper
 * has taken over, and this one deletes nothing.
 */
export async function dropOld(log: ShipLog, tip: number, newestBase: number, keepMs: number): Promise<number> {
  const rows = await log.objects.list('parts/')
  const now = log.objects.now()
  // Checked after listing: all listed objects were put by this shipper or its predecessors.
  if ((await log.newest()) !== tip) return 0
  const kept: BaseRow[] = []
  const dropped: BaseRow[] = []
  for await (const base of basesFrom(log, newestBase)) {
    const isOldEnough = (kept.at(-1)?.at ?? Number.POSITIVE_INFINITY) <= now - keepMs
    if (isOldEnough) dropped.push(base)
    else kept.push(base)
  }
  const named = new Set(kept.flatMap(({ whole }) => whole.parts.map(({ key }) => key)))
  const old = new Set(dropped.flatMap(({ whole }) => whole.parts.map(({ key }) => key)))
  for (const { key, modifiedAt } of rows) if (modifiedAt < now - orphanMs) old.add(key)
  const parts = [...old].filter((key) => !named.has(key))
  const oldest = kept.at(-1)
  const records =
    oldest && dropped.length > 0 ? (await log.numbers()).filter((number) => number <= oldest.whole.asOf) : []
  const keys = [...parts, ...records.map(keyOf)]
  for (let from = 0; from < keys.length; from += atOnce) await log.objects.delete(keys.slice(from, from + atOnce))
  return keys.length
}
