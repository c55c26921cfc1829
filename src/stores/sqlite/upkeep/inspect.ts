// The store's own check, beneath the digest chain: SQLite's pages and indexes, the log without gaps, all checksums and counts,
// and heads that agree with the last run. It works in slices that yield to the event loop.

import { RepriseError } from '../../../core/errors.ts'
import type { Inspection, StoreFault } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow } from '../file/driver.ts'
import { isDamage, unlessDamaged } from '../file/failure.ts'
import type { Reading } from '../file/reading.ts'
import type { ScanThread } from '../file/scan-thread.ts'
import { ownStart } from '../log/log.ts'
import { joinedBefore, readFrames } from '../log/log-row.ts'
import { chunkTables } from '../rows/blobs.ts'
import { checkCatalog } from '../rows/catalog.ts'
import { listCursors } from '../rows/cursors.ts'
import { checkIdentity } from '../rows/identity.ts'
import { readInbox } from '../rows/mail.ts'
import { legibleNames } from '../rows/names.ts'
import { checkPasts } from '../rows/past.ts'
import { checkWitness } from '../rows/row-counts.ts'
import { select } from '../rows/timeline-statements.ts'
import type { Timeline } from '../rows/timelines.ts'
import { readVersion, schemaVersion } from '../schema.ts'

type Read = <Result>(work: (reading: Reading) => Result) => Promise<Result>

const faultsMax = 100
const rowsPerSliceMax = 500
const sliceMs = 4

/** `aside` null: the file is small enough to scan whole tables on this thread. */
export async function inspect(
  read: Read,
  inspection: Inspection = {},
  aside: ScanThread | null = null,
): Promise<StoreFault[]> {
  const faults: StoreFault[] = []
  const slices = new Slices(inspection, faults)
  const [first, from] = startOf(inspection.after)
  const parts: readonly ((from: number) => Promise<unknown>)[] = [
    () => inspectFile(read, faults, slices, aside),
    (after) => inspectLog(read, faults, slices, after),
    (after) => inspectTimelines(read, faults, slices, after),
    () => inspectCounts(read, faults, slices, aside),
    () =>
      read((reading) =>
        attempt(faults, 'cursors', () => listCursors(reading.connection, reading.space, reading.timelines)),
      ),
    () => read((reading) => attempt(faults, 'workers', () => reading.workers.list(reading.now))),
    () => read(({ connection, space }) => attempt(faults, 'identity', () => checkIdentity(connection, space))),
    () => inspectPasts(read, faults, slices),
  ]
  for (const [index, part] of parts.entries()) {
    if (index < first) continue
    await slices.next()
    await part(index === first ? from : 0)
  }
  return faults
}

const partNames = ['file', 'log', 'timelines', 'counts'] as const
type Part = (typeof partNames)[number]

/** A mark names a part and the progress in it. */
function startOf(mark = ''): readonly [part: number, from: number] {
  const [name, from] = mark.split(' ')
  const part = partNames.indexOf(name as Part)
  return part < 0 ? [0, 0] : [part, Number(from) || 0]
}

/** Reads as many rows per batch as fit into a few milliseconds, and yields between batches. */
class Slices {
  readonly #inspection: Inspection
  readonly #faults: readonly StoreFault[]
  #rows = 16
  #since = performance.now()

  constructor(inspection: Inspection, faults: readonly StoreFault[]) {
    this.#inspection = inspection
    this.#faults = faults
  }

  get rows(): number {
    return this.#rows
  }

  get signal(): AbortSignal | undefined {
    return this.#inspection.signal
  }

  report(part: Part, done: number, total: number | null, from = 0): void {
    const { length } = this.#faults
    this.#inspection.onProgress?.({ part, done, total, faults: length, mark: `${part} ${from}` })
  }

  async next(): Promise<void> {
    const { signal } = this.#inspection
    if (signal?.aborted) throw new RepriseError('ABORTED', 'inspect: aborted', {}, signal.reason)
    const ms = performance.now() - this.#since
    if (ms < sliceMs / 2) this.#rows = Math.min(this.#rows * 2, rowsPerSliceMax)
    else if (ms > sliceMs) this.#rows = Math.max(this.#rows >> 1, 1)
    if (ms >= sliceMs) await new Promise((resolve) => setImmediate(resolve))
    if (ms >= sliceMs) this.#since = performance.now()
  }
}

/** SQLite's own check. If a page is so damaged that it gives up, each table is checked by itself, so that it can be named. */
async function inspectFile(read: Read, faults: StoreFault[], slices: Slices, aside: ScanThread | null): Promise<void> {
  slices.report('file', 0, null)
  const check = `PRAGMA integrity_check(${faultsMax})`
  const [answer] = aside ? await aside([check], slices.signal) : []
  const isChecked = await read(({ connection }) => {
    try {
      if (answer && 'error' in answer) throw answer.error
      const rows = answer?.rows ?? connection.all(check)
      if (rows.length === 1 && Object.values(rows[0]!)[0] === 'ok') return true
      faults.push(...faultsIn(connection, rows))
      return true
    } catch (error) {
      if (!isDamage(error)) throw error
      return false
    }
  })
  if (isChecked) return
  const tables = await read(({ connection }) =>
    connection.all(`SELECT name FROM sqlite_schema WHERE type = 'table'`).map(({ name }) => String(name)),
  )
  for (const table of tables) {
    await read(({ connection }) => {
      try {
        const rows = connection.all(`PRAGMA integrity_check('${table.replaceAll("'", "''")}')`)
        faults.push(...faultsIn(connection, rows))
      } catch (error) {
        if (!isDamage(error)) throw error
        const what = `a page of it, or of one of its indexes, cannot be read: ${(error as Error).message}`
        faults.push({ where: `table ${table}`, what, isOfFile: true })
      }
    })
  }
}

/** SQLite names a tree by its root page; the fault names its table. */
function faultsIn(connection: Connection, rows: readonly SqlRow[]): StoreFault[] {
  const found: StoreFault[] = []
  const byRoot = new Map(
    connection
      .all('SELECT type, name, rootpage FROM sqlite_schema')
      .map(({ type, name, rootpage }) => [rootpage, `${type} ${name}`]),
  )
  for (const { integrity_check: text } of rows) {
    const lines = String(text).split('\n')
    for (const what of lines.filter((line) => line !== 'ok' && !line.startsWith('***'))) {
      const tree = /^Tree (\d+)/.exec(what)?.[1]
      found.push({ where: byRoot.get(Number(tree)) ?? 'file', what, isOfFile: true })
    }
  }
  return found
}

/** Describes the timelines with entries in a row; those of other namespaces are not named. */
function heldBy(connection: Connection, space: number, position: number, body: Uint8Array): string {
  const nameOf = (tid: number) =>
    connection.get('SELECT name FROM reprise_timeline WHERE tid = ? AND space = ?', tid, space)?.name
  try {
    const runs = [...readFrames(position, body)].flatMap(({ tid, first, last }) => {
      const name = nameOf(tid)
      return name === undefined ? [] : [`${name}@${first}${last > first ? `..${last}` : ''}`]
    })
    return runs.length > 0 ? `, with ${runs.slice(0, 10).join(', ')}` : ''
  } catch (error) {
    if (!isDamage(error)) throw error
    return ', and it cannot be read'
  }
}

async function inspectLog(read: Read, faults: StoreFault[], slices: Slices, from: number): Promise<void> {
  await read(({ connection, log, space }) =>
    attempt(faults, 'log', () => {
      const below = `SELECT position, body FROM reprise_log WHERE position < ? ORDER BY position LIMIT ${faultsMax}`
      for (const { position, body } of connection.all(below, log.firstPosition())) {
        const held = heldBy(connection, space, position as number, body as Uint8Array)
        const what = `it is before the start of the log, where no reader looks: an older release wrote it there${held}`
        faults.push({ where: `log row ${position}`, what })
      }
    }),
  )
  let next = Math.max(1, from)
  for (let count = 1; count > 0 && faults.length < faultsMax; ) {
    await slices.next()
    count = await read(({ connection, log }) => {
      // Rows may be removed between two slices.
      next = Math.max(next, log.firstPosition())
      const rows = rowsFrom(connection, next, slices.rows, faults)
      for (const { position, body } of rows) {
        const at = position as number
        let begin = at
        attempt(faults, `log row ${at}`, () => {
          begin -= joinedBefore(at, body)
          return [...readFrames(at, body as Uint8Array)]
        })
        if (begin > next) faults.push({ where: `log row ${next}`, what: `it is missing, and ${at} follows` })
        next = at + 1
      }
      slices.report(
        'log',
        next - 1,
        unlessDamaged(() => log.lastPosition(), null),
        next,
      )
      return rows.length
    })
  }
}

/** Reads up to the first unreadable row, at least one: that one is reported and skipped. */
function rowsFrom(connection: Connection, next: number, limit: number, faults: StoreFault[]): SqlRow[] {
  try {
    return connection.all(
      'SELECT position, body FROM reprise_log WHERE position >= ? ORDER BY position LIMIT ?',
      next,
      limit,
    )
  } catch (error) {
    if (!isDamage(error)) throw error
  }
  const rows: SqlRow[] = []
  // Anchors show the end of the log where the log itself does not.
  const ends = ['SELECT max(position) AS last FROM reprise_log', 'SELECT max(position) AS last FROM reprise_anchor']
  const last = Math.max(...ends.map((end) => Number(unlessDamaged(() => connection.get(end)?.last, 0) ?? 0)))
  for (let position = next; position <= last && rows.length < limit; position++) {
    const row = unlessDamaged(
      () => connection.get('SELECT position, body FROM reprise_log WHERE position = ?', position),
      null,
    )
    if (row === null) faults.push({ where: `log row ${position}`, what: 'it cannot be read', isOfFile: true })
    else if (row) rows.push(row)
    if (faults.length >= faultsMax) break
  }
  if (rows.length === 0) faults.push({ where: 'log', what: `rows from ${next} on cannot be read`, isOfFile: true })
  return rows
}

/** Checks counts and twin indexes. For all namespaces: these tables do not separate them. */
async function inspectCounts(
  read: Read,
  faults: StoreFault[],
  slices: Slices,
  aside: ScanThread | null,
): Promise<void> {
  // A file of an older version has no counts yet.
  if (await read(({ connection }) => readVersion(connection) < schemaVersion)) return
  slices.report('counts', 0, counts.length)
  const limited = counts.map(({ sql }) => `${sql} LIMIT ${faultsMax}`)
  const answers = aside ? await aside(limited, slices.signal) : []
  for (const [index, { where, what }] of counts.entries()) {
    await slices.next()
    const answer = answers[index]
    await read(({ connection }) =>
      attempt(faults, where, () => {
        if (answer && 'error' in answer) throw answer.error
        for (const row of answer?.rows ?? connection.all(limited[index]!)) {
          faults.push({ where, what: `${what}: ${Object.values(row).join(' ')}`, isOfFile: true })
        }
      }),
    )
  }
}

const listed = (index: string, where: string) =>
  `SELECT tid FROM reprise_timeline INDEXED BY reprise_timeline_${index} WHERE due IS NOT NULL AND ${where}`
const tallied = (kind: string, counted: string) => `SELECT key, sum(n) AS off FROM (
    SELECT key, count AS n FROM reprise_tally WHERE kind = '${kind}' UNION ALL ${counted}) GROUP BY key HAVING off <> 0`
const counts: readonly { readonly where: string; readonly what: string; readonly sql: string }[] = [
  {
    where: 'timelines',
    what: 'in the index of names but not in the row counts, or the reverse',
    sql: `SELECT tid, count(*) AS times FROM (SELECT tid FROM reprise_witness
      UNION ALL SELECT tid FROM reprise_timeline INDEXED BY sqlite_autoindex_reprise_timeline_1 WHERE space > -1)
      GROUP BY tid HAVING times <> 2`,
  },
  {
    where: 'timelines',
    what: 'a row, a head or its mark is missing',
    sql: `SELECT tid, count(*) AS times FROM (SELECT tid FROM reprise_timeline NOT INDEXED UNION ALL SELECT tid FROM reprise_head
      UNION ALL SELECT tid FROM reprise_head_mark) GROUP BY tid HAVING times <> 3`,
  },
  {
    where: 'due timelines',
    what: 'in only one of the two indexes of due timelines',
    sql: `SELECT tid, sum(n) AS off FROM (SELECT tid, 1 AS n FROM (${listed('due', 'owner IS NULL AND queue IS NOT NULL AND space > -1')})
      UNION ALL SELECT t.tid, -1 FROM (${listed('wake', 'true')}) w CROSS JOIN reprise_timeline t ON t.tid = w.tid
      WHERE t.owner IS NULL AND t.queue IS NOT NULL) GROUP BY tid HAVING off <> 0`,
  },
  {
    where: 'attributes',
    what: 'a value has more or fewer timelines than were counted',
    sql: tallied('attribute', 'SELECT key || value, -1 FROM reprise_attribute'),
  },
  {
    where: 'owners',
    what: 'an owner has more or fewer timelines than were counted',
    sql: tallied('owner', `SELECT space || '/' || owner, -1 FROM reprise_timeline WHERE owner IS NOT NULL`),
  },
  {
    where: 'statuses',
    what: 'a status has more or fewer timelines than were counted',
    sql: tallied(
      'status',
      `SELECT space || '/' || status, -1 FROM reprise_timeline INDEXED BY reprise_timeline_status
      WHERE space > -1`,
    ),
  },
  {
    where: 'chunks',
    what: 'a chunk without bytes, or bytes without a chunk',
    sql: `SELECT id, count(*) AS times FROM (SELECT id FROM reprise_chunk NOT INDEXED UNION ALL
      ${chunkTables.map((table) => `SELECT id FROM ${table}`).join(' UNION ALL ')}) GROUP BY id HAVING times <> 2`,
  },
]

async function inspectTimelines(read: Read, faults: StoreFault[], slices: Slices, from: number): Promise<void> {
  // In order of numbers: rows written together are then read together.
  const sql = `SELECT tid FROM reprise_timeline NOT INDEXED WHERE space = ? AND tid > ? ORDER BY tid LIMIT ?`
  for (let after = from, count = 1; count > 0 && faults.length < faultsMax; ) {
    await slices.next()
    count = await read((reading) => {
      const rows = unlessDamaged(() => reading.connection.all(sql, reading.space, after, slices.rows), null)
      if (rows === null) return inspectByName(reading, faults)
      for (const { tid } of rows) {
        after = tid as number
        attempt(faults, `timeline ${tid}`, () => inspectTimeline(reading, reading.timelines.required(after)))
      }
      slices.report(
        'timelines',
        after,
        unlessDamaged(() => lastTid(reading.connection), null),
        after,
      )
      return rows.length
    })
  }
}

async function inspectPasts(read: Read, faults: StoreFault[], slices: Slices): Promise<void> {
  const where = 'lives of forgotten ids'
  let after: string | null = null
  do {
    await slices.next()
    const from: string | null = after
    after = await read(({ connection, space }) => {
      let last: string | null = null
      attempt(faults, where, () => {
        last = checkPasts(connection, space, from, slices.rows, (work) => attempt(faults, where, work))
      })
      return last
    })
  } while (after !== null && faults.length < faultsMax)
}

function lastTid(connection: Connection): number {
  return Number(connection.get('SELECT max(tid) AS tid FROM reprise_timeline')?.tid ?? 0)
}

/** For an unreadable list: checks each timeline by name, as far as names are known. */
function inspectByName(reading: Reading, faults: StoreFault[]): 0 {
  for (const name of legibleNames(reading.connection, reading.space)) {
    attempt(faults, `timeline ${name}`, () => {
      const timeline = reading.timelines.find(name)
      if (timeline) inspectTimeline(reading, timeline)
    })
    if (faults.length >= faultsMax) break
  }
  return 0
}

function inspectTimeline({ connection, log, timelines }: Reading, timeline: Timeline): void {
  checkWitness(connection, connection.get(`${select} WHERE t.tid = ?`, timeline.tid)!)
  timelines.find(timeline.name)
  timelines.forksOf(timeline)
  readInbox(connection, timeline, Number.MAX_SAFE_INTEGER)
  checkCatalog(connection, timeline)
  if (timeline.head.seq > ownStart(timeline)) log.read(timeline, timeline.head.seq - 1, 1)
}

function attempt(faults: StoreFault[], where: string, work: () => unknown): void {
  try {
    work()
  } catch (error) {
    if (!(error instanceof RepriseError) && !isDamage(error)) throw error
    const { timeline } = error instanceof RepriseError ? error.data : {}
    const whose = typeof timeline === 'string' && { timeline }
    faults.push({ where, what: (error as Error).message, isOfFile: true, ...whose })
  }
}
