// Digests of declared files, for keys. A file with the same size, times, inode and mode as at the last scan is not read
// again, unless it changed just before that scan, because its times may be too coarse to show a second change. A link counts
// with the content of its target; a link to a directory is refused. Long scans yield regularly, so that a large tree does not
// block the process.

import { createHash } from 'node:crypto'
import { type BigIntStats, lstatSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { shown } from '../../core/file-tree-path.ts'
import { codeOf } from '../../lib/durable-file.ts'
import { digestOfText, folderDigest, treeDigest } from './file-list.ts'
import { anchoredAll, Unmatched } from './patterns.ts'
import { SeenFolders } from './seen-folders.ts'
import {
  type FileLimits,
  type FolderFiles,
  foldersMatching,
  linkedFolder,
  pathOf,
  plainPaths,
  TimeSlices,
} from './walk.ts'

/** The coarsest resolution of file times (two seconds, on FAT). */
const coarseNs = 2_000_000_000n
/** Larger files are read piece by piece. */
const wholeBytes = 1024 * 1024
/** The clock is read once per this many files. */
const filesBetween = 64
const quietly = { bigint: true, throwIfNoEntry: false } as const

/** The result of a scan. */
export interface Look {
  /** Digest of the files' contents, for the key. */
  readonly digest: string
  /** Digest of the metadata of files and folders: it may change while the contents stay the same. */
  readonly signature: string
  /** The digest of each file, by path below the root, with '/'. Call it before the next scan. */
  files(): Promise<Record<string, string>>
}

interface FolderLook {
  readonly folder: string
  readonly names: readonly string[]
  /** Digests of the files in order; null: as known. */
  readonly digests: readonly string[] | null
}

export class FileDigests {
  readonly root: string
  readonly seen: SeenFolders
  readonly #limits: FileLimits
  readonly #now: () => number
  read = 0
  /** Patterns of the last scan that no file matched: most likely a typo. */
  unmatched: readonly string[] = []

  constructor(root: string, limits: FileLimits, seen = new SeenFolders(), now: () => number = Date.now) {
    this.root = resolve(root)
    this.#limits = limits
    this.#now = now
    this.seen = seen
  }

  async of(patterns: readonly string[]): Promise<Record<string, string>> {
    return await (await this.look(patterns)).files()
  }

  /** A pattern without wildcards that matches nothing is recorded as '', so that a new file changes the key. */
  async look(given: readonly string[]): Promise<Look> {
    const patterns = anchoredAll(given)
    const unmatched = new Unmatched(given)
    const absent = new Set(plainPaths(patterns))
    const digests = new Map<string, string>()
    const folders: FolderLook[] = []
    let signature = ''
    const slices = new TimeSlices()
    for await (const found of foldersMatching(this.root, patterns, this.#limits, { of: 'inputs' }, slices)) {
      const { folder, names, isWhole } = found
      const { look, digest, digests: own } = await this.#lookInto(found, slices)
      const itself = isWhole ? targetOf(this.#whole(folder)) : undefined
      signature += `${folder}\0${itself ? looks(itself) : ''}\0${look}\0`
      if (names.length === 0) continue
      digests.set(folder, digest)
      folders.push({ folder, names, digests: own })
      unmatched.saw(found)
      if (absent.size > 0) for (const name of names) absent.delete(pathOf(folder, name))
    }
    // The paths of folders and of missing files differ, except for a path that itself matched as a folder.
    for (const path of absent) if (!digests.has(path)) digests.set(path, '')
    this.unmatched = unmatched.left
    return {
      digest: treeDigest(digests),
      signature: digestOfText(signature),
      files: () => this.#files(folders, absent),
    }
  }

  /** Digest of one file or link; '' if it does not exist. */
  async digestOf(path: string): Promise<string> {
    const now = this.#now()
    const whole = this.#whole(path)
    const stats = lstatSync(whole, quietly)
    if (!stats) return ''
    if (stats.isSymbolicLink()) return linkDigest(whole)
    if (!stats.isFile()) return 'other'
    const cut = path.lastIndexOf('/')
    const [folder, name] = [path.slice(0, Math.max(cut, 0)), path.slice(cut + 1)]
    return await this.#digest(folder, name, { stats, target: undefined, now })
  }

  #whole(path: string): string {
    return `${this.root}/${path}`
  }

  /** One system call per file, and no promise, while the folder's metadata is unchanged. */
  async #lookInto({ folder, names }: FolderFiles, slices: TimeSlices) {
    if (names.length === 0) return { look: '', digest: '', digests: [] }
    const start = this.#whole(folder === '' ? '' : `${folder}/`)
    const found: (Found | null)[] = []
    let text = ''
    for (let i = 0; i < names.length; i++) {
      const each = this.#foundAt(start + names[i])
      found.push(each)
      text += `${names[i]}\0${each ? lookOf(each) : ''}\0`
      if (i % filesBetween === 0 && slices.isDue) await slices.next()
    }
    const look = digestOfText(text)
    const known = this.seen.digestOf(folder, look)
    if (known !== null) return { look, digest: known, digests: null }
    const digests: string[] = []
    for (const [i, name] of names.entries()) {
      const each = found[i]!
      digests.push(each ? await this.#digest(folder, name, each) : '')
      if (slices.isDue) await slices.next()
    }
    const digest = folderDigest(names, digests)
    if (found.every((each) => each && !isCoarse(each))) this.seen.keep(folder, look, digest)
    return { look, digest, digests }
  }

  async #digest(folder: string, name: string, found: Found): Promise<string> {
    const look = lookOf(found)
    const known = (await this.seen.filesOf(folder)).get(name)
    if (known?.look === look) return known.digest
    const digest = await this.#digestAnew(pathOf(folder, name), found)
    this.seen.keepFile(folder, name, isCoarse(found) ? null : { look, digest })
    return digest
  }

  /** A link to a file counts with the content of its target. */
  async #digestAnew(path: string, { stats, target }: Found): Promise<string> {
    const whole = this.#whole(path)
    if (stats.isFile()) return `${isExecutable(stats) ? 'x' : 'f'}:${await this.#readDigest(whole, stats)}`
    if (!stats.isSymbolicLink()) return 'other'
    if (target?.isDirectory()) throw linkedFolder(path)
    const digest = linkDigest(whole)
    return target?.isFile() ? `${digest} ${await this.#readDigest(whole, target)}` : digest
  }

  async #files(folders: readonly FolderLook[], absent: ReadonlySet<string>): Promise<Record<string, string>> {
    const found: [path: string, digest: string][] = Array.from(absent, (path) => [path, ''])
    for (const { folder, names, digests } of folders) {
      const known = digests ? null : await this.seen.filesOf(folder)
      for (const [i, name] of names.entries()) {
        const digest = digests?.[i] ?? known?.get(name)?.digest ?? (await this.#again(folder, name))
        found.push([pathOf(folder, name), digest])
      }
    }
    // A file may be named __proto__: fromEntries defines properties and does not assign them.
    return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /** Recomputes the digest of a file whose metadata is unchanged but whose digest is no longer known. */
  async #again(folder: string, name: string): Promise<string> {
    const found = this.#foundAt(this.#whole(pathOf(folder, name)))
    return found ? await this.#digest(folder, name, found) : ''
  }

  #foundAt(path: string): Found | null {
    const now = this.#now()
    const stats = lstatSync(path, quietly)
    return stats ? { stats, target: stats.isSymbolicLink() ? targetOf(path) : undefined, now } : null
  }

  async #readDigest(path: string, stats: BigIntStats): Promise<string> {
    this.read += 1
    const hash = createHash('sha256')
    if (stats.size <= wholeBytes) return hash.update(readFileSync(path)).digest('hex')
    // Not a Node stream: on Node 20 its handle may be garbage-collected during the read, which crashes the process.
    const file = await open(path)
    try {
      const piece = Buffer.allocUnsafe(wholeBytes)
      for (;;) {
        const { bytesRead } = await file.read(piece, 0, piece.length, null)
        if (bytesRead === 0) break
        hash.update(piece.subarray(0, bytesRead))
      }
    } finally {
      await file.close()
    }
    return hash.digest('hex')
  }
}

/** The metadata of an existing path. */
interface Found {
  readonly stats: BigIntStats
  /** Metadata of a link's target. */
  readonly target: BigIntStats | undefined
  /** The time before the metadata was read. */
  readonly now: number
}

/** Metadata of a path with links followed; a circular link has no metadata. */
function targetOf(path: string): BigIntStats | undefined {
  try {
    return statSync(path, quietly)
  } catch (error) {
    if (codeOf(error) === 'ELOOP') return undefined
    throw new RepriseError('TREE_BLOCKED', `${shown(path)} cannot be followed: ${(error as Error).message}`, {}, error)
  }
}

/** Metadata of a file or folder as text, with links followed; null if it does not exist. */
export function signatureOf(path: string): string | null {
  const stats = targetOf(path)
  return stats ? looks(stats) : null
}

function lookOf({ stats, target }: Found): string {
  return target ? `${looks(stats)} > ${looks(target)}` : looks(stats)
}

/** Most files have not changed since they were written: then both times are equal. */
function looks({ size, mtimeNs, ctimeNs, ino, mode }: BigIntStats): string {
  return `${size} ${mtimeNs} ${ctimeNs === mtimeNs ? '' : ctimeNs} ${ino} ${mode}`
}

/** The file changed so shortly before the scan that another change might leave the same times. */
function isCoarse({ stats, target, now }: Found): boolean {
  const since = BigInt(now) * 1_000_000n - coarseNs
  return stats.ctimeNs > since || (target !== undefined && target.ctimeNs > since)
}

function isExecutable({ mode }: BigIntStats): boolean {
  return (mode & 0o100n) !== 0n
}

function linkDigest(path: string): string {
  return `l:${digestOfText(readlinkSync(path))}`
}
