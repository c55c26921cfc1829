// A store that is written by others, an object store with faults, and shippers that are killed at any request between them.

import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PageSource } from '../../src/core/shipping/page-source.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { Sealer } from '../../src/engine/storage/seal/seal.ts'
import { ShipLog } from '../../src/engine/tools/shipping/log.ts'
import { restorePages, type ShippedRestoreOptions } from '../../src/engine/tools/shipping/restore.ts'
import { defaultPolicy, type ShipPolicy, Shipper } from '../../src/engine/tools/shipping/shipper.ts'
import { open } from '../../src/index.ts'
import { Connection } from '../../src/stores/sqlite/file/connection.ts'
import { type Driver, loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { openPageSource } from '../../src/stores/sqlite/shipping/source.ts'
import { Bucket, type Fault, MemoryObjects } from '../s3/memory-objects.ts'

export class World {
  readonly folder = mkdtempSync(join(tmpdir(), 'reprise-ship-'))
  file = join(this.folder, 'a.db')
  readonly bucket = new Bucket()
  fault: (request: string) => Fault = () => 'none'
  policy: ShipPolicy = { ...defaultPolicy, recordBytes: 64 * 1024, partBytes: 32 * 1024 }
  /** Milliseconds since 1970, by the shipper's clock. */
  now = 1_700_000_000_000
  readonly #driver: Driver
  #app: Connection | null = null
  #source: PageSource | null = null
  #shipper: Shipper | null = null
  #shippers = 0
  #restored = 0

  private constructor(driver: Driver) {
    this.#driver = driver
  }

  static async make(): Promise<World> {
    const world = new World(await loadDriver())
    await (await open(`sqlite:${world.file}`, { housekeeping: false, log: false })).close()
    world.app.exec('CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB)')
    return world
  }

  /** The connection of the application. */
  get app(): Connection {
    if (this.#app) return this.#app
    this.#app = new Connection(this.#driver, this.file, false)
    this.#app.requireDurability()
    this.#app.exec('PRAGMA wal_autocheckpoint = 50')
    return this.#app
  }

  closeApp(isClean = true): void {
    if (isClean) this.#app?.checkpoint()
    this.#app?.close()
    this.#app = null
  }

  insert(rows: number, bytes: number): void {
    this.app.run('BEGIN IMMEDIATE')
    for (let i = 0; i < rows; i++) this.app.run(`INSERT INTO rows (body) VALUES (randomblob(?))`, bytes)
    this.app.run('COMMIT')
  }

  log(objects = new MemoryObjects(this.bucket)): ShipLog {
    return new ShipLog(objects, new Sealer(), sha256)
  }

  /** Begins a shipper if there is none: another life, unless the process is the same. */
  async shipper(): Promise<Shipper> {
    this.#source ??= await openPageSource(this.file, sha256)
    if (!this.#shipper) {
      this.#shippers += 1
      const log = this.log(new MemoryObjects(this.bucket, (request) => this.fault(request)))
      const who = { id: `shipper-${this.#shippers}`, now: () => this.now }
      this.#shipper = await Shipper.begin(this.#source, log, this.policy, who)
    }
    return this.#shipper
  }

  get source(): PageSource {
    return this.#source!
  }

  /** Like SIGKILL: its locks are released, its memory is lost. */
  killShipper(): void {
    this.#source?.close()
    this.#source = null
    this.#shipper = null
  }

  async restore(options: ShippedRestoreOptions = {}) {
    const file = join(this.folder, `restored-${++this.#restored}.db`)
    return await restorePages(this.log(), file, options)
  }

  /** The bytes of the store as it is now, without its log. */
  bytes(): Buffer {
    const copy = join(this.folder, 'copy.db')
    for (const end of ['', '-wal']) if (existsSync(this.file + end)) copyFileSync(this.file + end, copy + end)
    // Another file: nothing of the one that is shipped is touched.
    const connection = new Connection(this.#driver, copy, false)
    connection.checkpoint()
    connection.close()
    const bytes = readFileSync(copy)
    for (const end of ['', '-wal', '-shm']) rmSync(copy + end, { force: true })
    return bytes
  }

  integrityOf(file: string): unknown {
    const connection = new Connection(this.#driver, file, false)
    try {
      return connection.get('PRAGMA integrity_check')?.integrity_check
    } finally {
      connection.close()
    }
  }

  /** The current files, to continue from later, under another name: some drivers close a file late. */
  copyFiles(): () => void {
    const kept = ['', '-wal'].map((end) => [end, readFileSync(this.file + end)] as const)
    return () => {
      this.file = join(this.folder, 'back.db')
      for (const [end, bytes] of kept) writeFileSync(this.file + end, bytes)
    }
  }

  end(): void {
    this.killShipper()
    this.closeApp()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
