// Salvages timelines of a damaged file: their rows, heads and searchable attributes. A head that is lost, or older than its
// mark, is rebuilt from the log; a row is rebuilt from its name, its head and its attributes. A rebuilt head gets an epoch
// that no owner holds.

import type { Digest, TimelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { chainDigest, originDigest, readStart } from '../../../core/history/entry-run.ts'
import { lostAttribute, lostStatus } from '../../../core/history/lost-head.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import type { Frame } from '../log/log-row.ts'
import { unsettledRowsMax } from '../log/unsettled.ts'
import { encodeAttribute } from '../rows/attributes.ts'
import { columnNames as manifestColumns } from '../rows/catalog.ts'
import { encodeHead, encodeTail, type HeadState, headBytesMax, headOf } from '../rows/head-state.ts'
import { checksumOf, isIntact } from '../rows/row-checksum.ts'
import { headCrc, newerOf } from '../rows/row-counts.ts'
import { columnNames } from '../rows/timeline-statements.ts'
import { nameKey } from '../rows/timelines.ts'
import { RowRemains } from './row-remains.ts'
import type { Salvage } from './salvage-io.ts'
import { allFrames, type SalvagedLog } from './salvage-log.ts'
import { isSoundWitness } from './sound-rows.ts'

/** More ownerships than are possible without a write. */
const epochLeap = 1_000_000

export interface Named {
  readonly tid: number
  readonly space: number
  readonly name: string
}

/** The timelines by number. */
export function salvageTimelines(work: Salvage, log: SalvagedLog): ReadonlyMap<number, Named> {
  const { from, to } = work
  const names = new Map<number, Named>()
  const remains = new RowRemains(from)
  const written = new Map<number, SqlValue>()
  for (const row of from.rows('reprise_witness')) {
    const { space, name, tid } = row
    remember(names, tid, space, name)
    // A damaged witness proves nothing against a row.
    if (isSoundWitness(row)) written.set(tid as number, row.row!)
  }
  for (const { values } of from.raw('sqlite_autoindex_reprise_timeline_1')) {
    if (values.length === 3) remember(names, values[2], values[0], values[1])
  }
  for (const row of from.rows('reprise_timeline')) {
    if (!isIntact(row, columnNames)) continue
    remember(names, row.tid, row.space, row.name)
    const { tid, name } = row
    const isOlder = written.has(tid as number) && written.get(tid as number) !== row.crc
    writeTimelineRow(to, isOlder ? { ...row, ...remains.columnsOf(tid as number) } : row)
    if (!isOlder) continue
    const what = 'its row is older than its last write: its status, queue and wakeup are unknown'
    work.lost.push({ timeline: String(name), where: 'timelines', what, isUntilHead: true })
  }
  const heads = soundHeads(work)
  for (const [tid, head] of heads) writeHead(to, tid, head)
  nameGone(work, log, heads)
  dropPhantoms(work, names)
  const all = [...names.values()]
  for (const named of all) makeWhole(work, named, all, remains)
  settle(work, log, names)
  for (const row of to.all('SELECT tid, attributes FROM reprise_timeline')) writeAttributes(to, row)
  return names
}

function remember(
  names: Map<number, Named>,
  tid: SqlValue | undefined,
  space: SqlValue | undefined,
  name: unknown,
): void {
  if (!Number.isSafeInteger(tid) || !Number.isSafeInteger(space) || typeof name !== 'string') return
  names.set(tid as number, { tid: tid as number, space: space as number, name })
}

/** Drops a damaged number or name in one list: the timeline exists under its own. */
function dropPhantoms({ to }: Salvage, names: Map<number, Named>): void {
  const isThere = (sql: string, ...values: SqlValue[]) => to.get(sql, ...values) !== undefined
  for (const { tid, space, name } of [...names.values()]) {
    if (isThere('SELECT 1 FROM reprise_timeline WHERE tid = ?', tid)) continue
    if (isThere('SELECT 1 FROM reprise_timeline WHERE space = ? AND name = ?', space, name)) names.delete(tid)
  }
}

/** Heads by number, from an intact copy. If two differ, the newer one is used, unless it is older than its mark. */
function soundHeads({ from }: Salvage): Map<number, HeadState> {
  const copies = new Map([...from.rows('reprise_head_mark')].map((row) => [row.tid as number, row]))
  const heads = new Map<number, HeadState>()
  for (const [tid, { state }] of copies) {
    const copy = headOf(tid, state)
    if (copy) heads.set(tid, copy)
  }
  for (const { tid, state } of from.rows('reprise_head')) {
    const at = tid as number
    const head = headOf(at, state)
    const copy = heads.get(at)
    const mark = copies.get(at)
    const isCurrent = copy || !mark || mark.state !== undefined || headCrc(state as Uint8Array) === mark.crc
    if (head && isCurrent) heads.set(at, copy ? (newerOf(head, copy) ?? head) : head)
  }
  return heads
}

/**
 * Rows at the end of the log were lost together with all other writes of their transactions: timelines that began there have no
 * name either. A head with a position behind such a row was written after it, and then its timelines are known.
 */
function nameGone({ lost, options }: Salvage, log: SalvagedLog, heads: ReadonlyMap<number, HeadState>): void {
  if (log.goneFrom === null) return
  let known = log.goneFrom - 1
  for (const { position } of heads.values()) known = Math.max(known, position)
  const last = options.acknowledged
  if (known >= last) return
  const rows = known + 1 === last ? `log row ${last}` : `log rows ${known + 1} to ${last}`
  const what =
    'acknowledged, but missing: its entries are lost, including timelines that began there, whose names are unknown'
  lost.push({ timeline: null, where: rows, what })
}

/** A named timeline gets a row and a head, or is reported as lost. */
function makeWhole(work: Salvage, named: Named, names: readonly Named[], remains: RowRemains): void {
  const { to } = work
  const { tid, name } = named
  const row = to.get('SELECT * FROM reprise_timeline WHERE tid = ?', tid)
  const head = headOf(tid, to.get('SELECT state FROM reprise_head WHERE tid = ?', tid)?.state)
  if (row && head) return
  if (!row && !head) {
    work.lost.push({ timeline: name, where: 'timelines', what: 'its row and its head are lost' })
    return
  }
  if (row) makeHead(work, named, row)
  else makeRow(work, named, head!, names, remains)
}

function makeRow(
  work: Salvage,
  { tid, space, name }: Named,
  head: HeadState,
  names: readonly Named[],
  remains: RowRemains,
): void {
  const { to } = work
  // The parent's row may be lost as well, and rebuilt later.
  const parent = head.base && names.find((each) => each.space === space && each.name === head.base!.timeline)
  const counts = {
    mail: remains.countOf('inbox', tid),
    checkpoints: remains.countOf('manifest', tid),
    cursors: remains.countOf('cursor', tid),
  }
  const isStub = head.seq === 0 && head.epoch === 0 ? 1 : 0
  const unknown = isStub ? { queue: null, status: '', wakeup: null, attributes: '[]' } : remains.columnsOf(tid)
  const rest = { parent: parent?.tid ?? null, owner: head.owner, priority: 0, created_at: head.updatedAt }
  writeTimelineRow(to, { tid, space, name, is_stub: isStub, ...rest, ...counts, ...unknown })
  if (isStub) return
  const what = 'its row is lost: its status, queue and wakeup are unknown, and its priority is 0'
  work.lost.push({ timeline: name, where: 'timelines', what, isUntilHead: true })
}

/** Rebuilds the head from the timeline's runs in the log. */
function makeHead(work: Salvage, { tid, name }: Named, row: SqlRow): void {
  const { to, options } = work
  const lose = (what: string) => work.lost.push({ timeline: name, where: 'heads', what })
  const owner = null
  if (row.is_stub === 1) {
    const none = new Uint8Array(32)
    const nothing = { seq: 0, life: 1, epoch: 0, digest: none, position: 0, floor: 0, floorDigest: none, base: null }
    writeHead(to, tid, { ...nothing, owner, operation: null, updatedAt: options.now })
    return
  }
  const manifests = [...work.from.rows('reprise_manifest')].filter((each) => each.tid === tid)
  const chain = followLog(work, tid, name as TimelineId, manifests)
  const end = lastRun(work, tid)
  const isFork = row.parent !== null
  if (!chain && !end && !isFork) {
    // The timeline has no entry.
    const digest = originDigest(options.hash, name as TimelineId)
    const made = { seq: 0, life: 1, digest, position: 0, epoch: epochLeap, floor: 0, floorDigest: digest, base: null }
    writeHead(to, tid, { ...made, owner, operation: null, updatedAt: options.now })
    writeTimelineRow(to, { ...row, owner: null })
    lose('its head is lost, and it has no entry in the log: it now begins at 0')
    return
  }
  if (!chain || (isFork && chain.floor.seq === 0) || (end && end.frame.last > chain.seq)) {
    quarantine(work, { tid, name }, row, end)
    return
  }
  const { seq, digest, position, floor, epoch } = chain
  // The life of its id was in the lost head; its epoch leaps, so that no old guard matches.
  const made = { seq, life: 1, digest, position, epoch: epoch + epochLeap, floor: floor.seq, floorDigest: floor.digest }
  writeHead(to, tid, { ...made, base: null, owner, operation: null, updatedAt: options.now })
  writeTimelineRow(to, { ...row, owner: null })
  // Its state comes from the checkpoint; only the head recorded that it is a fork, and its base.
  if (row.parent !== null) lose(`its fork position is lost with its head: its history now begins at ${floor.seq}`)
  work.rebuilt.push({ where: 'heads', what: `the head of ${name} was rebuilt from its history, which ends at ${seq}` })
}

/**
 * The log has entries of the timeline that do not follow from any remaining entry, or it is a fork with a lost base. Its head
 * then records the last sequence, so that nothing is acknowledged twice, and a digest that matches nothing: every read refuses
 * it, verify reports it, and its entries stay.
 */
function quarantine(
  { to, options, lost }: Salvage,
  { tid, name }: Pick<Named, 'tid' | 'name'>,
  row: SqlRow,
  end: { readonly position: number; readonly frame: Frame } | null,
): void {
  const none = new Uint8Array(32)
  const seq = Math.max(end?.frame.last ?? 0, 1)
  const made = {
    seq,
    digest: none,
    position: end?.position ?? 0,
    life: 1,
    epoch: epochLeap,
    floor: 0,
    floorDigest: none,
    base: null,
  }
  writeHead(to, tid, { ...made, owner: null, operation: null, updatedAt: options.now })
  const attributes = JSON.stringify([...JSON.parse(String(row.attributes)), [lostAttribute, encodeAttribute(true)]])
  writeTimelineRow(to, { ...row, owner: null, status: lostStatus, attributes })
  const what = end
    ? `its head is lost, and its entries up to ${end.frame.last} do not follow from the remaining history: they are kept, and the timeline is refused`
    : 'its head and its fork position are lost: the timeline is refused'
  lost.push({ timeline: name, where: 'heads', what })
}

/** The run of a timeline with the highest sequence. */
function lastRun(work: Salvage, tid: number): { readonly position: number; readonly frame: Frame } | null {
  let last: { readonly position: number; readonly frame: Frame } | null = null
  for (const { position, frame } of allFrames(work)) {
    if (frame.tid === tid && (!last || frame.last >= last.frame.last)) last = { position, frame: { ...frame } }
  }
  return last
}

interface Chain {
  readonly seq: number
  readonly digest: Digest
  readonly position: number
  readonly epoch: number
  readonly floor: { readonly seq: number; readonly digest: Digest }
}

/** The last unbroken part of its history, and its starting point: its origin, or a checkpoint. */
function followLog(work: Salvage, tid: number, name: TimelineId, manifests: readonly SqlRow[]): Chain | null {
  const { hash } = work.options
  const digestAt = (seq: number) =>
    seq === 0
      ? originDigest(hash, name)
      : (manifests.find((each) => each.seq === seq && isSound(each))?.digest as Digest | undefined)
  let at: Chain | null = null
  for (const { position, frame } of allFrames(work)) {
    if (frame.tid !== tid) continue
    const before = frame.first - 1
    const known: Digest | undefined = at && at.seq === before ? at.digest : digestAt(before)
    const digest: Digest | undefined = frame.digest ?? (known && chainDigest(hash, known, frame.bytes))
    if (!digest) continue
    const floor: Chain['floor'] | null =
      at && at.seq === before ? at.floor : known ? { seq: before, digest: known } : null
    if (floor) at = { seq: frame.last, digest, position, epoch: epochIn(frame), floor }
  }
  const newest = manifests.filter(isSound).sort((a, b) => Number(b.seq) - Number(a.seq))[0]
  if (!newest || (at && at.seq >= Number(newest.seq))) return at
  // All history up to its newest checkpoint was trimmed.
  const point = { seq: newest.seq as number, digest: newest.digest as Digest }
  return { ...point, position: 0, epoch: Number(newest.epoch), floor: point }
}

function isSound(manifest: SqlRow): boolean {
  return isIntact(manifest, manifestColumns)
}

function epochIn({ bytes }: Frame): number {
  try {
    return readStart(bytes).epoch
  } catch (error) {
    // The run is sealed with a key that is not known here.
    if (error instanceof RepriseError) return 0
    throw error
  }
}

/** Appends become durable before heads are written: the last rows contain the entries that heads lack. */
function settle(work: Salvage, { damaged, end }: SalvagedLog, names: ReadonlyMap<number, Named>): void {
  const { to, options } = work
  const from = end.position - 2 * unsettledRowsMax
  const heads = new Map<number, HeadState | null>()
  const latest = (tid: number) => {
    if (!heads.has(tid)) heads.set(tid, headOf(tid, to.get('SELECT state FROM reprise_head WHERE tid = ?', tid)?.state))
    return heads.get(tid)!
  }
  const cut = new Map<number, number>()
  for (const { position, frame } of allFrames(work)) {
    const head = position >= from ? latest(frame.tid) : null
    if (!head || head.owner === null || frame.last <= head.seq) continue
    if (frame.first !== head.seq + 1) {
      cut.set(frame.tid, head.seq)
      continue
    }
    const digest = frame.digest?.slice() ?? chainDigest(options.hash, head.digest, frame.bytes)
    const next = { ...head, seq: frame.last, digest, position, operation: frame.operation }
    heads.set(frame.tid, next)
    writeHead(to, frame.tid, next)
  }
  const recent = [...damaged].filter((position) => position >= from)
  for (const { tid, name } of recent.length > 0 ? names.values() : []) {
    const head = latest(tid)
    const reached =
      cut.get(tid) ?? (head && head.owner !== null && head.position < Math.max(...recent) ? head.seq : null)
    if (reached === null) continue
    const what = `its history ends at ${reached}; later entries in the damaged rows of the log are lost`
    work.lost.push({ timeline: name, where: 'log', what, after: reached })
  }
}

function writeHead(to: Connection, tid: number, head: HeadState): void {
  const tail = encodeTail(head)
  const bytes = new Uint8Array(headBytesMax(head) + tail.length)
  const end = encodeHead(bytes, 0, tid, head, tail)
  to.run('INSERT OR REPLACE INTO reprise_head (tid, state) VALUES (?, ?)', tid, bytes.subarray(0, end))
}

/** Writes the row with its derived columns: the key of its name, the time when it is due, and its checksum. */
export function writeTimelineRow(to: Connection, row: SqlRow): void {
  const due = Number(row.mail) > 0 ? 0 : (row.wakeup ?? null)
  const key = nameKey(row.space as number, String(row.name))
  const whole: SqlRow = { ...row, key, due: row.is_stub === 1 ? null : due }
  const values = columnNames.map((column) => whole[column] ?? null)
  const sql = `INSERT OR REPLACE INTO reprise_timeline (${columnNames.join(', ')}, crc) VALUES (${'?, '.repeat(columnNames.length)}?)`
  to.run(sql, ...values, checksumOf(values))
}

function writeAttributes(to: Connection, { tid, attributes }: SqlRow): void {
  const sql = 'INSERT OR IGNORE INTO reprise_attribute (tid, key, value) VALUES (?, ?, ?)'
  for (const [key, value] of JSON.parse(String(attributes)) as [string, string][]) {
    to.run(sql, tid!, JSON.stringify(key), JSON.stringify(value === 'n-0' ? 'n0' : value))
  }
}
