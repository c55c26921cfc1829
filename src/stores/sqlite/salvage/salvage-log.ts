// Salvages the log of a damaged file. A partly readable row keeps its readable runs, and a missing row is replaced with an
// empty one: a read of a run there reports that it is missing, and a copy from elsewhere can be put there.

import { equalBytes } from '../../../core/coordinate.ts'
import type { SqlRow } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { isAnchor } from '../log/log.ts'
import { compactedRow, type Frame, isWhole, joinedBefore, RowEncoder, readFrames, soundFrames } from '../log/log-row.ts'
import { wholeRowsNear } from './log-bits.ts'
import { RowNeighbours } from './row-neighbours.ts'
import type { Salvage } from './salvage-io.ts'

export interface SalvagedLog {
  /** Rows that are not whole. */
  readonly damaged: ReadonlySet<number>
  /** The first of the acknowledged rows that are missing at the end; null: there are none. */
  readonly goneFrom: number | null
  readonly end: { readonly position: number; readonly body: Uint8Array }
}

const insert = 'INSERT OR IGNORE INTO reprise_log (position, body) VALUES (?, ?)'

export function salvageLog(work: Salvage): SalvagedLog {
  const { from, to } = work
  const broken = new Set<number>()
  const unsure = new Map<number, readonly Uint8Array[]>()
  const unread = new Map<number, Uint8Array>()
  const keep = (at: number, body: unknown, mended: Uint8Array | null) => {
    if (!mended) broken.add(at)
    else work.rebuilt.push({ where: `log row ${at}`, what: 'one bit of it was flipped' })
    to.run(insert, at, mended ?? compactedRow(at, soundFrames(at, body)))
  }
  const found: Found[] = []
  for (const { row, isFilled, reshaped } of from.shaped('reprise_log')) {
    const { position, body } = row ?? { position: null, body: null }
    const at = Number.isSafeInteger(position) && (position as number) > 0 ? (position as number) : null
    if (at !== null && isFilled && isWhole(at, body)) to.run(insert, at, body!)
    else found.push({ at, body, isFilled, whole: reshaped().flatMap(toWhole) })
  }
  // After all whole rows: the number of a row may be damaged, and whole rows take precedence.
  for (const { at, body, isFilled, whole } of found) {
    const near = at !== null && isFilled && body instanceof Uint8Array ? wholeRowsNear(at, body) : []
    const other = otherPlace(work, at, whole, near.length > 0)
    if (other) keep(other.position, other.body, other.body)
    else if (at === null) continue
    else if (near.length > 1) {
      unsure.set(at, near)
      unread.set(at, body as Uint8Array)
    } else keep(at, body, near[0] ?? null)
  }
  if (unsure.size > 0) {
    const neighbours = new RowNeighbours(to, knownTids(work), unsure, allFrames(work))
    for (const [at, near] of unsure) keep(at, unread.get(at), neighbours.only(at, near))
  }
  const { gone, goneFrom } = fillGaps(work)
  for (const at of broken) {
    const what = 'it was read in part, and that part is kept; missing entries are reported by timeline'
    work.rebuilt.push({ where: `log row ${at}`, what, isIncomplete: true })
  }
  for (const [first, last] of gone) {
    const where = first === last ? `log row ${first}` : `log rows ${first} to ${last}`
    const what = 'nothing could be read; an empty row replaces it; missing entries are reported by timeline'
    work.rebuilt.push({ where, what, isIncomplete: true })
    for (let at = first; at <= last; at++) broken.add(at)
  }
  for (const { position, frame } of allFrames(work)) {
    const { tid, first, last, bytes } = frame
    if (!isAnchor(tid, first, last - first + 1, bytes.length)) continue
    to.run('INSERT OR REPLACE INTO reprise_anchor (tid, last, position) VALUES (?, ?, ?)', tid, last, position)
  }
  const position = Number(to.get('SELECT coalesce(max(position), 0) AS last FROM reprise_log')!.last) + 1
  // A settled row: the heads of all rows before it are written.
  const body = new RowEncoder().encode(position, [], null, () => true).slice()
  to.run(insert, position, body)
  return { damaged: broken, goneFrom, end: { position, body } }
}

/** A row that is incomplete as stored. */
interface Found {
  /** Its stored number; null: it cannot be read. */
  readonly at: number | null
  readonly body: unknown
  readonly isFilled: boolean
  /** Whole rows that differ from it by one bit in its boundaries. */
  readonly whole: readonly WholeRow[]
}

interface WholeRow {
  readonly position: number
  readonly body: Uint8Array
}

function toWhole({ position, body }: SqlRow): WholeRow[] {
  if (!(typeof position === 'number' && Number.isSafeInteger(position) && position > 0)) return []
  return body instanceof Uint8Array && isWhole(position, body) ? [{ position, body }] : []
}

/**
 * The only possible original of the row. The time of an unsettled row changes its checksums as its number does (log-bits.ts).
 * So if a bit of the body may have flipped instead, a flipped bit of the number counts only if the number is out of order, or
 * if the other number is missing between its neighbours.
 */
function otherPlace({ to }: Salvage, at: number | null, whole: readonly WholeRow[], isNear: boolean): WholeRow | null {
  const has = (position: number) => to.get('SELECT 1 FROM reprise_log WHERE position = ?', position) !== undefined
  const isOut = at === null || has(at) || !(has(at - 1) || has(at + 1))
  const isGap = (position: number) => has(position - 1) && has(position + 1)
  const fitting = whole.filter(({ position }) => {
    return position === at ? !isNear : !has(position) && (!isNear || isOut || isGap(position))
  })
  // The column of the row id has no bytes, whichever of a few types it claims: several shapes may be the same row.
  const [first] = fitting
  const isSame = ({ position, body }: WholeRow) => position === first!.position && equalBytes(body, first!.body)
  return first && fitting.every(isSame) ? first : null
}

function knownTids({ from }: Salvage): Set<number> {
  const tables = ['reprise_timeline', 'reprise_head', 'reprise_witness']
  return new Set(tables.flatMap((table) => [...from.rows(table)].map(({ tid }) => tid as number)))
}

/** Every readable run, in the order of the log. */
export function* allFrames({ to }: Salvage): Generator<{ readonly position: number; readonly frame: Frame }> {
  const sql = 'SELECT position, body FROM reprise_log WHERE position > ? ORDER BY position LIMIT 256'
  for (let after = 0; ; ) {
    const rows = to.all(sql, after)
    for (const { position, body } of rows) {
      after = position as number
      for (const frame of readFrames(after, body as Uint8Array)) yield { position: after, frame }
    }
    if (rows.length < 256) return
  }
}

interface Gaps {
  /** The first and last row of each gap. */
  readonly gone: readonly (readonly [first: number, last: number])[]
  readonly goneFrom: number | null
}

/** The start of the log is stored apart from its rows. If it is lost or damaged, the log starts with its first row. */
function fillGaps({ from, to, options }: Salvage): Gaps {
  const recordedStart = to.get(`SELECT value FROM reprise_meta WHERE key = 'log_start'`)?.value
  const first = Number(to.get('SELECT coalesce(min(position), 1) AS first FROM reprise_log')!.first)
  // No page of the log is damaged, but it does not begin where recorded: the recorded start is damaged.
  const isWrong = recordedStart !== first && !(recordedStart === undefined && first === 1) && !from.isBad('reprise_log')
  const isLost = isWrong || (from.isBad('reprise_meta') && recordedStart === undefined)
  const start = isLost ? first : Number(recordedStart ?? 1)
  if (isLost) {
    to.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('log_start', ?)`, start)
  }
  const gone: [number, number][] = []
  let expected = start
  const fill = (end: number) => {
    if (expected < end) gone.push([expected, end - 1])
    for (; expected < end; expected++) to.run(insert, expected, compactedRow(expected, []))
  }
  const sql =
    'SELECT position, iif(length(body) <= 32, body, NULL) AS body FROM reprise_log WHERE position >= ? ORDER BY position'
  for (const row of to.all(sql, start)) {
    const position = row.position as number
    const begin = position - joinedBefore(position, row.body)
    if (begin - expected > gapMax) throw damaged(`the log has a gap before row ${position}`)
    fill(begin)
    expected = position + 1
  }
  // Acknowledged rows existed.
  if (options.acknowledged - expected > gapMax) throw damaged(`the log ends at ${expected - 1}`)
  const goneFrom = expected <= options.acknowledged ? expected : null
  fill(options.acknowledged + 1)
  return { gone, goneFrom }
}

/** More rows than a page refers to: such a position is ignored. */
const gapMax = 1_000_000
