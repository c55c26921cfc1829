// Lists a tree: files and links, and the excluded names. Directories are entered one inside the other, never
// by a path, and links are data. Bounded by the limits: a tree that is too deep or too large is refused.

import { RepriseError } from '../../../core/errors.ts'
import { isTemporary, shown, tooManyNames } from '../../../core/file-tree-path.ts'
import type { Limits } from '../../../core/limits.ts'
import type { Child, Folder } from './folder.ts'

export type TreeLimits = Pick<Limits, 'treeDepth' | 'treeNames'>

/** Decides which names are excluded. Each directory has a scope, derived from that of its parent. */
export interface Choice<Scope> {
  readonly start: Scope
  descend(scope: Scope, path: string, folder: Folder, children: readonly Child[]): Promise<Scope>
  isLeftAlone(scope: Scope, path: string, isFolder: boolean): boolean
}

export interface Found {
  readonly path: string
  /** The target of a link; null for a file. */
  readonly target: string | null
}

export interface Scan {
  readonly found: readonly Found[]
  /**
   * By choice (`ignored`), or because they cannot be captured (`special`: devices, pipes, sockets, names and targets
   * that are not valid text).
   */
  readonly leftAlone: readonly {
    readonly path: string
    readonly why: 'ignored' | 'special'
    readonly isFolder: boolean
  }[]
  /** Temporary files of an interrupted restore. */
  readonly leftovers: readonly string[]
}

export async function scanTree<Scope>(root: Folder, choice: Choice<Scope>, limits: TreeLimits): Promise<Scan> {
  const found: Found[] = []
  const leftAlone: { path: string; why: 'ignored' | 'special'; isFolder: boolean }[] = []
  const leftovers: string[] = []
  let namesLeft = limits.treeNames
  const walk = async (folder: Folder, base: string, depth: number, above: Scope): Promise<void> => {
    const listed = await folder.list(namesLeft)
    if (!listed) throw tooManyNames(limits)
    const { children, unreadable } = listed
    namesLeft -= children.length + unreadable
    if (unreadable > 0) leftAlone.push({ path: `${base}\u{FFFD}`, why: 'special', isFolder: false })
    const scope = await choice.descend(above, base.slice(0, -1), folder, children)
    for (const { name, kind } of children) {
      const path = base + name
      if (isTemporary(name) && kind !== 'folder') leftovers.push(path)
      else if (choice.isLeftAlone(scope, path, kind === 'folder')) {
        leftAlone.push({ path, why: 'ignored', isFolder: kind === 'folder' })
      } else if (kind === 'folder') await walkInto(folder, name, path, depth + 1, scope)
      else if (kind === 'other') leftAlone.push({ path, why: 'special', isFolder: false })
      else if (kind === 'file') found.push({ path, target: null })
      else {
        const target = await folder.linkTarget(name)
        if (target === null) leftAlone.push({ path, why: 'special', isFolder: false })
        else found.push({ path, target })
      }
    }
  }
  const walkInto = async (folder: Folder, name: string, path: string, depth: number, scope: Scope): Promise<void> => {
    if (depth > limits.treeDepth) {
      throw new RepriseError(
        'LIMIT_EXCEEDED',
        `${shown(path)} is more than ${limits.treeDepth} directories deep (treeDepth)`,
        { path: shown(path) },
      )
    }
    const below = await folder.enter(name)
    if (!below) return
    try {
      await walk(below, `${path}/`, depth, scope)
    } finally {
      await below.close()
    }
  }
  await walk(root, '', 0, choice.start)
  return { found, leftAlone, leftovers }
}
