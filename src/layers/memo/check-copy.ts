// Finds undeclared inputs where tracing is not available: the command runs in a copy of its directory that contains only its
// declared files. If its result differs, it runs with fewer and fewer of the other files until the needed ones are found. A
// file that does not affect the result is not found; nor is one that the command reaches by an absolute path.

import { constants, lstatSync, readlinkSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, sep } from 'node:path'
import { defaultLimits } from '../../core/limits.ts'
import type { CommandOptions } from './command-options.ts'
import { affectingElements } from './delta-debugging.ts'
import { byFolder } from './input-files.ts'
import { anchoredAll } from './patterns.ts'
import { matching } from './walk.ts'

/** Null: the result differs in any copy, regardless of its files. */
export async function readsInCopy(
  options: CommandOptions,
  directory: string,
  /** Runs the command in this directory, and returns whether its result is the same. */
  isSame: (directory: string) => Promise<boolean>,
): Promise<string[] | null> {
  const filesOf = async (patterns: readonly string[], of: 'inputs' | 'outputs') => {
    const paths: string[] = []
    const found = matching(directory, anchoredAll(patterns), defaultLimits, { of, passesLinks: true })
    for await (const path of found) paths.push(path)
    return paths
  }
  const groups = byFolder(options.inputs)
  const declared = await filesOf(groups.get('')!, 'inputs')
  const above: string[] = []
  for (const [up, patterns] of groups) {
    if (up === '') continue
    const found = matching(join(directory, up), anchoredAll(patterns), defaultLimits, {
      of: 'inputs',
      passesLinks: true,
    })
    for await (const path of found) above.push(up + path)
  }
  // Recreates as many parent folders above the copy as the patterns refer to.
  const names = directory.split(sep).filter((name) => name !== '')
  const highest = Math.max(...[...groups.keys()].map((up) => up.length / '../'.length))
  const known = new Set([...declared, ...(await filesOf(options.outputs ?? [], 'outputs'))])
  const others = (await filesOf(['**'], 'inputs')).filter((path) => !known.has(path)).sort()
  const isSameWith = async (paths: readonly string[]) => {
    const folder = await mkdtemp(join(tmpdir(), 'reprise-check-'))
    try {
      const copy = join(folder, ...names.slice(-highest - 1))
      await mkdir(copy, { recursive: true })
      await copyInto(directory, copy, [...declared, ...above, ...paths])
      return await isSame(copy)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
  if (!(await isSameWith(others))) return null
  return await affectingElements(others, (without) => isSameWith(others.filter((path) => !without.has(path))))
}

/** Installed packages are linked: they are many, and a command that reads them declares the lock file. */
async function copyInto(from: string, to: string, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const [source, target] = [join(from, path), join(to, path)]
    const stats = lstatSync(source, { throwIfNoEntry: false })
    if (!stats) continue
    await mkdir(dirname(target), { recursive: true })
    if (stats.isSymbolicLink()) await symlink(readlinkSync(source), target)
    else if (stats.isFile()) await copyFile(source, target, constants.COPYFILE_FICLONE)
  }
  const packages = join(from, 'node_modules')
  const isThere = lstatSync(packages, { throwIfNoEntry: false }) !== undefined
  if (isThere && !paths.some((path) => path === 'node_modules' || path.startsWith('node_modules/')))
    await symlink(packages, join(to, 'node_modules'))
}
