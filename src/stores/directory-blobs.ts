// Chunks as files in a directory, two levels deep by the first digits of their digest. A chunk is written aside, synced,
// renamed into place, and the directory synced: it is there whole or not at all. Its age is the file's modification time.

import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, lutimes, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type Digest, fromHex, toHex } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { Blobs, ChunkRow } from '../core/ports.ts'

export interface DirectoryBlobsOptions {
  /** Milliseconds since 1970: what ages are measured by. */
  readonly clock?: () => number
}

type Chunk = { readonly digest: Digest; readonly bytes: Uint8Array }

const asideFolder = 'aside'
const asideAgeMs = 3_600_000
const hexPair = /^[0-9a-f]{2}$/
const hexName = /^[0-9a-f]{64}$/

/** @example const blobs = await openDirectoryBlobs('.reprise/chunks') */
export async function openDirectoryBlobs(directory: string, options: DirectoryBlobsOptions = {}): Promise<Blobs> {
  const clock = options.clock ?? Date.now
  try {
    await makeFolder(join(directory, asideFolder))
    await syncFolder(dirname(resolve(directory)))
    await removeLeftovers(join(directory, asideFolder), clock())
  } catch (error) {
    throw toBlobError(error, directory)
  }
  return new DirectoryBlobs(resolve(directory), clock)
}

const markName = 'reprise-chunks'

/** The mark by which a store knows its chunks again; null if there is none. */
export async function readMark(directory: string): Promise<string | null> {
  try {
    return (await readFile(join(directory, markName), 'utf8')).trim()
  } catch (error) {
    if (isMissing(error)) return null
    throw toBlobError(error, directory)
  }
}

/** Put there once; the one that is there counts. */
export async function writeMark(directory: string, mark: string): Promise<string> {
  try {
    const handle = await open(join(directory, markName), 'wx', 0o644)
    try {
      await handle.writeFile(`${mark}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await syncFolder(directory)
    return mark
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw toBlobError(error, directory)
    const there = await readMark(directory)
    // Somebody made it and has not written into it yet.
    if (there) return there
    await new Promise((resolve) => setTimeout(resolve, 50))
    return (await readMark(directory)) || mark
  }
}

class DirectoryBlobs implements Blobs {
  readonly #directory: string
  readonly #clock: () => number
  /** Folders whose own names are certain; two levels of two digits, so there are at most 65,792. */
  readonly #certain = new Set<string>()

  constructor(directory: string, clock: () => number) {
    this.#directory = directory
    this.#clock = clock
  }

  async put(chunks: readonly Chunk[]): Promise<void> {
    try {
      const folders = new Set<string>()
      for (const chunk of chunks) folders.add(await this.#putOne(chunk))
      for (const folder of folders) await this.#makeCertain(folder)
    } catch (error) {
      throw toBlobError(error, this.#directory)
    }
  }

  async get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    return Promise.all(
      digests.map(async (digest) => {
        try {
          return new Uint8Array(await readFile(this.#path(toHex(digest))))
        } catch (error) {
          if (isMissing(error)) return null
          throw toBlobError(error, this.#directory)
        }
      }),
    )
  }

  async list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    const start = after === null ? '' : toHex(after)
    const rows: ChunkRow[] = []
    for (const outer of await pairsIn(this.#directory, start.slice(0, 2))) {
      const isFirstOuter = outer === start.slice(0, 2)
      for (const inner of await pairsIn(join(this.#directory, outer), isFirstOuter ? start.slice(2, 4) : '')) {
        const names = (await namesIn(join(this.#directory, outer, inner))).filter(
          (name) => hexName.test(name) && name > start,
        )
        for (const name of names.sort()) {
          if (rows.length >= limit) return rows
          const found = await statOf(this.#path(name))
          if (found) rows.push({ digest: fromHex(name), bytes: found.size, touchedAt: Math.round(found.mtimeMs) })
        }
      }
    }
    return rows
  }

  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    let count = 0
    for (const digest of digests) {
      const path = this.#path(toHex(digest))
      const found = await statOf(path)
      if (!found || Math.round(found.mtimeMs) >= touchedBefore) continue
      await rm(path, { force: true })
      count += 1
    }
    return count
  }

  /** The folder that must be synced: also if the chunk was there, whoever put it may not have lived to do so. */
  async #putOne({ digest, bytes }: Chunk): Promise<string> {
    const path = this.#path(toHex(digest))
    const folder = dirname(path)
    const seconds = this.#clock() / 1000
    // Of another size it is a leftover of damage: it is replaced.
    if ((await statOf(path))?.size === bytes.length && (await touch(path, seconds))) return folder
    const aside = join(this.#directory, asideFolder, randomUUID())
    const handle = await open(aside, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o644)
    try {
      await handle.writeFile(bytes)
      await handle.utimes(seconds, seconds)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await mkdir(folder, { recursive: true })
    await rename(aside, path)
    return folder
  }

  /** The names in this folder, and those of the folders on the way to it: the latter need it once. */
  async #makeCertain(folder: string): Promise<void> {
    await syncFolder(folder)
    for (let made = folder; made !== this.#directory && !this.#certain.has(made); made = dirname(made)) {
      await syncFolder(dirname(made))
      this.#certain.add(made)
    }
  }

  #path(hex: string): string {
    return join(this.#directory, hex.slice(0, 2), hex.slice(2, 4), hex)
  }
}

/** False if it went away in the meantime. */
async function touch(path: string, seconds: number): Promise<boolean> {
  try {
    await lutimes(path, seconds, seconds)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/** A new folder is an entry in the one above it, which has to be synced as well. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** What a crash left half written. Younger files may be another process's, at work. */
async function removeLeftovers(folder: string, now: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const found = await statOf(join(folder, name))
    if (found && found.mtimeMs < now - asideAgeMs) await rm(join(folder, name), { force: true })
  }
}

async function pairsIn(folder: string, from: string): Promise<string[]> {
  return (await namesIn(folder)).filter((name) => hexPair.test(name) && name >= from).sort()
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isMissing(error)) return []
    throw toBlobError(error, folder)
  }
}

/** Of the name itself: a link is not a chunk, so one is replaced, and nothing behind it is touched. */
async function statOf(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | null> {
  try {
    return await lstat(path)
  } catch (error) {
    if (isMissing(error)) return null
    throw toBlobError(error, path)
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT'
}

function toBlobError(error: unknown, where: string): unknown {
  if (error instanceof RepriseError) return error
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new RepriseError('STORE_FULL', `no space left for chunks in ${where}`, { where }, error)
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return new RepriseError('STORE_READ_ONLY', `chunks cannot be written to ${where}`, { where }, error)
    default:
      return new RepriseError('STORE_IO', `chunks in ${where}: ${(error as Error).message}`, { where }, error)
  }
}
