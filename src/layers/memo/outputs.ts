// The outputs of a command: files with modes and links, stored as a list and one stream of bytes. They are restored together
// or not at all: all files are staged first. A folder that is an output as a whole is swapped with the existing one; single
// files are renamed one by one.

import { createHash, randomBytes } from 'node:crypto'
import { type Dirent, lstatSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { checkPaths, namesOf, shown } from '../../core/file-tree-path.ts'
import { DirectoryStack } from '../../engine/base/file-tree/directory-stack.ts'
import { type Folder, openRoot } from '../../engine/base/file-tree/folder.ts'
import { isRunning } from '../../lib/process-stat.ts'
import type { FileDigests } from './files.ts'
import { anchoredAll } from './patterns.ts'
import { type FileLimits, matching } from './walk.ts'

export interface OutputFile {
  readonly path: string
  readonly mode: number
  /** Target of a link; null for a file. */
  readonly link: string | null
  readonly bytes: number
  /** The digest in the form of FileDigests. */
  readonly digest: string
}

/** Names the machine and the process, so that leftovers of a dead process can be distinguished from files in use. */
const stagingPrefix = `.reprise-restore-${createHash('sha256').update(hostname()).digest('hex').slice(0, 8)}-`

/** Removes leftovers of killed processes of this machine. Only the owner of the directory lock calls it. */
export function clearLeftovers(directory: string): void {
  for (const name of readdirSync(directory)) {
    // A file name in the directory, not the id of a timeline.
    const [, own, pid] = /^(\.reprise-restore-[0-9a-f]{8}-)(\d+)-/.exec(name) ?? []
    if (own === stagingPrefix && !isRunning(Number(pid)))
      rmSync(join(directory, name), { recursive: true, force: true })
  }
}

/** The list of files, and their concatenated contents. The list is complete once the stream was read. */
export class CapturedOutputs {
  readonly files: OutputFile[] = []
  readonly #root: string
  readonly #patterns: readonly string[]
  readonly #limits: FileLimits

  constructor(root: string, patterns: readonly string[], limits: FileLimits) {
    this.#root = root
    this.#patterns = anchoredAll(patterns)
    this.#limits = limits
  }

  async *stream(): AsyncGenerator<Uint8Array> {
    this.files.length = 0
    for await (const path of matching(this.#root, this.#patterns, this.#limits, { of: 'outputs' })) {
      const whole = join(this.#root, ...path.split('/'))
      const stats = lstatSync(whole)
      if (stats.isSymbolicLink()) {
        const link = readlinkSync(whole)
        const digest = `l:${createHash('sha256').update(link).digest('hex')}`
        this.files.push({ path, mode: 0o777, link, bytes: 0, digest })
        continue
      }
      if (!stats.isFile()) {
        throw new RepriseError('INVALID_ARGUMENT', `${shown(path)} is an output, but neither a file nor a link`, {
          path,
        })
      }
      const hash = createHash('sha256')
      let bytes = 0
      const file = await open(whole)
      try {
        for await (const piece of file.createReadStream({ autoClose: false, highWaterMark: 1024 * 1024 })) {
          hash.update(piece as Buffer)
          bytes += (piece as Buffer).length
          yield piece as Buffer
        }
      } finally {
        await file.close()
      }
      const mode = stats.mode & 0o777
      this.files.push({
        path,
        mode,
        link: null,
        bytes,
        digest: `${(mode & 0o100) === 0 ? 'f' : 'x'}:${hash.digest('hex')}`,
      })
    }
  }
}

export interface RestoredOutputs {
  readonly written: number
  readonly removed: number
  /** Nothing was written or removed: all outputs were already in place. */
  readonly isInPlace: boolean
}

/** The captured outputs. */
export interface Artifact {
  readonly files: readonly OutputFile[]
  /** The concatenated contents of the files. */
  readonly read: () => AsyncIterable<Uint8Array>
  /** Each file is also checked against its own digest. */
  readonly isHashed: boolean
}

/** Restores the captured outputs in a directory, and removes other files that match the patterns. */
export async function restoreOutputs(
  directory: string,
  given: readonly string[],
  artifact: Artifact,
  digests: FileDigests,
  limits: FileLimits,
): Promise<RestoredOutputs> {
  const { files } = artifact
  const patterns = anchoredAll(given)
  checkPaths(
    files.map(({ path }) => path),
    limits,
  )
  const wanted = new Set(files.map(({ path }) => path))
  const unwanted: string[] = []
  const found = matching(directory, patterns, limits, { of: 'outputs', passesLinks: true })
  for await (const path of found) if (!wanted.has(path)) unwanted.push(path)
  const missing = new Set<string>()
  for (const { path, digest } of files) if ((await digests.digestOf(path)) !== digest) missing.add(path)
  if (missing.size === 0 && unwanted.length === 0) return { written: 0, removed: 0, isInPlace: true }
  const root = await openRoot(directory)
  try {
    const staging = await root.make(stagingName())
    try {
      const whole = wholeFolders(patterns).filter((folder) => isOurs(join(directory, ...folder.split('/'))))
      const changed = [...missing, ...unwanted]
      const touched = whole.filter((folder) => changed.some((path) => isBelow(path, folder)))
      const isStaged = (path: string) => missing.has(path) || touched.some((folder) => isBelow(path, folder))
      await stage(staging, artifact, isStaged, limits)
      for (const folder of touched) await swapFolder(root, staging, folder, limits)
      const rest = files.filter(({ path }) => isStaged(path) && !whole.some((folder) => isBelow(path, folder)))
      await moveFiles(
        root,
        staging,
        rest.map(({ path }) => path),
        limits,
      )
      await removeFiles(
        root,
        unwanted.filter((path) => !whole.some((folder) => isBelow(path, folder))),
      )
      return { written: missing.size, removed: unwanted.length, isInPlace: false }
    } finally {
      await clear(root, staging)
    }
  } finally {
    await root.close()
  }
}

/** Outputs that were moved aside while a command runs. */
export interface SetAside {
  readonly paths: readonly string[]
  /** Restores the outputs that the command did not write again. */
  putBack(paths: readonly string[]): Promise<void>
  /** Removes outputs that were not restored. */
  end(): Promise<void>
}

export async function setOutputsAside(
  directory: string,
  given: readonly string[],
  limits: FileLimits,
): Promise<SetAside> {
  const paths: string[] = []
  const options = { of: 'outputs', passesLinks: true } as const
  for await (const path of matching(directory, anchoredAll(given), limits, options)) paths.push(path)
  const root = await openRoot(directory)
  const staging = await root.make(stagingName())
  const end = async () => {
    try {
      await clear(root, staging)
    } finally {
      await root.close()
    }
  }
  try {
    await moveFiles(staging, root, paths, limits)
  } catch (error) {
    await end()
    throw error
  }
  return { paths, putBack: (lacking) => moveFiles(root, staging, lacking, limits), end }
}

function stagingName(): string {
  return `${stagingPrefix}${process.pid}-${randomBytes(8).toString('hex')}`
}

/** Folders that are outputs with all their content: only these can be swapped. */
function wholeFolders(patterns: readonly string[]): string[] {
  if (patterns.some((pattern) => pattern.startsWith('!'))) return []
  const folders = patterns.flatMap((pattern) => {
    const match = /^\/((?:[^*?[\\/]+\/)*[^*?[\\/]+)\/\*\*$/.exec(pattern)
    return match ? [match[1]!] : []
  })
  return folders.filter((folder) => !folders.some((other) => other !== folder && isBelow(folder, other)))
}

/** False if the folder contains anything that is never an output, such as .git: a swap would remove it. */
function isOurs(folder: string): boolean {
  let entries: Dirent[]
  try {
    entries = readdirSync(folder, { withFileTypes: true })
  } catch {
    return true
  }
  return entries.every((entry) => {
    if (entry.name === '.git' || entry.name === '.reprise') return false
    if (entry.isDirectory()) return isOurs(join(folder, entry.name))
    return entry.isFile() || entry.isSymbolicLink()
  })
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(`${folder}/`)
}

async function stage(
  staging: Folder,
  { files, read, isHashed }: Artifact,
  isStaged: (path: string) => boolean,
  limits: FileLimits,
): Promise<void> {
  const bytes = new ByteReader(read())
  const way = new DirectoryStack(staging)
  try {
    for (const { path, mode, link, bytes: length, digest } of files) {
      if (!isStaged(path)) {
        for await (const _piece of bytes.take(length));
        continue
      }
      const names = namesOf(path, limits)
      const folder = (await way.to(names.slice(0, -1), true))!
      const name = names.at(-1)!
      if (link !== null) await folder.link(name, link)
      else {
        const hash = isHashed ? createHash('sha256') : null
        const pieces = bytes.take(length)
        await folder.writeFrom(name, hash ? hashed(pieces, hash) : pieces, { mode, bytes: length })
        if (hash && !digest.endsWith(`:${hash.digest('hex')}`)) {
          throw new RepriseError('CHECKPOINT_DAMAGED', `${shown(path)}: its bytes differ from the captured ones`, {
            path,
          })
        }
      }
    }
  } finally {
    await way.close()
    await bytes.end()
  }
}

async function* hashed(pieces: AsyncIterable<Uint8Array>, hash: { update(bytes: Uint8Array): unknown }) {
  for await (const piece of pieces) {
    hash.update(piece)
    yield piece
  }
}

/** The old folder is moved into the staging folder and removed with it. In between the folder is missing, but never partial. */
async function swapFolder(root: Folder, staging: Folder, folder: string, limits: FileLimits): Promise<void> {
  const names = namesOf(folder, limits)
  const [above, staged] = [new DirectoryStack(root), new DirectoryStack(staging)]
  try {
    const place = (await above.to(names.slice(0, -1), true))!
    const name = names.at(-1)!
    await staging.takeFrom(place, name, `old-${randomBytes(8).toString('hex')}`)
    const from = await staged.to(names.slice(0, -1), false)
    if (from) await place.takeFrom(from, name, name)
  } finally {
    await above.close()
    await staged.close()
  }
}

async function moveFiles(root: Folder, staging: Folder, paths: readonly string[], limits: FileLimits): Promise<void> {
  const [to, from] = [new DirectoryStack(root), new DirectoryStack(staging)]
  try {
    for (const path of paths) {
      const names = namesOf(path, limits)
      const name = names.at(-1)!
      const [place, staged] = [await to.to(names.slice(0, -1), true), await from.to(names.slice(0, -1), false)]
      if ((await place!.look(name))?.kind === 'folder') await place!.removeEmpty(name, limits.treeDepth)
      await place!.takeFrom(staged!, name, name)
    }
  } finally {
    await to.close()
    await from.close()
  }
}

async function removeFiles(root: Folder, paths: readonly string[]): Promise<void> {
  const way = new DirectoryStack(root)
  try {
    for (const path of paths) {
      const names = path.split('/')
      await (await way.to(names.slice(0, -1), false))?.remove(names.at(-1)!)
    }
  } finally {
    await way.close()
  }
}

/** Removes the staging folder with its content. */
async function clear(root: Folder, staging: Folder): Promise<void> {
  const name = staging.path.split(/[/\\]/).at(-1)!
  await removeTree(staging)
  await staging.close()
  await root.removeEmpty(name, 1)
}

async function removeTree(folder: Folder): Promise<void> {
  const listed = await folder.list(Number.POSITIVE_INFINITY)
  for (const { name, kind } of listed?.children ?? []) {
    if (kind !== 'folder') {
      await folder.remove(name)
      continue
    }
    const below = await folder.enter(name)
    if (!below) continue
    await removeTree(below)
    await below.close()
    await folder.removeEmpty(name, 1)
  }
}

/** Reads exact lengths from a stream of pieces. */
class ByteReader {
  readonly #pieces: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array(0)

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.#pieces = stream[Symbol.asyncIterator]()
  }

  async *take(length: number): AsyncGenerator<Uint8Array> {
    for (let left = length; left > 0; ) {
      if (this.#rest.length === 0) {
        const next = await this.#pieces.next()
        if (next.done) throw new RepriseError('CHECKPOINT_DAMAGED', 'the stream of outputs ends early')
        this.#rest = next.value
      }
      const piece = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(piece.length)
      left -= piece.length
      yield piece
    }
  }

  async end(): Promise<void> {
    await this.#pieces.return?.()
  }
}
