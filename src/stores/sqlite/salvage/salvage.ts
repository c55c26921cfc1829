// Writes the intact parts of a damaged file to a new one. Rows with a checksum are copied if it matches; derived data (indexes,
// anchors, witnesses, tallies, searchable attributes) is rebuilt; a lost head is rebuilt from the log. Every loss is named: no
// list becomes shorter silently.

import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { chunkTables } from '../rows/blobs.ts'
import { columnNames as manifestColumns } from '../rows/catalog.ts'
import { columnNames as cursorColumns } from '../rows/cursors.ts'
import { opened, writeIdentity } from '../rows/identity.ts'
import { writeLosses } from '../rows/losses.ts'
import { isSoundMessage } from '../rows/mail.ts'
import { checksumOf, isIntact } from '../rows/row-checksum.ts'
import { witnessAll } from '../rows/row-counts.ts'
import { tallyAll, tallyStatus } from '../rows/tally.ts'
import { columnNames as timelineColumns } from '../rows/timeline-statements.ts'
import { columnNames as workerColumns } from '../rows/workers.ts'
import { copyOwnTables } from './own-tables.ts'
import type { Salvage, Salvaged, SalvageOptions } from './salvage-io.ts'
import { salvageLog } from './salvage-log.ts'
import { salvagePasts } from './salvage-pasts.ts'
import { salvageRequests } from './salvage-requests.ts'
import { type Named, salvageTimelines, writeTimelineRow } from './salvage-timelines.ts'
import { type DamagedFile, isOurs } from './source.ts'

/** `to` is a new file with our tables, in a transaction. */
export function salvage(from: DamagedFile, to: Connection, options: SalvageOptions): Salvaged {
  const work: Salvage = { from, to, options, rebuilt: [], lost: [] }
  salvageMeta(work)
  salvageSpaces(work)
  const log = salvageLog(work)
  const names = salvageTimelines(work, log)
  copyChecked(work, 'reprise_manifest', manifestColumns, true)
  copyWhere(work, 'reprise_inbox', isSoundMessage)
  copyChecked(work, 'reprise_cursor', cursorColumns)
  copyChecked(work, 'reprise_worker', workerColumns)
  salvagePasts(work)
  salvageIdentities(work)
  copyWhere(work, 'reprise_sweep', (row) => Object.values(row).every(Number.isSafeInteger))
  salvageRequests(work)
  dropStrays(to)
  if (from.isBad('reprise_sweep')) {
    const what =
      'the list of trimmed or deleted history to free is lost: its space stays in use, and may contain erased bytes'
    work.lost.push({ timeline: null, where: 'reprise_sweep', what })
  }
  recount(work, names)
  salvageChunks(work)
  keepNumbers(work)
  to.exec(`DELETE FROM reprise_tally; ${tallyAll}${tallyStatus}`)
  witnessAll(to)
  copyOwnTables(work)
  reportPages(work)
  recordLosses(work, names)
  return { rebuilt: work.rebuilt, lost: work.lost, end: log.end }
}

function salvageMeta({ from, to }: Salvage): void {
  const given = ['schema_version', 'schema_copy', 'schema_crc']
  for (const { key, value } of from.rows('reprise_meta')) {
    // A damaged header of a record may hide the value: readers of the key treat it as lost.
    if (typeof key !== 'string' || value == null || given.includes(key)) continue
    to.run('INSERT OR REPLACE INTO reprise_meta (key, value) VALUES (?, ?)', key, value)
  }
}

/** Copies each namespace's identity from the intact one of its two copies; if both are intact, from the copy that is read. */
function salvageIdentities({ from, to, rebuilt }: Salvage): void {
  const places = [
    ...[...from.rows('reprise_identity')].map(({ space, value }) => [Number(space), value] as const),
    ...[...from.rows('reprise_meta')].map(({ key, value }) => {
      return [Number(/^identity (\d+)$/.exec(String(key))?.[1]), value] as const
    }),
  ]
  const found = new Map<number, string[]>()
  for (const [space, text] of places) {
    const identity = Number.isSafeInteger(space) && typeof text === 'string' ? opened(space, text) : null
    if (identity !== null) found.set(space, [...(found.get(space) ?? []), identity])
  }
  for (const [space, [first, second]] of found) {
    writeIdentity(to, space, first!)
    const what = 'one of its two copies was damaged or missing, and was written from the other'
    if (first !== second) rebuilt.push({ where: 'identity', what })
  }
}

function salvageSpaces(work: Salvage): void {
  const { from, to, options } = work
  const known = new Set<number>()
  for (const row of from.rows('reprise_space')) {
    if (!isIntact(row, ['id', 'name'])) continue
    to.run('INSERT OR IGNORE INTO reprise_space (id, name, crc) VALUES (?, ?, ?)', row.id!, row.name!, row.crc!)
    known.add(row.id as number)
  }
  const unknown = [...usedSpaces(from)].filter((space) => !known.has(space))
  if (unknown.length > 1 || (unknown.length === 1 && known.size > 0)) {
    throw damaged('the names of several namespaces are lost: restore a backup', { spaces: unknown.length })
  }
  for (const id of unknown) {
    const { namespace } = options
    writeSpace(to, id, namespace)
    work.rebuilt.push({ where: 'namespaces', what: `the only one is assumed to be ${namespace}` })
  }
  const last = to.get('SELECT coalesce(max(id), 0) AS id FROM reprise_space')!.id as number
  if (last > 0) to.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('spaces', ?)`, last)
}

function writeSpace(to: Connection, id: number, name: string): void {
  to.run('INSERT INTO reprise_space (id, name, crc) VALUES (?, ?, ?)', id, name, checksumOf([id, name]))
  to.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('spaces', ?)`, id)
}

/** The namespaces of intact rows; also those of lost rows, if both lists of names agree. */
function usedSpaces(from: DamagedFile): Set<number> {
  const sound = [...from.rows('reprise_timeline')].filter((row) => isIntact(row, timelineColumns))
  const indexed = new Set([...from.raw('sqlite_autoindex_reprise_timeline_1')].map(({ values }) => values[0]))
  const witnessed = [...from.rows('reprise_witness')].filter(({ space }) => indexed.has(space!))
  const spaces = [...sound, ...witnessed].map(({ space }) => space)
  return new Set(spaces.filter((space): space is number => Number.isSafeInteger(space)))
}

/** With `keepsDamaged`, rows that do not match their checksum are copied too: a reader then sees that there was such a row. */
function copyChecked(work: Salvage, table: string, columns: readonly string[], keepsDamaged = false): void {
  const taken = new Set<SqlValue>()
  const name = (row: SqlRow) => row[work.from.columnsOf(table)[0]!] ?? null
  copyWhere(work, table, (row) => {
    const isSound = isIntact(row, columns)
    if (isSound && keepsDamaged) taken.add(name(row))
    return isSound
  })
  if (keepsDamaged) copyWhere(work, table, (row) => !taken.has(name(row)) && Number.isSafeInteger(row.crc))
}

export function copyWhere({ from, to }: Salvage, table: string, isSound: (row: SqlRow) => boolean): void {
  const columns = from.columnsOf(table)
  const insert = `INSERT OR IGNORE INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`
  for (const row of from.rows(table)) {
    if (isSound(row)) to.run(insert, ...columns.map((column) => row[column] ?? null))
  }
}

/** Drops rows of timelines that are lost and reported. */
function dropStrays(to: Connection): void {
  for (const table of ['inbox', 'manifest', 'cursor']) {
    to.exec(`DELETE FROM reprise_${table} WHERE tid NOT IN (SELECT tid FROM reprise_timeline)`)
  }
}

/** Recounts unread mail and cursors of timelines. Checkpoints may have copies, so their count stays, and verify reports. */
function recount(work: Salvage, names: ReadonlyMap<number, Named>): void {
  const { to } = work
  const sql = `SELECT t.*, (SELECT count(*) FROM reprise_inbox i WHERE i.tid = t.tid AND i.consumed_at IS NULL) AS found_mail,
    (SELECT count(*) FROM reprise_cursor c WHERE c.tid = t.tid) AS found_cursors FROM reprise_timeline t
    WHERE t.mail <> found_mail OR t.cursors <> found_cursors`
  for (const { found_mail, found_cursors, ...row } of to.all(sql)) {
    const timeline = names.get(row.tid as number)?.name ?? String(row.name)
    const missing = {
      mail: Number(row.mail) - Number(found_mail),
      cursors: Number(row.cursors) - Number(found_cursors),
    }
    if (missing.mail > 0) work.lost.push({ timeline, where: 'inbox', what: `${missing.mail} unread messages are lost` })
    if (missing.cursors > 0) {
      const what = `${missing.cursors} cursors are lost: their readers restart from the beginning`
      work.lost.push({ timeline, where: 'cursors', what })
    }
    writeTimelineRow(to, { ...row, mail: found_mail!, cursors: found_cursors! })
  }
}

/** The table and its index both map chunks to ids. A chunk in neither is missing: parity can rebuild it. */
function salvageChunks({ from, to, options }: Salvage): void {
  const bytes = new Map<number, number>()
  for (const table of chunkTables) {
    for (const { id, bytes: chunk } of from.rows(table)) {
      if (!(chunk instanceof Uint8Array)) continue
      to.run(`INSERT OR IGNORE INTO ${table} (id, bytes) VALUES (?, ?)`, id!, chunk)
      bytes.set(id as number, chunk.length)
    }
  }
  const insert = 'INSERT OR IGNORE INTO reprise_chunk (id, space, digest, size, touched_at) VALUES (?, ?, ?, ?, ?)'
  for (const { id, space, digest, size, touched_at } of from.rows('reprise_chunk')) {
    if (isDigest(digest) && bytes.has(id as number)) to.run(insert, id!, space!, digest!, size!, touched_at!)
  }
  for (const { values } of from.raw('sqlite_autoindex_reprise_chunk_1')) {
    const [space, digest, id] = values
    const size = bytes.get(id as number)
    if (values.length === 3 && isDigest(digest) && size !== undefined) {
      to.run(insert, id!, space!, digest!, size, options.now)
    }
  }
  for (const table of chunkTables) to.exec(`DELETE FROM ${table} WHERE id NOT IN (SELECT id FROM reprise_chunk)`)
}

function isDigest(value: SqlValue | undefined): boolean {
  return value instanceof Uint8Array && value.length === 32
}

/** No number is reused, not even that of a removed row. */
function keepNumbers({ from, to }: Salvage): void {
  for (const { values } of from.raw('sqlite_sequence')) {
    const [table, last] = values
    if (typeof table !== 'string' || !table.startsWith('reprise_') || !Number.isSafeInteger(last)) continue
    to.run(
      'INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)',
      table,
    )
    to.run('UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?', last!, table)
  }
  if (!from.isBad('sqlite_sequence')) return
  for (const table of ['reprise_timeline', 'reprise_inbox', 'reprise_manifest', 'reprise_request']) {
    to.run(
      'INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)',
      table,
    )
    to.run('UPDATE sqlite_sequence SET seq = seq + 1000000 WHERE name = ?', table)
  }
}

/** Reports the trees with damaged pages, including those that are rebuilt from others. */
function reportPages({ from, rebuilt }: Salvage): void {
  // Rows are not read from indexes, so the pages of indexes are checked here.
  for (const object of from.objects) {
    if (object.type === 'index' && isOurs(object)) for (const _ of from.raw(object.name)) void _
  }
  for (const table of [
    'reprise_anchor',
    'reprise_attribute',
    'reprise_tally',
    'reprise_head_mark',
    'reprise_witness',
  ]) {
    for (const _ of from.raw(table)) void _
  }
  for (const page of from.mendedPages) {
    rebuilt.push({ where: 'file', what: `one bit was flipped in the header of page ${page}, and was corrected` })
  }
  for (const [table, rows] of from.mendedRows) {
    rebuilt.push({
      where: table,
      what: `one bit was flipped in ${rows} of its rows, and was corrected by its checksum`,
    })
  }
  for (const [name, pages] of from.badPages) {
    if (pages.size > 0) rebuilt.push({ where: name, what: `page ${[...pages].join(', ')} could not be read` })
  }
}

/** Records losses until a person accepts them. A lost head has a mark that names its losses while it is lost. */
function recordLosses({ to, lost, options }: Salvage, names: ReadonlyMap<number, Named>): void {
  const final = lost.filter(({ isUntilHead }) => !isUntilHead)
  const { now: at, kept } = options
  const none = () => to.get('SELECT id FROM reprise_space LIMIT 1') === undefined
  // Nothing remains, not even the name of a namespace: the loss is recorded for the caller's namespace.
  if (final.length > 0 && none()) writeSpace(to, 1, options.namespace)
  for (const { id: space } of to.all('SELECT id FROM reprise_space')) {
    const own = new Set([...names.values()].flatMap((named) => (named.space === space ? [named.name] : [])))
    const here = final.filter(({ timeline }) => timeline === null || own.has(timeline))
    if (here.length > 0) writeLosses(to, space as number, { id: `loss-${at.toString(36)}`, at, kept, lost: here })
  }
}
