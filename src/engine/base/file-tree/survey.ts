// The stamps of a tree's files at one moment, without their content: name, identity, size and times. Two equal surveys
// some time apart prove that nothing was written in between, and that any later write will be detected.

import type { BigIntStats } from 'node:fs'
import { DirectoryStack } from './directory-stack.ts'
import type { Folder } from './folder.ts'
import { type Choice, scanTree, type TreeLimits } from './scan.ts'

export interface Stamp {
  readonly device: bigint
  readonly inode: bigint
  /** Creation time, where the system stores it: the inode number of a deleted file is reused. */
  readonly bornNs: bigint
  readonly bytes: number
  readonly mode: number
  /** Nanoseconds since 1970, by the clock of the file system: content change, and any change of the inode. */
  readonly modifiedNs: bigint
  readonly changedNs: bigint
  /** The target of a link; null for a file. */
  readonly target: string | null
}

export interface Survey {
  /** In path order. */
  readonly files: ReadonlyMap<string, Stamp>
  /** Names that cannot be captured: devices, pipes, sockets, names that are not valid text. */
  readonly special: readonly string[]
}

export async function surveyTree<Scope>(root: Folder, choice: Choice<Scope>, limits: TreeLimits): Promise<Survey> {
  const scan = await scanTree(root, choice, limits)
  const files = new Map<string, Stamp>()
  const way = new DirectoryStack(root)
  try {
    for (const { path, target } of scan.found) {
      const names = path.split('/')
      const folder = await way.to(names.slice(0, -1), false)
      const stats = await folder?.stamp(names.at(-1)!)
      if (stats && (target === null ? stats.isFile() : stats.isSymbolicLink())) files.set(path, stampOf(stats, target))
    }
  } finally {
    await way.close()
  }
  return { files, special: scan.leftAlone.filter(({ why }) => why === 'special').map(({ path }) => path) }
}

export function stampOf(stats: BigIntStats, target: string | null = null): Stamp {
  return {
    device: stats.dev,
    inode: stats.ino,
    bornNs: stats.birthtimeNs,
    bytes: Number(stats.size),
    mode: Number(stats.mode) & 0o777,
    modifiedNs: stats.mtimeNs,
    changedNs: stats.ctimeNs,
    target,
  }
}

export function isSameStamp(a: Stamp | undefined, b: Stamp | undefined): boolean {
  if (!a || !b) return a === b
  return (
    a.inode === b.inode &&
    a.device === b.device &&
    a.bornNs === b.bornNs &&
    a.bytes === b.bytes &&
    a.mode === b.mode &&
    a.modifiedNs === b.modifiedNs &&
    a.changedNs === b.changedNs &&
    a.target === b.target
  )
}

export function isSameSurvey(a: Survey, b: Survey): boolean {
  if (a.files.size !== b.files.size) return false
  for (const [path, stamp] of a.files) if (!isSameStamp(stamp, b.files.get(path))) return false
  return true
}

const secondNs = 1_000_000_000n

/**
 * The minimum time between two equal surveys before a later write is sure to show. File system clocks tick every ten
 * milliseconds or faster; a file system with a resolution of one second (two, on some) is recognised by times without
 * fractions.
 */
export function settleMsOf({ files }: Survey): number {
  for (const { changedNs } of files.values()) if (changedNs % secondNs !== 0n) return 40
  return files.size === 0 ? 40 : 2_100
}
