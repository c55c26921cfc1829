// Chunks as files in a directory, two levels deep by the first digits of their digest. A chunk is written to a temporary file,
// synced, renamed into place, and the directory synced: it exists whole or not at all. Its age is the file's modification time.
//
// A file system cannot delete a file on the condition that it is old: another process may touch it in between. So a chunk to be
// deleted is first moved aside, where no process can touch it, checked there, and moved back if it turned out to be young. A
// concurrent read finds the chunk aside, and chunks that a crash left aside are moved back at the next open.

import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, type FileHandle, link, lstat, lutimes, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type Digest, fromHex, toHex } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { Blobs, Change, ChunkRow, Rewritten } from '../core/store/ports.ts'
import { codeOf, isExisting, isMissing, makeFolder, makeFolders, syncFolder } from '../lib/durable-file.ts'
import { realTime, sleep } from '../lib/waiting.ts'

export interface DirectoryBlobsOptions {
  /** Milliseconds since 1970, for the ages of chunks. */
  readonly clock?: () => number
}

type Chunk = { readonly digest: Digest; readonly bytes: Uint8Array }

const asideFolder = 'aside'
const asideAgeMs = 3_600_000
const hexPair = /^[0-9a-f]{2}$/
const hexName = /^[0-9a-f]{64}$/
/** The name of a chunk that is moved aside for deletion: its digest and the deleting process. */
const goingName = /^([0-9a-f]{64})\.going-/
/** File systems with a resolution of one or two seconds round down: a time for them is rounded up. */
const coarseMs = 2000

/**
 * A missing folder is empty, and is created with the first chunk.
 *
 * @example const blobs = await openDirectoryBlobs('.reprise/chunks')
 */
export async function openDirectoryBlobs(directory: string, options: DirectoryBlobsOptions = {}): Promise<Blobs> {
  const clock = options.clock ?? Date.now
  try {
    if (await isThere(resolve(directory))) await makeDirectoryBlobs(directory)
    await removeLeftovers(resolve(directory), clock())
  } catch (error) {
    throw toBlobError(error, directory)
  }
  return new DirectoryBlobs(resolve(directory), clock)
}

/** Creates the folder, durably, if it is missing. */
export async function makeDirectoryBlobs(directory: string): Promise<void> {
  try {
    await makeFolder(join(directory, asideFolder))
    await syncFolder(dirname(resolve(directory)))
  } catch (error) {
    throw toBlobError(error, directory)
  }
}

/** Throws if a missing folder could not be created: the caller gets the error before anything is created anywhere. */
async function isThere(directory: string): Promise<boolean> {
  for (let each = directory; ; each = dirname(each)) {
    try {
      await readdir(each)
      if (each !== directory) await access(each, constants.W_OK)
      return each === directory
    } catch (error) {
      if (!isMissing(error) || each === dirname(each)) throw error
    }
  }
}

/** The folder itself if it holds chunks, or is new; else its folders that do: one for each namespace. */
export async function chunkFoldersIn(path: string): Promise<string[]> {
  const names = await readdir(path).catch((error) => {
    if (isMissing(error)) return null
    throw toBlobError(error, path)
  })
  if (names === null || names.includes(asideFolder)) return [path]
  const found: string[] = []
  for (const name of names) {
    const inside: string[] = await readdir(join(path, name)).catch(() => [])
    if (inside.includes(asideFolder)) found.push(join(path, name))
  }
  return found
}

class DirectoryBlobs implements Blobs {
  readonly #directory: string
  readonly #clock: () => number
  /** Folders whose own names are durable; two levels of two digits, so there are at most 65,792. */
  readonly #certain = new Set<string>()
  #isMade = false
  /** The time resolution of the file system; null until it was measured. */
  #exactMs: number | null = null

  constructor(directory: string, clock: () => number) {
    this.#directory = directory
    this.#clock = clock
  }

  async put(chunks: readonly Chunk[], at = 0): Promise<void> {
    try {
      if (!this.#isMade) await makeDirectoryBlobs(this.#directory)
      this.#isMade = true
      const folders = new Set<string>()
      for (const chunk of chunks) folders.add(await this.#putOne(chunk, at))
      for (const folder of folders) await this.#makeCertain(folder)
    } catch (error) {
      throw toBlobError(error, this.#directory)
    }
  }

  async touch(digests: readonly Digest[], at: number): Promise<Digest[]> {
    const missing: Digest[] = []
    try {
      for (const digest of digests) {
        const hex = toHex(digest)
        let isThere = await this.#touch(hex, at)
        // Another process may have moved it aside to check its age, and puts it back.
        for (let look = 0; !isThere && look < 5 && (await this.#isGoing(hex)); look++) {
          await sleep(realTime, 10)
          isThere = await this.#touch(hex, at)
        }
        if (!isThere && !(await this.#touch(hex, at))) missing.push(digest)
      }
    } catch (error) {
      throw toBlobError(error, this.#directory)
    }
    return missing
  }

  async get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    return Promise.all(
      digests.map(async (digest) => {
        const hex = toHex(digest)
        const read = (path: string) => readIfThere(path, this.#directory)
        const found = await read(this.#path(hex))
        if (found) return found
        // Another process may have moved it aside to check its age, and put it back by the time it is looked for there.
        const going = (await this.#going()).filter((name) => name.startsWith(hex))
        if (going.length === 0) return await read(this.#path(hex))
        for (const name of going) {
          const aside = await read(join(this.#directory, asideFolder, name))
          if (aside) return aside
        }
        return await read(this.#path(hex))
      }),
    )
  }

  has(digests: readonly Digest[]): Promise<boolean[]> {
    return Promise.all(digests.map(async (digest) => (await statOf(this.#path(toHex(digest)))) !== null))
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
    for (const digest of digests) if (await this.#deleteOne(toHex(digest), touchedBefore)) count += 1
    return count
  }

  async #deleteOne(hex: string, touchedBefore: number): Promise<boolean> {
    const path = this.#path(hex)
    const isOld = (found: Awaited<ReturnType<typeof statOf>>) => found && Math.round(found.mtimeMs) < touchedBefore
    if (!isOld(await statOf(path))) return false
    const aside = join(this.#directory, asideFolder, `${hex}.going-${randomUUID()}`)
    try {
      await rename(path, aside)
    } catch (error) {
      if (isMissing(error)) return false
      throw toBlobError(error, this.#directory)
    }
    const isGone = isOld(await statOf(aside)) ?? false
    if (!isGone) await putBack(aside, path)
    await rm(aside, { force: true })
    return isGone
  }

  async #isGoing(hex: string): Promise<boolean> {
    return (await this.#going()).some((name) => name.startsWith(hex))
  }

  /** The chunks moved aside for deletion, by all processes. */
  async #going(): Promise<string[]> {
    return (await namesIn(join(this.#directory, asideFolder))).filter((name) => goingName.test(name))
  }

  /** False if the chunk does not exist. */
  async #touch(hex: string, at: number): Promise<boolean> {
    const path = this.#path(hex)
    const ms = this.#timeFor(at)
    if (!(await touch(path, ms / 1000))) return false
    if (this.#exactMs !== null) return true
    const found = await statOf(path)
    if (!found) return false
    this.#learn(found.mtimeMs, ms)
    return Math.round(found.mtimeMs) >= ms || this.#touch(hex, at)
  }

  async #stamp(handle: FileHandle, at: number): Promise<void> {
    const ms = this.#timeFor(at)
    await handle.utimes(ms / 1000, ms / 1000)
    if (this.#exactMs !== null) return
    this.#learn((await handle.stat()).mtimeMs, ms)
    await this.#stamp(handle, at)
  }

  #timeFor(at: number): number {
    const ms = Math.max(Math.round(this.#clock()), Math.ceil(at))
    const exactMs = this.#exactMs ?? 1
    return Math.ceil(ms / exactMs) * exactMs
  }

  #learn(foundMs: number, givenMs: number): void {
    this.#exactMs = Math.round(foundMs) < givenMs ? coarseMs : 1
  }

  async rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten> {
    const rows = await this.list(after === null ? null : fromHex(after), limit)
    let changed = 0
    try {
      for (const { digest, touchedAt } of rows) {
        const [bytes] = await this.get([digest])
        const other = bytes ? change(bytes) : null
        if (!other) continue
        const path = this.#path(toHex(digest))
        await this.#replace(path, other, (handle) => handle.utimes(touchedAt / 1000, touchedAt / 1000))
        await this.#makeCertain(dirname(path))
        changed += 1
      }
    } catch (error) {
      throw toBlobError(error, this.#directory)
    }
    const last = rows.at(-1)
    return { next: last && rows.length >= limit ? toHex(last.digest) : null, seen: rows.length, changed, left: 0 }
  }

  /** Returns the folder to sync, even if the chunk existed: its writer may have died before the sync. */
  async #putOne({ digest, bytes }: Chunk, at: number): Promise<string> {
    const path = this.#path(toHex(digest))
    const folder = dirname(path)
    // A file of another size is damaged: it is replaced.
    if ((await statOf(path))?.size === bytes.length && (await this.#touch(toHex(digest), at))) return folder
    await this.#replace(path, bytes, (handle) => this.#stamp(handle, at))
    return folder
  }

  async #replace(path: string, bytes: Uint8Array, stamp: (handle: FileHandle) => Promise<void>): Promise<void> {
    const aside = join(this.#directory, asideFolder, randomUUID())
    const handle = await open(aside, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o644)
    try {
      await handle.writeFile(bytes)
      await stamp(handle)
      await handle.sync()
    } finally {
      await handle.close()
    }
    makeFolders(dirname(path))
    await rename(aside, path)
  }

  /** Syncs the names in this folder, and once those of the folders on the way to it. */
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

/** False if it was removed in the meantime. */
async function touch(path: string, seconds: number): Promise<boolean> {
  try {
    await lutimes(path, seconds, seconds)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/**
 * Removes files that a crash left half written. Younger files may belong to a running process. A chunk whose deletion was
 * interrupted is put back: whether it is needed is unknown here.
 */
async function removeLeftovers(directory: string, now: number): Promise<void> {
  const folder = join(directory, asideFolder)
  for (const name of await namesIn(folder)) {
    const aside = join(folder, name)
    const found = await statOf(aside)
    const going = goingName.exec(name)?.[1]
    if (!found) continue
    if (going) await putBack(aside, join(directory, going.slice(0, 2), going.slice(2, 4), going))
    // A process that is still deleting it finds it gone, which is harmless: the chunk is back.
    if (going || found.mtimeMs < now - asideAgeMs) await rm(aside, { force: true })
  }
}

/** Moves it back, unless another process has put the same chunk there meanwhile. */
async function putBack(aside: string, path: string): Promise<void> {
  try {
    await link(aside, path)
    await syncFolder(dirname(path))
  } catch (error) {
    if (!isMissing(error) && !isExisting(error)) throw toBlobError(error, path)
  }
}

export async function readIfThere(path: string, directory: string): Promise<Uint8Array | null> {
  try {
    return new Uint8Array(await readFile(path))
  } catch (error) {
    if (isMissing(error)) return null
    throw toBlobError(error, directory)
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

/** The status of the name itself: a link is not a chunk, so it is replaced, and its target is not touched. */
async function statOf(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | null> {
  try {
    return await lstat(path)
  } catch (error) {
    if (isMissing(error)) return null
    throw toBlobError(error, path)
  }
}

export function toBlobError(error: unknown, where: string): unknown {
  if (error instanceof RepriseError) return error
  switch (codeOf(error)) {
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
