// A workspace directory, captured with a turn and restored with it. Contents are stored by digest, so unchanged files
// cost nothing; modes, links and deletions are included; ignored files (.gitignore) are skipped, in capture and in
// restore. A file or workspace above the limits is refused before anything is written. Files are accessed through
// engine/base/file-tree: no link is followed, and nothing outside of the directory is read, written or deleted.

import { resolve } from 'node:path'
import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { shown, unsafe } from '../../core/file-tree-path.ts'
import { DirectoryStack } from '../../engine/base/file-tree/directory-stack.ts'
import { blocked, type Folder, openRoot } from '../../engine/base/file-tree/folder.ts'
import { restoreTree, type Wanted } from '../../engine/base/file-tree/restore.ts'
import { type Found, scanTree } from '../../engine/base/file-tree/scan.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { entry, type FileRecord, type SessionState } from './state.ts'
import { ignoring, isIgnoredByOptions, type WorkspaceOptions } from './workspace-ignore.ts'

export interface WorkspaceReport {
  readonly files: number
  readonly written: readonly string[]
  readonly removed: readonly string[]
  /** Bytes that were stored, or written to the directory. */
  readonly bytes: number
  /**
   * Files that a capture cannot store and a restore does not touch: devices, pipes, sockets, and names that are not valid
   * text.
   */
  readonly skipped: readonly string[]
}

interface Captured {
  readonly path: string
  readonly record: FileRecord
  /** Null for a link. */
  readonly content: Uint8Array | null
}

type WorkspaceKernel = Pick<Kernel, 'hash' | 'limits' | 'planted'>

const megabyte = 1024 * 1024

export async function captureFiles(
  kernel: WorkspaceKernel,
  open: OpenTimeline<SessionState<unknown>>,
  options: WorkspaceOptions,
): Promise<WorkspaceReport> {
  const root = await openRoot(options.directory, { planted: kernel.planted })
  try {
    const given = resolve(options.directory)
    checkRoot(open.state, given, root.path)
    const scan = await scanTree(root, ignoring(options, null), kernel.limits)
    const { files, contents, roots } = open.state
    const isNewRoot = roots?.[given] === undefined
    const there = new Set<string>()
    const set: [string, FileRecord][] = []
    const added = new Map<string, Uint8Array>()
    for await (const { path, record, content } of readAll(kernel, root, scan.found, options)) {
      there.add(path)
      const before = files.get(path)
      if (before && isSameRecord(before, record)) continue
      set.push([path, record])
      if (content && !contents.has(record.digest)) added.set(record.digest, content)
    }
    const gone = [...files.keys()].filter((path) => !there.has(path))
    if (set.length > 0 || gone.length > 0 || isNewRoot) {
      const found = isNewRoot && { root: [given, root.path] as const }
      await open.write([entry('files', { set, gone, contents: [...added], ...found })])
    }
    const bytes = [...added.values()].reduce((sum, each) => sum + each.length, 0)
    const skipped = scan.leftAlone.filter(({ why }) => why === 'special').map(({ path }) => path)
    return { files: there.size, written: set.map(([path]) => path), removed: gone, bytes, skipped }
  } finally {
    await root.close()
  }
}

/** Restores the directory to the session's state; ignored files stay as they are. */
export async function restoreFiles(
  kernel: WorkspaceKernel,
  state: SessionState<unknown>,
  options: WorkspaceOptions,
): Promise<WorkspaceReport> {
  const wanted = new Map<string, Wanted>()
  for (const [path, file] of state.files) {
    if (isIgnoredByOptions(options, path)) throw unsafe(path, 'files there are never captured')
    wanted.set(path, wantedFile(kernel, path, file, state))
  }
  const root = await openRoot(options.directory, { create: true, planted: kernel.planted })
  try {
    checkRoot(state, resolve(options.directory), root.path)
    const report = await restoreTree(root, wanted, ignoring(options, state), kernel.limits)
    return { files: wanted.size, ...report, skipped: [] }
  } finally {
    await root.close()
  }
}

/** Called before a rollback, so that a session is not rolled back if its files cannot be restored. */
export async function checkWorkspace(
  kernel: WorkspaceKernel,
  state: SessionState<unknown>,
  options: WorkspaceOptions,
): Promise<void> {
  const root = await openRoot(options.directory, { create: true, planted: kernel.planted })
  try {
    checkRoot(state, resolve(options.directory), root.path)
  } finally {
    await root.close()
  }
}

/**
 * The caller chooses the name, but an agent with access to the directory may have replaced it with a link, so the
 * target must not change. For a workspace that was moved on purpose, pass the new path.
 */
function checkRoot({ roots }: SessionState<unknown>, given: string, real: string): void {
  const before = roots && Object.hasOwn(roots, given) ? roots[given] : undefined
  if (before === undefined || before === real) return
  throw blocked(given, `it led to ${shown(before)} when it was captured, and leads to ${shown(real)} now`)
}

/** The record may come from an import, so its fields are checked before use. */
function wantedFile(kernel: WorkspaceKernel, path: string, file: FileRecord, state: SessionState<unknown>): Wanted {
  const { digest, mode, link } = file as { readonly [K in keyof FileRecord]: unknown }
  if (typeof link === 'string') return { kind: 'link', target: link }
  if (link !== undefined || typeof digest !== 'string' || !Number.isSafeInteger(mode)) {
    throw unsafe(path, 'its record does not describe a file')
  }
  const content: unknown = state.contents.get(digest)
  if (!(content instanceof Uint8Array)) {
    throw new RepriseError('CHUNK_MISSING', `the content of ${shown(path)} is missing`, { path })
  }
  if (toHex(kernel.hash(content)) !== digest) {
    throw new RepriseError('CHUNK_DAMAGED', `the content of ${shown(path)} does not match its digest`, { path })
  }
  return { kind: 'file', mode: mode as number, content }
}

/** Files that vanish during the read are skipped; files that grow beyond the limits are refused. */
async function* readAll(
  kernel: WorkspaceKernel,
  root: Folder,
  found: readonly Found[],
  options: WorkspaceOptions,
): AsyncGenerator<Captured> {
  const { fileBytesMax = 8 * megabyte, totalBytesMax = 256 * megabyte } = options
  const way = new DirectoryStack(root)
  let total = 0
  try {
    for (const { path, target } of found) {
      const names = path.split('/')
      const name = names.at(-1)!
      const folder = await way.to(names.slice(0, -1), false)
      const now = folder && (await folder.look(name))
      if (!folder || now?.kind !== (target === null ? 'file' : 'link')) continue
      if (now.bytes > fileBytesMax) throw tooLarge(path, now.bytes, fileBytesMax)
      total += now.bytes
      if (total > totalBytesMax) {
        throw new RepriseError('LIMIT_EXCEEDED', `the workspace has more than ${totalBytesMax} bytes`, { total })
      }
      const content = target === null ? await folder.read(name, now.bytes) : new TextEncoder().encode(target)
      if (!content) continue
      const record = {
        digest: toHex(kernel.hash(content)),
        mode: target === null ? now.mode : 0,
        bytes: content.length,
      }
      yield target === null ? { path, record, content } : { path, record: { ...record, link: target }, content: null }
    }
  } finally {
    await way.close()
  }
}

function isSameRecord(a: FileRecord, b: FileRecord): boolean {
  return a.digest === b.digest && a.mode === b.mode && a.link === b.link
}

function tooLarge(path: string, bytes: number, bytesMax: number): RepriseError {
  return new RepriseError(
    'LIMIT_EXCEEDED',
    `${shown(path)} has ${bytes} bytes, more than ${bytesMax}: ignore the file, or raise the limit`,
    { path },
  )
}
