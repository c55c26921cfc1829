// A workspace directory, captured with a turn and restored with it: contents by digest, so what did not change costs
// nothing; modes, links and deletions included; what .gitignore ignores left alone, in capture and in restore. Bounded:
// too large a file or workspace is refused before anything is written.

import { chmod, lstat, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Kernel } from '../../engine/kernel.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { entry } from './calls.ts'
import { isIgnoredBy, parseIgnore, type Rules } from './gitignore.ts'
import type { FileRecord, SessionState } from './state.ts'

export interface WorkspaceOptions {
  readonly directory: string
  /** Further patterns, as in .gitignore. */
  readonly ignore?: readonly string[]
  /** 8 MiB if left out. */
  readonly fileBytesMax?: number
  /** 256 MiB if left out. */
  readonly totalBytesMax?: number
}

export interface WorkspaceReport {
  readonly files: number
  readonly written: readonly string[]
  readonly removed: readonly string[]
  /** Bytes that were stored, or written to the directory. */
  readonly bytes: number
}

interface Found {
  readonly path: string
  readonly mode: number
  readonly bytes: number
  readonly link: string | null
}

const permissions = 0o777
const megabyte = 1024 * 1024

export async function captureFiles(
  kernel: Pick<Kernel, 'hash'>,
  open: OpenTimeline<SessionState<unknown>>,
  options: WorkspaceOptions,
): Promise<WorkspaceReport> {
  const found = await scan(options)
  checkSizes(found, options)
  const { files, contents } = open.state
  const set: [string, FileRecord][] = []
  const added = new Map<string, Uint8Array>()
  for (const { path, mode, link } of found) {
    const bytes =
      link === null ? new Uint8Array(await readFile(join(options.directory, path))) : new TextEncoder().encode(link)
    const digest = toHex(kernel.hash(bytes))
    const before = files.get(path)
    if (before?.digest === digest && before.mode === mode && (before.link ?? null) === link) continue
    set.push([path, { digest, mode, bytes: bytes.length, ...(link !== null && { link }) }])
    if (link === null && !contents.has(digest)) added.set(digest, bytes)
  }
  const there = new Set(found.map(({ path }) => path))
  const gone = [...files.keys()].filter((path) => !there.has(path))
  if (set.length > 0 || gone.length > 0) await open.write([entry('files', { set, gone, contents: [...added] })])
  const bytes = [...added.values()].reduce((sum, each) => sum + each.length, 0)
  return { files: found.length, written: set.map(([path]) => path), removed: gone, bytes }
}

/** Makes the directory what the session's state says; ignored files stay as they are. */
export async function restoreFiles(state: SessionState<unknown>, options: WorkspaceOptions): Promise<WorkspaceReport> {
  const there = new Map((await scan(options).catch(ifMissing)).map((each) => [each.path, each]))
  const removed: string[] = []
  for (const path of there.keys()) {
    if (state.files.has(path)) continue
    await rm(join(options.directory, path), { force: true })
    removed.push(path)
  }
  const written: string[] = []
  let bytes = 0
  for (const [path, file] of state.files) {
    const target = safeJoin(options.directory, path)
    if (await isSame(target, file, state, there.get(path))) continue
    await mkdir(dirname(target), { recursive: true })
    await rm(target, { force: true, recursive: true })
    if (file.link !== undefined) await symlink(file.link, target)
    else {
      const content = state.contents.get(file.digest)
      if (!content) throw new RepriseError('CHUNK_MISSING', `the content of ${path} is not there`, { path })
      await writeFile(target, content)
      await chmod(target, file.mode)
      bytes += content.length
    }
    written.push(path)
  }
  return { files: state.files.size, written, removed, bytes }
}

async function isSame(
  target: string,
  file: FileRecord,
  state: SessionState<unknown>,
  now: Found | undefined,
): Promise<boolean> {
  if (!now || now.mode !== file.mode || now.link !== (file.link ?? null)) return false
  if (now.link !== null) return true
  const content = state.contents.get(file.digest)
  return content !== undefined && now.bytes === content.length && Buffer.compare(await readFile(target), content) === 0
}

async function scan(options: WorkspaceOptions): Promise<Found[]> {
  const found: Found[] = []
  const own: Rules = parseIgnore(['.git/', ...(options.ignore ?? [])].join('\n'))
  const walk = async (
    folder: string,
    scopes: readonly { readonly base: string; readonly rules: Rules }[],
  ): Promise<void> => {
    const children = await readdir(join(options.directory, folder), { withFileTypes: true })
    const here = children.some((child) => child.name === '.gitignore' && child.isFile())
    const rules = here ? parseIgnore(await readFile(join(options.directory, folder, '.gitignore'), 'utf8')) : []
    const all = here ? [...scopes, { base: folder, rules }] : scopes
    for (const child of children.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = folder === '' ? child.name : `${folder}/${child.name}`
      if (isIgnored(path, child.isDirectory(), all)) continue
      if (child.isDirectory()) await walk(path, all)
      else if (child.isFile() || child.isSymbolicLink()) found.push(await look(options.directory, path))
    }
  }
  await walk('', [{ base: '', rules: own }])
  return found
}

/** The innermost file that says something decides. */
function isIgnored(
  path: string,
  isFolder: boolean,
  scopes: readonly { readonly base: string; readonly rules: Rules }[],
): boolean {
  for (const { base, rules } of [...scopes].reverse()) {
    const verdict = isIgnoredBy(rules, base === '' ? path : path.slice(base.length + 1), isFolder)
    if (verdict !== null) return verdict
  }
  return false
}

async function look(directory: string, path: string): Promise<Found> {
  const stats = await lstat(join(directory, path))
  const link = stats.isSymbolicLink() ? await readlink(join(directory, path)) : null
  return { path, mode: link === null ? stats.mode & permissions : 0, bytes: stats.size, link }
}

function checkSizes(found: readonly Found[], options: WorkspaceOptions): void {
  const { fileBytesMax = 8 * megabyte, totalBytesMax = 256 * megabyte } = options
  const large = found.find((each) => each.bytes > fileBytesMax)
  if (large) {
    throw new RepriseError(
      'LIMIT_EXCEEDED',
      `${large.path} has ${large.bytes} bytes, more than ${fileBytesMax}: ignore it, or allow more`,
      {
        path: large.path,
      },
    )
  }
  const total = found.reduce((sum, each) => sum + each.bytes, 0)
  if (total > totalBytesMax) {
    throw new RepriseError('LIMIT_EXCEEDED', `the workspace has ${total} bytes, more than ${totalBytesMax}`, { total })
  }
}

/** Paths come from history, which may have been imported: none may leave the directory. */
function safeJoin(directory: string, path: string): string {
  const parts = path.split('/')
  if (
    path.startsWith('/') ||
    parts.some((part) => part === '..' || part === '' || part.includes('\0') || (sep !== '/' && part.includes(sep)))
  ) {
    throw new RepriseError('INVALID_ARGUMENT', 'a file of the workspace lies outside of it', {
      path: path.slice(0, 80),
    })
  }
  return join(directory, path)
}

function ifMissing(error: unknown): Found[] {
  if ((error as { code?: unknown }).code === 'ENOENT') return []
  throw error
}
