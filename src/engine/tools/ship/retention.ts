// What was shipped goes once a restore can go back far enough without it. Parts go before the records that name them: killed in
// between, the next time finds the same again. Parts that no base came to name go when they are a day old.

import type { RecordHead, Whole } from '../../../core/ship/record.ts'
import { keyOf } from '../../../core/ship/record.ts'
import { type FoundRecord, readOr, type ShipLog } from './log.ts'

export interface BaseRow {
  readonly number: number
  readonly at: number
  readonly whole: Whole
}

const orphanMs = 86_400_000
const atOnce = 200

/** Newest first, from this record down. A damaged one is passed by. */
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
 * Says how many objects went. `tip` is the shipper's last record: where there is another behind it, another shipper has
 * followed, and what that one names is not for this one to judge.
 */
export async function dropOld(log: ShipLog, tip: number, newestBase: number, keepMs: number): Promise<number> {
  const rows = await log.objects.list('parts/')
  const now = log.objects.now()
  // After the list: what it shows was put by us, or by those before us.
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
