// Workers: one row each, however many timelines they own. Whether one is alive is decided by the store's clock alone.

import type { WorkerId } from '../../core/coordinate.ts'
import type { Attribute, WorkerRecord, WorkerRow } from '../../core/ports.ts'
import { decodeAttributes, encodeAttributes } from './attributes.ts'
import type { Connection } from './connection.ts'
import type { SqlRow, SqlValue } from './driver.ts'
import { checkSeal, checkText, seal } from './seal.ts'

export interface WorkerState extends WorkerRecord {
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly retiredAt: number | null
}

const columnNames = 'space id name host process lease_ms info progress started_at beat_at progress_at retired_at'.split(
  ' ',
)
const replace = `REPLACE INTO reprise_worker (${columnNames.join(', ')}, crc) VALUES (${'?, '.repeat(12)}?)`

export class Workers {
  readonly #connection: Connection
  readonly #space: number
  /** Looked at in this transaction: a batch of commits is usually by one worker. */
  readonly #found = new Map<WorkerId, WorkerState | null>()

  constructor(connection: Connection, space: number) {
    this.#connection = connection
    this.#space = space
  }

  /** What is in the file may have changed. */
  begin(): void {
    this.#found.clear()
  }

  find(id: WorkerId): WorkerState | null {
    const found = this.#found.get(id)
    if (found !== undefined) return found
    const row = this.#connection.get('SELECT * FROM reprise_worker WHERE space = ? AND id = ?', this.#space, id)
    const worker = row ? toState(row) : null
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
    const sql = 'SELECT id FROM reprise_worker WHERE space = ? AND retired_at IS NULL AND ? < beat_at + lease_ms'
    return this.#connection.all(sql, this.#space, now).map(({ id }) => id as WorkerId)
  }

  list(now: number): WorkerRow[] {
    const rows = this.#connection.all('SELECT * FROM reprise_worker WHERE space = ? ORDER BY id', this.#space)
    return rows.map((row) => {
      const { retiredAt, ...worker } = toState(row)
      return {
        ...worker,
        isAlive: isAlive({ ...worker, retiredAt }, now),
        isRetired: retiredAt !== null,
        isGone: false,
      }
    })
  }

  /** False: it was retired. */
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

  forgetRetired(before: number): number {
    const sql = 'DELETE FROM reprise_worker WHERE space = ? AND retired_at < ?'
    this.#found.clear()
    return this.#connection.run(sql, this.#space, before)
  }

  #write(worker: WorkerState): void {
    this.#found.delete(worker.id)
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
    this.#connection.run(replace, ...values, seal(values))
  }
}

function isAlive(worker: WorkerState, now: number): boolean {
  return worker.retiredAt === null && now < worker.beatAt + worker.leaseMs
}

function toState(row: SqlRow): WorkerState {
  checkSeal(row, columnNames, `worker ${row.id}`)
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
