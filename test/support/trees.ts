// Random trees with links, the changes that an agent may make in them, and a picture of a tree that follows no link. Beside each
// workspace is a canary: a directory that no operation may change.

import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'

export interface Place {
  readonly folder: string
  readonly workspace: string
  readonly outside: string
}

/** The canary has the names that workspaces have, so that a followed link always hits something. */
export function makePlace(): Place {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-tree-'))
  const place = { folder, workspace: join(folder, 'workspace'), outside: join(folder, 'outside') }
  mkdirSync(place.workspace)
  for (const path of ['a', 'b/a', 'b/b/c', 'c/a/b', 'c/b', 'd']) {
    mkdirSync(dirname(join(place.outside, path)), { recursive: true })
    writeFileSync(join(place.outside, path), `canary ${path}`)
  }
  return place
}

export type Action =
  | { readonly kind: 'write'; readonly path: string; readonly text: string }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }
  | { readonly kind: 'folder' | 'remove' | 'hard link' | 'swap'; readonly path: string }
  | { readonly kind: 'chmod'; readonly path: string; readonly mode: number }

const name = fc.constantFrom('a', 'b', 'c')
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
const target = fc.constantFrom(
  ...[
    'a',
    'b/a',
    '.',
    '..',
    '../outside',
    '../outside/b',
    '../../outside',
    'OUTSIDE',
    'OUTSIDE/c',
    'nowhere',
    './a/../b',
  ],
)

export const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('write' as const), path, text: fc.string({ maxLength: 4 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('link' as const), path, target }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom('folder', 'remove', 'hard link', 'swap'), path }) },
  fc.record({ kind: fc.constant('chmod' as const), path, mode: fc.constantFrom(0o600, 0o644, 0o755, 0o4755) }),
) as fc.Arbitrary<Action>

/** Does it in the workspace, never through a link: an action on a path with a link on the way is passed over. */
export function act(place: Place, what: Action): void {
  const full = join(place.workspace, what.path)
  if (!isPlain(place.workspace, what.path)) return
  const now = kindOf(full)
  switch (what.kind) {
    case 'write':
      put(full, (at) => writeFileSync(at, what.text))
      break
    case 'link':
      put(full, (at) => symlinkSync(what.target.replace('OUTSIDE', place.outside), at))
      break
    case 'hard link':
      put(full, (at) => linkSync(join(place.outside, 'd'), at))
      break
    case 'folder':
      put(full, (at) => mkdirSync(at))
      break
    case 'remove':
      rmSync(full, { recursive: true, force: true })
      break
    case 'swap': {
      // The directory goes elsewhere in the workspace; a link to the canary takes its name.
      if (now !== 'folder') break
      rmSync(join(place.workspace, 'moved'), { recursive: true, force: true })
      renameSync(full, join(place.workspace, 'moved'))
      symlinkSync(place.outside, full)
      break
    }
    case 'chmod':
      if (now === 'file' && lstatSync(full).nlink === 1) chmodSync(full, what.mode)
  }
}

function put(full: string, make: (path: string) => void): void {
  rmSync(full, { recursive: true, force: true })
  mkdirSync(dirname(full), { recursive: true })
  make(full)
}

/** Whether every name on the way is a directory, or not there. A file on the way makes it not plain either. */
function isPlain(root: string, path: string): boolean {
  const parts = path.split('/').slice(0, -1)
  return parts.every((_part, i) => {
    const kind = kindOf(join(root, ...parts.slice(0, i + 1)))
    return kind === 'folder' || kind === null
  })
}

function kindOf(full: string): 'file' | 'folder' | 'link' | 'other' | null {
  const stats = lstatSync(full, { throwIfNoEntry: false })
  if (!stats) return null
  if (stats.isSymbolicLink()) return 'link'
  return stats.isDirectory() ? 'folder' : stats.isFile() ? 'file' : 'other'
}

/** Files and links with all visible properties; directories only on request. */
export function picture(root: string, options: { readonly hasFolders?: boolean } = {}): Record<string, string> {
  const seen: Record<string, string> = {}
  const walk = (base: string) => {
    for (const child of readdirSync(join(root, base)).sort()) {
      const path = base === '' ? child : `${base}/${child}`
      const full = join(root, path)
      const kind = kindOf(full)
      if (kind === 'folder') {
        if (options.hasFolders) seen[path] = 'folder'
        walk(path)
      } else if (kind === 'link') seen[path] = `link ${readlinkSync(full)}`
      else if (kind === 'file')
        seen[path] = `${(lstatSync(full).mode & 0o777).toString(8)} ${readFileSync(full, 'utf8')}`
      else seen[path] = 'other'
    }
  }
  walk('')
  return seen
}
