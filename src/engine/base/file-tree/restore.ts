// Restores a tree to its recorded content. Checks come first: the recorded paths, and whether an excluded name blocks
// one of them; then unrecorded files are removed and recorded files written. Changes by other processes during the
// restore are rechecked, a bounded number of times.

import { createHash } from 'node:crypto'
import type { RepriseError } from '../../../core/errors.ts'
import { checkPaths, namesOf, unsafe } from '../../../core/file-tree-path.ts'
import { DirectoryStack } from './directory-stack.ts'
import { blocked, type Folder } from './folder.ts'
import { type Choice, type Scan, scanTree, type TreeLimits } from './scan.ts'

/** A recorded file with its content, a large file whose content is read when needed, or a link with its target. */
export type Wanted =
  | { readonly kind: 'file'; readonly mode: number; readonly content: Uint8Array }
  | LargeFile
  | { readonly kind: 'link'; readonly target: string }

export interface LargeFile {
  readonly kind: 'large'
  readonly mode: number
  readonly bytes: number
  readonly modifiedMs: number
  /** The digest of the whole content, in hexadecimal. */
  readonly sha256: string
  pieces(): AsyncIterable<Uint8Array>
}

export interface RestoreReport {
  readonly written: readonly string[]
  readonly removed: readonly string[]
  readonly bytes: number
}

const roundsMax = 4
const targetLengthMax = 4096

export async function restoreTree<Scope>(
  root: Folder,
  wanted: ReadonlyMap<string, Wanted>,
  choice: Choice<Scope>,
  limits: TreeLimits,
): Promise<RestoreReport> {
  await checkWanted(root, wanted, limits)
  const written = new Set<string>()
  const removed = new Set<string>()
  let bytes = 0
  for (let round = 1; ; round++) {
    const scan = await scanTree(root, choice, limits)
    checkRoom(wanted, scan)
    const unwanted = scan.found.filter(({ path }) => !wanted.has(path)).map(({ path }) => path)
    const isSteady = await removeAll(root, [...unwanted, ...scan.leftovers])
    for (const path of unwanted) removed.add(path)
    for (const [path, length] of await writeAll(root, wanted, limits)) {
      written.add(path)
      bytes += length
    }
    if (isSteady) return { written: [...written], removed: [...removed], bytes }
    if (round >= roundsMax) throw blocked(root.path, 'another process keeps changing it while it is restored')
  }
}

async function checkWanted(root: Folder, wanted: ReadonlyMap<string, Wanted>, limits: TreeLimits): Promise<void> {
  const clashing = checkPaths(wanted.keys(), limits)
  for (const [path, file] of wanted) {
    if (file.kind === 'link' && !isTarget(file.target))
      throw unsafe(path, 'the recorded target is not a valid link target')
  }
  if (clashing.length > 0 && !(await root.isCaseSensitive())) {
    throw unsafe(clashing[0]!, 'another recorded path differs only in case, and the file system treats them as one')
  }
}

/** The target may point anywhere: nothing follows it. */
function isTarget(target: string): boolean {
  return target !== '' && target.length <= targetLengthMax && !/[\0\p{Surrogate}]/u.test(target)
}

/**
 * Refuses the restore if an excluded name occupies the path of a file: nothing excluded is deleted, and no tree is left half
 * restored.
 */
function checkRoom(wanted: ReadonlyMap<string, Wanted>, scan: Scan): void {
  for (const { path, isFolder } of scan.leftAlone) {
    for (let end = path.indexOf('/'); end >= 0; end = path.indexOf('/', end + 1)) {
      if (wanted.has(path.slice(0, end))) throw inTheWay(path.slice(0, end), path)
    }
    if (isFolder && wanted.has(path)) throw inTheWay(path, path)
  }
}

function inTheWay(path: string, held: string): RepriseError {
  return blocked(path, `a file belongs there, and ${held} is left alone because it is ignored or cannot be captured`)
}

/** False: a directory had disappeared, so another process is changing the tree. */
async function removeAll(root: Folder, paths: readonly string[]): Promise<boolean> {
  let isSteady = true
  const way = new DirectoryStack(root)
  try {
    for (const path of paths) {
      const names = path.split('/')
      const folder = await way.to(names.slice(0, -1), false)
      if (!folder || !(await folder.remove(names.at(-1)!))) isSteady = false
    }
  } finally {
    await way.close()
  }
  return isSteady
}

async function writeAll(
  root: Folder,
  wanted: ReadonlyMap<string, Wanted>,
  limits: TreeLimits,
): Promise<(readonly [string, number])[]> {
  const written: (readonly [string, number])[] = []
  const way = new DirectoryStack(root)
  try {
    for (const [path, file] of wanted) {
      const names = namesOf(path, limits)
      const name = names.at(-1)!
      const folder = (await way.to(names.slice(0, -1), true))!
      if (await isSame(folder, name, file)) continue
      if ((await folder.look(name))?.kind === 'folder') await folder.removeEmpty(name, limits.treeDepth)
      written.push([path, await writeOne(folder, name, file)])
    }
  } finally {
    await way.close()
  }
  return written
}

async function writeOne(folder: Folder, name: string, file: Wanted): Promise<number> {
  if (file.kind === 'link') {
    await folder.link(name, file.target)
    return 0
  }
  if (file.kind === 'file') {
    await folder.write(name, file.content, file.mode)
    return file.content.length
  }
  await folder.writeFrom(name, file.pieces(), file)
  return file.bytes
}

async function isSame(folder: Folder, name: string, file: Wanted): Promise<boolean> {
  const now = await folder.look(name)
  if (now?.kind !== (file.kind === 'link' ? 'link' : 'file')) return false
  if (file.kind === 'link') return (await folder.linkTarget(name)) === file.target
  if (now.mode !== (file.mode & 0o777)) return false
  if (file.kind === 'large') return now.bytes === file.bytes && (await isSameLarge(folder, name, file))
  const content = now.bytes === file.content.length ? await folder.read(name, file.content.length) : null
  return content !== null && Buffer.compare(content, file.content) === 0
}

/** Programs find the newest file by its time: a file with another modification time is written again. */
async function isSameLarge(folder: Folder, name: string, { modifiedMs, sha256 }: LargeFile): Promise<boolean> {
  const file = await folder.openFile(name)
  if (!file) return false
  try {
    if (Math.abs((await file.stat()).mtimeMs - modifiedMs) >= 1) return false
    const hash = createHash('sha256')
    for await (const piece of file.createReadStream({ autoClose: false })) hash.update(piece)
    return hash.digest('hex') === sha256
  } finally {
    await file.close()
  }
}
