// Workers: one row each, however many timelines they own. Only the store's clock decides whether a worker is alive.

import type { WorkerId } from '../../../core/coordinate.ts'
import { retiredWorkers } from '../../../core/limits.ts'
import type { Attribute, WorkerRecord, WorkerRow } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { checkText } from '../file/text-checks.ts'
import { decodeAttributes, encodeAttributes } from './attributes.ts'
import { checkRow, checksumOf } from './row-checksum.ts'
import { sumOf, takeFrom } from './row-counts.ts'
import { readTally, Tallies } from './tally.ts'

export interface WorkerState extends WorkerRecord {
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly retiredAt: number | null
}

export const columnNames =
  'space id name host process lease_ms info progress started_at beat_at progress_at retired_at'.split(' ')
const replace = `REPLACE INTO reprise_worker (${columnNames.join(', ')}, crc) VALUES (${'?, '.repeat(12)}?)`

export class Workers {
  readonly #connection: Connection
  readonly #space: number
  /** Workers read in this transaction: a batch of commits is usually by one worker. */
  readonly #found = new Map<WorkerId, WorkerState | null>()
  #all: SqlRow[] | null = null
  readonly #tallies: Tallies

  constructor(connection: Connection, space: number) {
    this.#connection = connection
    this.#space = space
    this.#tallies = new Tallies(connection)
  }

  /** Call it when the file may have changed. */
  begin(): void {
    this.#found.clear()
    this.#all = null
  }

  find(id: WorkerId): WorkerState | null {
    const found = this.#found.get(id)
    if (found !== undefined) return found
    const row = this.#connection.get('SELECT * FROM reprise_worker WHERE space = ? AND id = ?', this.#space, id)
    const worker = row ? toState(row) : null
    if (worker && worker.id !== id) throw damaged(`the list of workers leads from ${id} to ${worker.id}`)
    // The worker is not found: trusted only if the count shows that no worker is missing.
    if (!worker) this.#rows()
    this.#found.set(id, worker)
    return worker
  }

  isAlive(id: WorkerId | null, now: number): boolean {
    const worker = id === null ? null : this.find(id)
    return worker !== null && isAlive(worker, now)
  }

  isRetired(id: WorkerId): boolean {
    const worker = this.find(id)
    return worker !== null && worker.retiredAt !== null
  }

  alive(now: number): WorkerId[] {
    const workers = this.#rows().map(toState)
    return workers.filter((worker) => isAlive(worker, now)).map(({ id }) => id)
  }

  list(now: number): WorkerRow[] {
    return this.#rows().map((row) => {
      const { retiredAt, ...worker } = toState(row)
      return {
        ...worker,
        isAlive: isAlive({ ...worker, retiredAt }, now),
        isRetired: retiredAt !== null,
        isGone: false,
      }
    })
  }

  /** False: the worker was retired. */
  beat(worker: WorkerRecord, now: number): boolean {
    const before = this.find(worker.id)
    if (before && before.retiredAt !== null) return false
    for (const text of [worker.id, worker.name, worker.host, worker.process]) checkText(text, 'a worker')
    this.#write({
      ...worker,
      startedAt: before?.startedAt ?? now,
      beatAt: now,
      progressAt: before && before.progress === worker.progress ? before.progressAt : now,
      retiredAt: null,
    })
    return true
  }

  retire(id: WorkerId, now: number): void {
    const worker = this.find(id)
    if (worker && worker.retiredAt === null) this.#write({ ...worker, retiredAt: now })
  }

  /** Removes workers that are no longer needed, once there are many. The tally has their number without a scan. */
  forgetOldest(now: number): void {
    if (readTally(this.#connection, 'worker', this.#key).count <= retiredWorkers.kept) return
    const times = this.#rows().flatMap(({ retired_at }) => (retired_at === null ? [] : [retired_at as number]))
    const newest = times.sort((a, b) => b - a)[retiredWorkers.kept - 1]
    if (newest !== undefined) this.forgetRetired(Math.min(newest, now - retiredWorkers.keptMs))
  }

  forgetRetired(before: number): number {
    const retired = this.#rows().filter(({ retired_at }) => retired_at !== null && (retired_at as number) < before)
    if (retired.length === 0) return 0
    for (const row of retired) {
      const { id } = toState(row)
      this.#connection.run('DELETE FROM reprise_worker WHERE space = ? AND id = ?', this.#space, id)
      this.#tallies.add('worker', this.#key, -1, takeFrom(0, row.crc as number))
    }
    this.#tallies.flush()
    this.begin()
    return retired.length
  }

  /** All workers. A missing or outdated row would allow other workers to take its timelines. */
  #rows(): SqlRow[] {
    if (this.#all) return this.#all
    const rows = this.#connection.all('SELECT * FROM reprise_worker WHERE space = ? ORDER BY id', this.#space)
    const { count, sum } = readTally(this.#connection, 'worker', this.#key)
    if (rows.length !== count || sumOf(rows) !== sum) {
      for (const row of rows) toState(row)
      throw damaged(`there are ${count} workers, but ${rows.length} or different ones are listed`)
    }
    this.#all = rows
    return rows
  }

  get #key(): string {
    return String(this.#space)
  }

  #write(worker: WorkerState): void {
    const before = this.#connection.get(
      'SELECT crc FROM reprise_worker WHERE space = ? AND id = ?',
      this.#space,
      worker.id,
    )
    this.begin()
    const values: SqlValue[] = [
      this.#space,
      worker.id,
      worker.name,
      worker.host,
      worker.process,
      worker.leaseMs,
      encodeAttributes(worker.info),
      worker.progress,
      worker.startedAt,
      worker.beatAt,
      worker.progressAt,
      worker.retiredAt,
    ]
    const crc = checksumOf(values)
    this.#connection.run(replace, ...values, crc)
    this.#tallies.add('worker', this.#key, before ? 0 : 1, before ? takeFrom(crc, before.crc as number) : crc)
    this.#tallies.flush()
  }
}

function isAlive(worker: WorkerState, now: number): boolean {
  return worker.retiredAt === null && now < worker.beatAt + worker.leaseMs
}

function toState(row: SqlRow): WorkerState {
  checkRow(row, columnNames, `worker ${row.id}`)
  return {
    id: row.id as WorkerId,
    name: row.name as string,
    host: row.host as string,
    process: row.process as string,
    leaseMs: row.lease_ms as number,
    info: decodeAttributes(row.info as string) as Readonly<Record<string, Attribute>>,
    progress: row.progress as number,
    startedAt: row.started_at as number,
    beatAt: row.beat_at as number,
    progressAt: row.progress_at as number,
    retiredAt: row.retired_at as number | null,
  }
}
