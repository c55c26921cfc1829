// A directory as an object store with the promises of core/store/objects.ts. An object is written to a temporary file, synced,
// given its name, and the name synced: it exists whole or not at all. An object that must be new gets its name by a hard link,
// which the file system refuses if the name exists, so that of two processes one wins.

import { randomUUID } from 'node:crypto'
import { link, lstat, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { RepriseError } from '../core/errors.ts'
import { type Meter, newMeter, type ObjectRow, type Objects, type Range } from '../core/store/objects.ts'
import { isExisting, makeFolder, syncFolder, writeNew } from '../lib/durable-file.ts'

const asideStart = '.aside-'
const asideAgeMs = 86_400_000

/** @example const objects = new DirectoryObjects('/mnt/other/app') */
export class DirectoryObjects implements Objects {
  readonly name: string
  readonly meter: Meter = newMeter()
  readonly #folder: string
  /** Folders that are known to exist. */
  readonly #made = new Set<string>()

  constructor(folder: string) {
    this.#folder = resolve(folder)
    this.name = this.#folder
  }

  now(): number {
    return Date.now()
  }

  async put(key: string, bytes: Uint8Array, onlyNew = false): Promise<boolean> {
    this.meter.puts += 1
    return await this.#withContext(`write ${key}`, async () => {
      const path = join(this.#folder, key)
      const folder = dirname(path)
      await this.#make(folder)
      const aside = join(folder, `${asideStart}${randomUUID()}`)
      try {
        await writeNew(aside, bytes)
        if (onlyNew) {
          if (!(await linked(aside, path))) return false
        } else await rename(aside, path)
        await syncFolder(folder)
        this.meter.bytesOut += bytes.length
        return true
      } finally {
        await rm(aside, { force: true })
      }
    })
  }

  async get(key: string, range?: Range): Promise<Uint8Array | null> {
    this.meter.gets += 1
    return await this.#withContext(`read ${key}`, async () => {
      const bytes = await readFile(join(this.#folder, key)).catch(nullIfMissing)
      if (!bytes) return null
      this.meter.bytesIn += bytes.length
      if (!range) return bytes
      if ('last' in range) return bytes.subarray(Math.max(0, bytes.length - range.last))
      return bytes.subarray(range.from, range.from + range.bytes)
    })
  }

  async list(prefix: string): Promise<ObjectRow[]> {
    this.meter.lists += 1
    return await this.#withContext(`list ${prefix}`, async () => {
      const within = join(this.#folder, prefix.includes('/') ? dirname(`${prefix}.`) : '')
      const entries = await readdir(within, { recursive: true, withFileTypes: true }).catch(nullIfMissing)
      const rows: ObjectRow[] = []
      for (const entry of entries ?? []) {
        const path = join(entry.parentPath ?? entry.path, entry.name)
        const key = path.slice(this.#folder.length + 1).replaceAll(sep, '/')
        if (!entry.isFile() || !key.startsWith(prefix)) continue
        const stats = await lstat(path).catch(nullIfMissing)
        if (!stats) continue
        if (!entry.name.startsWith(asideStart)) rows.push({ key, bytes: stats.size, modifiedAt: stats.mtimeMs })
        // A killed process left it.
        else if (stats.mtimeMs < Date.now() - asideAgeMs) await rm(path, { force: true })
      }
      return rows.sort((a, b) => (a.key < b.key ? -1 : 1))
    })
  }

  async delete(keys: readonly string[]): Promise<void> {
    await this.#withContext('delete', async () => {
      for (const key of keys) {
        this.meter.deletes += 1
        await rm(join(this.#folder, key), { force: true })
      }
    })
  }

  async #make(folder: string): Promise<void> {
    if (this.#made.has(folder)) return
    await makeFolder(folder)
    this.#made.add(folder)
  }

  async #withContext<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      this.#made.clear()
      const { code } = error as { code?: string }
      const kind =
        code === 'ENOSPC' || code === 'EDQUOT'
          ? 'STORE_FULL'
          : code === 'EACCES' || code === 'EPERM' || code === 'EROFS'
            ? 'STORE_DENIED'
            : 'STORE_IO'
      const words = `could not ${what} in ${this.#folder}: ${(error as Error).message}`
      throw new RepriseError(kind, words, { folder: this.#folder, ...(code && { code }) }, error)
    }
  }
}

/** False: the name exists. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (isExisting(error)) return false
    throw error
  }
}

function nullIfMissing(error: unknown): null {
  const { code } = error as { code?: string }
  if (code === 'ENOENT' || code === 'ENOTDIR') return null
  throw error
}
