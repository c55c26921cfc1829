// Verifies everything that was shipped to a place: every record exists and follows the previous one, and every part of
// every base is unchanged. Reads all of it, and changes nothing.

import { equalBytes, fromHex } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { type FoundRecord, readOr, type ShipLog } from './log.ts'

export interface ShippedReport {
  readonly ok: boolean
  readonly place: string
  readonly oldest: number
  readonly newest: number
  readonly bases: number
  readonly parts: number
  readonly bytes: number
  /** The earliest time that a restore can go back to. Null: none. */
  readonly from: number | null
  readonly to: number | null
  readonly faults: readonly { readonly where: string; readonly what: string }[]
  /** How to fix missing or damaged parts. Null: all are intact. */
  readonly cure: string | null
}

/** A starting shipper checks which parts exist; it does not read them. */
const newBase = 'delete the damaged parts at the place and start `reprise ship` again: it writes a new base'
const olderOnly = 'the newest base is intact: the damaged records are older, and expire'

/** Throws NOT_FOUND, KEY_MISSING. */
export async function verifyShipped(log: ShipLog): Promise<ShippedReport> {
  const numbers = await log.numbers()
  const newest = await log.newest(numbers)
  if (newest === 0) throw new RepriseError('NOT_FOUND', `nothing was shipped to ${log.objects.name}`, {})
  const oldest = numbers[0] ?? newest
  const faults: { where: string; what: string }[] = []
  /** The reason a part is damaged, by key. Null: it is intact. */
  const seen = new Map<string, string | null>()
  let isBaseSound = false
  let before: FoundRecord | null = null
  let [bases, bytes] = [0, 0]
  let [from, to]: [number | null, number | null] = [null, null]
  for (let number = oldest; number <= newest; number++) {
    const found: FoundRecord | string = await readOr(log, number)
    if (typeof found === 'string') {
      faults.push({ where: `record ${number}`, what: found })
      before = null
      continue
    }
    if (before && !equalBytes(before.digest, found.previous)) {
      faults.push({ where: `record ${number}`, what: 'it does not follow the previous record' })
    }
    const { whole, at } = found.head
    bytes += found.bytes
    if (whole) {
      bases += 1
      from ??= whole.at
      if (whole.asOf === before?.number && !equalBytes(fromHex(whole.asOfDigest), before.digest)) {
        faults.push({ where: `base ${number}`, what: `it does not follow from the state after record ${whole.asOf}` })
      }
      isBaseSound = true
      for (const part of whole.parts) {
        if (!seen.has(part.key)) {
          bytes += part.bytes
          seen.set(part.key, await whyUnsound(log, part))
        }
        // Every base that names the part is unusable.
        const why = seen.get(part.key) ?? null
        if (why !== null) faults.push({ where: `base ${number}`, what: why })
        isBaseSound &&= why === null
      }
    }
    if (from !== null) to = at
    before = found
  }
  if (bases === 0) faults.push({ where: 'bases', what: 'there is no base: nothing can be restored' })
  return {
    ok: faults.length === 0,
    place: log.objects.name,
    oldest,
    newest,
    bases,
    parts: seen.size,
    bytes,
    from,
    to,
    faults,
    cure: [...seen.values()].every((why) => why === null) ? null : isBaseSound ? olderOnly : newBase,
  }
}

async function whyUnsound(log: ShipLog, part: Parameters<ShipLog['readPart']>[0]): Promise<string | null> {
  try {
    const pages = await log.readPart(part)
    return log.digestOf(pages) === part.plain ? null : `the part ${part.key} holds other pages`
  } catch (error) {
    if (!isReprise(error, 'UNRECOVERABLE', 'MALFORMED', 'DECRYPT_FAILED')) throw error
    return error.message
  }
}
