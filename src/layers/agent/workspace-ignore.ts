// Ignored files of a workspace, by the options and the .gitignore files on the path. A restore applies two sets of
// rules, those in the directory now and the recorded ones: a file that either ignores is not deleted, because the
// capture may not have included it.

import { RepriseError } from '../../core/errors.ts'
import { shown } from '../../core/file-tree-path.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Folder } from '../../engine/base/file-tree/folder.ts'
import { isMatchedBy, parsePatterns, type Rules } from '../../engine/base/file-tree/patterns.ts'
import type { Choice } from '../../engine/base/file-tree/scan.ts'
import type { SessionState } from './state.ts'

export interface WorkspaceOptions {
  /** Must not be, or contain, your home directory. If it is a link, its target must be the same as at the first capture. */
  readonly directory: string
  /** Further patterns, as in .gitignore. `.git` and `.reprise` are ignored unless a pattern includes them again. */
  readonly ignore?: readonly string[]
  /** Default: 8 MiB. */
  readonly fileBytesMax?: number
  /** Default: 256 MiB. */
  readonly totalBytesMax?: number
}

const known = namesOf<WorkspaceOptions>()('directory ignore fileBytesMax totalBytesMax')

interface Layer {
  readonly base: string
  readonly rules: Rules
}

/** From the root down: the innermost file with a matching rule decides. */
type Layers = readonly Layer[]

interface Scope {
  readonly now: Layers
  readonly recorded: Layers
}

const ignoreFile = '.gitignore'
const ignoreBytesMax = 256 * 1024

/** `state` is the state to restore; null for a capture, where only the directory counts. */
export function ignoring(options: WorkspaceOptions, state: SessionState<unknown> | null): Choice<Scope> {
  const own: Layers = [{ base: '', rules: rulesOf(options) }]
  return {
    start: { now: own, recorded: own },
    async descend(scope, path, folder, children) {
      const isThere = children.some((child) => child.name === ignoreFile && child.kind === 'file')
      const shownPath = path === '' ? ignoreFile : `${path}/${ignoreFile}`
      const bytes = isThere ? await readRules(shownPath, folder) : null
      const before = state && recordedRules(state, shownPath)
      return {
        now: bytes ? [...scope.now, { base: path, rules: parse(bytes, shownPath) }] : scope.now,
        recorded: before ? [...scope.recorded, { base: path, rules: parse(before, shownPath) }] : scope.recorded,
      }
    },
    isLeftAlone: ({ now, recorded }, path, isFolder) =>
      isIgnored(now, path, isFolder) || (state !== null && isIgnored(recorded, path, isFolder)),
  }
}

/** Whether the options exclude a file, independent of any .gitignore. */
export function isIgnoredByOptions(options: WorkspaceOptions, path: string): boolean {
  const layers = [{ base: '', rules: rulesOf(options) }]
  const names = path.split('/')
  return names.some((_name, i) => isIgnored(layers, names.slice(0, i + 1).join('/'), i < names.length - 1))
}

/** A store inside the workspace is neither captured nor overwritten by a restore. */
function rulesOf(options: WorkspaceOptions): Rules {
  checkOptions('workspace', options, known)
  return parsePatterns(['.git/', '.reprise/', ...(options.ignore ?? [])].join('\n'))
}

async function readRules(path: string, folder: Folder): Promise<Uint8Array | null> {
  const now = await folder.look(ignoreFile)
  if (now?.kind === 'file' && now.bytes > ignoreBytesMax) {
    throw new RepriseError('LIMIT_EXCEEDED', `${shown(path)} has more than ${ignoreBytesMax} bytes`, { path })
  }
  return await folder.read(ignoreFile, ignoreBytesMax)
}

function recordedRules(state: SessionState<unknown>, path: string): Uint8Array | null {
  const file = state.files.get(path)
  const content = file && file.link === undefined ? state.contents.get(file.digest) : undefined
  return content instanceof Uint8Array ? content : null
}

function parse(bytes: Uint8Array, path: string): Rules {
  return parsePatterns(new TextDecoder().decode(bytes), path)
}

function isIgnored(layers: Layers, path: string, isFolder: boolean): boolean {
  for (let i = layers.length - 1; i >= 0; i--) {
    const { base, rules } = layers[i]!
    const verdict = isMatchedBy(rules, base === '' ? path : path.slice(base.length + 1), isFolder)
    if (verdict !== null) return verdict
  }
  return false
}
