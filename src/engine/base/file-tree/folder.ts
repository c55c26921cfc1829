// An open directory, and operations on the names in it. No operation follows a link: no whole path is passed to the
// system; each directory is entered by its name in its parent. This is the only module that writes or deletes files
// that stored data names.
// On Linux a folder is a descriptor, and names are resolved below it (/proc/self/fd/N/name, equivalent to openat): a
// directory that another process swaps for a link after it was entered is not followed. On other systems a folder is a path;
// every directory on it is checked before each operation, which leaves a gap between the check and the operation.

import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { accessSync, type BigIntStats, constants, type Stats } from 'node:fs'
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  opendir,
  readlink,
  realpath,
  rename,
  rmdir,
  symlink,
  unlink,
} from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, sep } from 'node:path'
import { assert } from '../../../core/assert.ts'
import { RepriseError } from '../../../core/errors.ts'
import { shown, temporaryName, unsafe } from '../../../core/file-tree-path.ts'
import { checkText } from '../../../core/options.ts'
import { codeOf, makeFolders } from '../../../lib/durable-file.ts'
import type { Planted } from '../planted-bugs.ts'

export interface FolderOptions {
  /** Creates the directory if it is missing. */
  readonly create?: boolean
  /** Uses a descriptor. Default: true where the system supports it. */
  readonly isHeld?: boolean
  readonly planted?: Planted
}

/** One name in a directory. `other`: a device, a pipe or a socket. */
export interface Child {
  readonly name: string
  readonly kind: 'file' | 'link' | 'folder' | 'other'
}

interface Access {
  readonly isHeld: boolean
  /** The planted bug `tree-follows-links`: whole paths, and no O_NOFOLLOW. */
  readonly isCareless: boolean
}

/** Permission bits that are captured and restored: never set-user-id, set-group-id or sticky. */
const permissions = 0o777
const attemptsMax = 8
/** Files are written in parts of this size: one call per piece would cost more than writing it. */
const partBytes = 1024 * 1024

type Pieces = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

interface Written {
  readonly mode: number
  /** Total number of bytes. */
  readonly bytes: number
  /** The modification time to set. */
  readonly modifiedMs?: number | undefined
}
const noFollow = constants.O_NOFOLLOW ?? 0
const directoryOnly = constants.O_DIRECTORY ?? 0
const noBlock = constants.O_NONBLOCK ?? 0

/**
 * @example
 * const root = await openRoot('workspace')
 * await root.write('a.txt', bytes, 0o644)
 * await root.close()
 */
export async function openRoot(directory: string, options: FolderOptions = {}): Promise<Folder> {
  const { create = false, isHeld = canHold(), planted } = options
  checkText('the directory of a tree', directory)
  return await withPlace(directory, async () => {
    if (create) makeFolders(directory)
    // The root itself may be reached through links, because the caller named it. It is resolved once.
    const path = await realpath(directory)
    refuseHome(path)
    const isCareless = planted?.has('tree-follows-links') ?? false
    const folder = await enterPath(path, null, '', { isHeld, isCareless }, true)
    if (folder) await folder.checkPlace()
    return folder
  }).then((folder) => {
    if (!folder) throw new RepriseError('NOT_FOUND', `${directory} is not a directory`, { directory })
    return folder
  })
}

export class Folder {
  /** The path at the time it was entered: for messages, and for systems without descriptors. */
  readonly path: string
  readonly #above: Folder | null
  readonly #handle: FileHandle | null
  readonly #identity: { readonly dev: bigint | number; readonly ino: bigint | number }
  readonly #access: Access

  constructor(path: string, above: Folder | null, handle: FileHandle | null, stats: Stats, access: Access) {
    this.path = path
    this.#above = above
    this.#handle = handle
    this.#identity = { dev: stats.dev, ino: stats.ino }
    this.#access = access
  }

  /** Null: the name is missing, is not a directory, or is a link to one. */
  async enter(name: string): Promise<Folder | null> {
    return await withPlace(name, async () =>
      enterPath(await this.#at(name), this, join(this.path, name), this.#access, false),
    )
  }

  /** Enters the directory of that name, creating it if needed. A link or file of that name is removed, never its target. */
  async make(name: string): Promise<Folder> {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const folder = await this.enter(name)
      if (folder) return folder
      await this.remove(name)
      await withPlace(name, async () => mkdir(await this.#at(name)).catch(unlessExists))
    }
    throw blocked(join(this.path, name), 'another process keeps replacing it')
  }

  /** Returns null if there are more than `namesMax` names. Names that are not valid text count as `unreadable`. */
  async list(namesMax: number): Promise<{ readonly children: Child[]; readonly unreadable: number } | null> {
    return await withPlace(this.path, async () => {
      const children: Child[] = []
      let unreadable = 0
      const directory = await opendir(await this.#self(), { encoding: 'buffer' as BufferEncoding })
      for await (const entry of directory) {
        if (children.length + unreadable >= namesMax) return null
        const bytes = entry.name as unknown as Buffer
        if (!isUtf8(bytes)) unreadable += 1
        else {
          const name = bytes.toString('utf8')
          children.push({ name, kind: kindOf(entry) })
        }
      }
      return { children: children.sort((a, b) => (a.name < b.name ? -1 : 1)), unreadable }
    })
  }

  async look(
    name: string,
  ): Promise<{ readonly kind: Child['kind']; readonly mode: number; readonly bytes: number } | null> {
    return await withPlace(name, async () => {
      const stats = await lstat(await this.#at(name)).catch(ifMissing)
      return stats && { kind: kindOf(stats), mode: stats.mode & permissions, bytes: stats.size }
    })
  }

  /** Null: there is no link of that name any more, or its target is not valid text. */
  async linkTarget(name: string): Promise<string | null> {
    return await withPlace(name, async () => {
      const target = await readlink(await this.#at(name), { encoding: 'buffer' }).catch(ifMissing)
      return target && isUtf8(target) ? target.toString('utf8') : null
    })
  }

  /** Null: there is no regular file of that name any more, or it is larger than `bytesMax`. */
  async read(name: string, bytesMax: number): Promise<Uint8Array | null> {
    const file = await this.openFile(name)
    if (!file) return null
    try {
      const { size } = await file.stat()
      return size <= bytesMax ? await withPlace(name, () => readUpTo(file, size, bytesMax)) : null
    } finally {
      await file.close()
    }
  }

  /** Opens a file for reading in pieces; the caller closes it. Null: there is no regular file of that name any more. */
  async openFile(name: string): Promise<FileHandle | null> {
    return await withPlace(name, async () => {
      // Non-blocking: a pipe may have taken the name.
      const flags = constants.O_RDONLY | noBlock | this.#noFollow
      const file = await open(await this.#at(name), flags).catch(ifMissing)
      if (!file) return null
      const isFile = await file.stat().then((stats) => stats.isFile())
      if (isFile) return file
      await file.close()
      return null
    })
  }

  /** Inode and times of a name, as exactly as the system knows them. Null: the name does not exist. */
  async stamp(name: string): Promise<BigIntStats | null> {
    return await withPlace(name, async () => lstat(await this.#at(name), { bigint: true }).catch(ifMissing))
  }

  /** Writes a temporary file and renames it, so that a link or hard link of that name is replaced, not written through. */
  async write(name: string, bytes: Uint8Array, mode: number): Promise<void> {
    await this.writeFrom(name, [bytes], { mode, bytes: bytes.length })
  }

  /** The same from pieces, in bounded memory. */
  async writeFrom(name: string, pieces: Pieces, { mode, bytes, modifiedMs }: Written): Promise<void> {
    await this.#replace(name, async (aside) => {
      const file = await open(aside, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | noFollow, 0o600)
      let written: Promise<void> = Promise.resolve()
      try {
        // The next part is read while this one is written.
        for await (const part of parts(pieces, bytes)) {
          await written
          written = file.writeFile(part)
          written.catch(() => undefined)
        }
        await written
        await file.chmod(mode & permissions)
        if (modifiedMs !== undefined) await file.utimes(modifiedMs / 1000, modifiedMs / 1000)
      } finally {
        await written.catch(() => undefined)
        await file.close()
      }
    })
  }

  /** Moves a file, link or directory here from another directory of the same file system. False: it does not exist. */
  async takeFrom(other: Folder, otherName: string, name: string): Promise<boolean> {
    return await withPlace(name, async () => {
      return (await rename(await other.#at(otherName), await this.#at(name)).catch(ifMissing)) !== null
    })
  }

  /** The target is data: it is not resolved. */
  async link(name: string, target: string): Promise<void> {
    await this.#replace(name, (aside) => symlink(target, aside))
  }

  /** Removes a file, a link or a special file. False: there is none; a directory is kept. */
  async remove(name: string): Promise<boolean> {
    return await withPlace(name, async () => {
      const path = await this.#at(name)
      const stats = await lstat(path).catch(ifMissing)
      if (!stats || stats.isDirectory()) return false
      return (await unlink(path).catch(ifMissing)) !== null
    })
  }

  /** Removes a directory and the directories below it, if they contain nothing else. */
  async removeEmpty(name: string, depthMax: number): Promise<void> {
    const folder = await this.enter(name)
    if (!folder) return
    try {
      const listed = depthMax > 0 ? await folder.list(Number.POSITIVE_INFINITY) : null
      if (!listed || listed.unreadable > 0 || listed.children.some((child) => child.kind !== 'folder')) {
        throw blocked(folder.path, 'a file belongs there, and the content of the directory was never captured')
      }
      for (const child of listed.children) await folder.removeEmpty(child.name, depthMax - 1)
    } finally {
      await folder.close()
    }
    await withPlace(name, async () => rmdir(await this.#at(name)).catch(ifMissing))
  }

  /** True if names that differ only in case are different files here. */
  async isCaseSensitive(): Promise<boolean> {
    const name = temporaryName(randomBytes(16).toString('hex'))
    await this.write(name, new Uint8Array(0), 0o600)
    try {
      return (await this.look(name.toUpperCase())) === null
    } finally {
      await this.remove(name)
    }
  }

  /** For a root: a directory on its path may have become a link between resolving the path and opening it. */
  async checkPlace(): Promise<void> {
    if (!this.#handle) return
    const found = await realpath(`/proc/self/fd/${this.#handle.fd}`)
    if (found === this.path) return
    await this.close()
    throw blocked(this.path, 'another process replaced this directory')
  }

  async close(): Promise<void> {
    await this.#handle?.close()
  }

  get #noFollow(): number {
    return this.#access.isCareless ? 0 : noFollow
  }

  async #replace(name: string, write: (aside: string) => Promise<void>): Promise<void> {
    await withPlace(name, async () => {
      const asideName = temporaryName(randomBytes(16).toString('hex'))
      const aside = await this.#at(asideName)
      try {
        await write(aside)
        await rename(aside, await this.#at(name))
      } catch (error) {
        await unlink(aside).catch(() => undefined)
        throw error
      }
    })
  }

  /** The path by which the system reaches this directory. */
  async #self(): Promise<string> {
    if (this.#handle && !this.#access.isCareless) return `/proc/self/fd/${this.#handle.fd}`
    if (!this.#access.isCareless) await this.#checkWay()
    return this.path
  }

  /**
   * The path of a name in this directory. Last line of defence: refuses anything but a plain name, whatever callers
   * checked.
   */
  async #at(name: string): Promise<string> {
    assert(name !== '' && name !== '.' && name !== '..', 'a name in a directory cannot lead out of it')
    if (name.includes('/') || name.includes('\0') || (sep === '\\' && /[\\:]/.test(name))) {
      throw unsafe(name, 'it is not a plain file name on this system')
    }
    return `${await this.#self()}${sep}${name}`
  }

  /** Without descriptors: checks that every directory from the root to here is still the one that was entered. */
  async #checkWay(): Promise<void> {
    if (this.#above) await this.#above.#checkWay()
    const stats = await lstat(this.path).catch(ifMissing)
    if (!stats?.isDirectory() || stats.dev !== this.#identity.dev || stats.ino !== this.#identity.ino) {
      throw blocked(this.path, 'another process replaced this directory')
    }
  }
}

/** Joins and copies the pieces: the producer may reuse its buffer. */
async function* parts(pieces: Pieces, bytes: number): AsyncGenerator<Uint8Array> {
  const size = Math.max(1, Math.min(bytes, partBytes))
  let part = Buffer.allocUnsafe(size)
  let length = 0
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      const taken = piece.subarray(at, at + size - length)
      part.set(taken, length)
      at += taken.length
      length += taken.length
      if (length < size) continue
      yield part
      part = Buffer.allocUnsafe(size)
      length = 0
    }
  }
  if (length > 0) yield part.subarray(0, length)
}

async function enterPath(
  path: string,
  above: Folder | null,
  shownPath: string,
  access: Access,
  isRoot: boolean,
): Promise<Folder | null> {
  const where = isRoot ? path : shownPath
  if (access.isHeld) {
    const follow = access.isCareless ? 0 : noFollow
    const handle = await open(path, constants.O_RDONLY | directoryOnly | follow).catch(ifMissing)
    return handle && new Folder(where, above, handle, await handle.stat(), access)
  }
  const stats = await lstat(path).catch(ifMissing)
  if (!stats || !(stats.isDirectory() || (access.isCareless && stats.isSymbolicLink()))) return null
  return new Folder(where, above, null, stats, access)
}

function canHold(): boolean {
  if (process.platform !== 'linux') return false
  try {
    accessSync('/proc/self/fd')
    return true
  } catch {
    return false
  }
}

/** A restore deletes files: it refuses a home directory and its ancestors. */
function refuseHome(path: string): void {
  const home = homedir()
  if (path === sep || path === home || `${home}${sep}`.startsWith(path.endsWith(sep) ? path : `${path}${sep}`)) {
    throw new RepriseError('INVALID_ARGUMENT', `${path} contains your home directory: name a separate directory`, {
      path,
    })
  }
}

/** Reads at most `bytesMax`, even if the file grows during the read. */
async function readUpTo(file: FileHandle, expected: number, bytesMax: number): Promise<Uint8Array | null> {
  const pieces: Buffer[] = []
  let length = 0
  for (;;) {
    const piece = Buffer.alloc(Math.min(Math.max(expected - length, 0) + 1, 1024 * 1024))
    const { bytesRead } = await file.read(piece, 0, piece.length, null)
    if (bytesRead === 0) return new Uint8Array(Buffer.concat(pieces))
    length += bytesRead
    if (length > bytesMax) return null
    pieces.push(piece.subarray(0, bytesRead))
  }
}

function kindOf(entry: { isFile(): boolean; isSymbolicLink(): boolean; isDirectory(): boolean }): Child['kind'] {
  if (entry.isFile()) return 'file'
  if (entry.isSymbolicLink()) return 'link'
  return entry.isDirectory() ? 'folder' : 'other'
}

export function blocked(path: string, why: string, cause?: unknown): RepriseError {
  // The path through /proc would be meaningless in the message.
  const reason = why.replaceAll(/\/proc\/self\/fd\/\d+\//g, '')
  return new RepriseError('TREE_BLOCKED', `${shown(path)}: ${reason}`, { path }, cause)
}

/** The name is missing, or has become something else meanwhile. */
const missing = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO', 'EINVAL'])

function ifMissing(error: unknown): null {
  if (missing.has(codeOf(error))) return null
  throw error
}

function unlessExists(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error
}

async function withPlace<T>(where: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof RepriseError) throw error
    switch (codeOf(error)) {
      case 'ENOSPC':
      case 'EDQUOT':
        throw new RepriseError('STORE_FULL', `no space left to write ${shown(where)}`, {}, error)
      case 'EIO':
        throw new RepriseError('STORE_IO', `${shown(where)}: ${(error as Error).message}`, {}, error)
      case 'ENOENT':
        throw new RepriseError('NOT_FOUND', `${shown(where)} does not exist`, {}, error)
      default:
        throw blocked(where, (error as Error).message, error)
    }
  }
}
