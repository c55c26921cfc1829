// A folder descriptor against a process that swaps directories for links at the worst moment: after it was entered, before each
// operation. By descriptor the operation happens in the entered directory; by path it is refused.

import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isReprise } from '../../src/core/errors.ts'
import { checkPaths } from '../../src/core/file-tree-path.ts'
import { defaultLimits } from '../../src/core/limits.ts'
import { type Folder, openRoot } from '../../src/engine/base/file-tree/folder.ts'
import { restoreTree, type Wanted } from '../../src/engine/base/file-tree/restore.ts'
import { type Choice, scanTree } from '../../src/engine/base/file-tree/scan.ts'
import { makePlace, type Place, picture } from '../support/trees.ts'

const isLinux = process.platform === 'linux'
if (!isLinux) console.log('trees by descriptor: skipped, only Linux has /proc/self/fd')

const code = (expected: string) => expect.objectContaining({ code: expected })
const bytes = new TextEncoder().encode('new')
const all: Choice<null> = { start: null, descend: async () => null, isLeftAlone: () => false }
const file = (text: string): Wanted => ({ kind: 'file', mode: 0o644, content: new TextEncoder().encode(text) })

let place: Place
let before: Record<string, string>
beforeEach(() => {
  place = makePlace()
  before = picture(place.outside, { hasFolders: true })
})
afterEach(() => rmSync(place.folder, { recursive: true, force: true }))

/** Every way to change something by name in a folder. */
const changes: readonly (readonly [string, (folder: Folder) => Promise<unknown>])[] = [
  ['write over a file', (folder) => folder.write('a', bytes, 0o644)],
  ['write a new file', (folder) => folder.write('new', bytes, 0o644)],
  ['put a link', (folder) => folder.link('a', 'b')],
  ['remove a file', (folder) => folder.remove('a')],
  ['make a directory', async (folder) => (await folder.make('made')).close()],
  ['make a directory where a file is', async (folder) => (await folder.make('d')).close()],
  ['remove empty directories', (folder) => folder.removeEmpty('empty', 10)],
]

async function enterThenSwap(isHeld: boolean, planted: readonly string[] = []): Promise<[Folder, Folder]> {
  const inside = join(place.workspace, 'dir')
  mkdirSync(join(inside, 'empty'), { recursive: true })
  mkdirSync(join(place.outside, 'empty'))
  before = picture(place.outside, { hasFolders: true })
  for (const name of ['a', 'd']) writeFileSync(join(inside, name), 'mine')
  const root = await openRoot(place.workspace, { isHeld, planted: new Set(planted) })
  const folder = (await root.enter('dir'))!
  renameSync(inside, join(place.workspace, 'moved'))
  symlinkSync(place.outside, inside)
  return [root, folder]
}

describe('G15 a folder that was swapped for a link after it was entered', () => {
  it.skipIf(!isLinux).each(changes)('by descriptor: %s stays in it', async (_name, change) => {
    const [root, folder] = await enterThenSwap(true)
    await change(folder)
    expect(picture(place.outside, { hasFolders: true })).toEqual(before)
    await folder.close()
    await root.close()
  })

  it.each(changes)('by path: %s is refused', async (_name, change) => {
    const [root, folder] = await enterThenSwap(false)
    await expect(change(folder)).rejects.toEqual(code('TREE_BLOCKED'))
    expect(picture(place.outside, { hasFolders: true })).toEqual(before)
    await folder.close()
    await root.close()
  })

  it.each(changes)('the planted bug that follows links is seen by: %s', async (_name, change) => {
    const [root, folder] = await enterThenSwap(true, ['tree-follows-links'])
    await change(folder)
    expect(picture(place.outside, { hasFolders: true })).not.toEqual(before)
    await folder.close()
    await root.close()
  })

  it.each([true, false])('links are not entered, read or listed (by descriptor: %s)', async (isHeld) => {
    symlinkSync(place.outside, join(place.workspace, 'dir'))
    symlinkSync(join(place.outside, 'a'), join(place.workspace, 'file'))
    const root = await openRoot(place.workspace, { isHeld })
    expect(await root.enter('dir')).toBeNull()
    expect(await root.read('file', 100)).toBeNull()
    await expect(root.write('../outside/a', bytes, 0o644)).rejects.toEqual(code('UNSAFE_PATH'))
    await expect(root.write('..', bytes, 0o644)).rejects.toThrow()
    await root.close()
  })
})

describe('G15 a restore while another process swaps its directories for links', () => {
  it.skipIf(!isLinux)('never touches the targets of the links', async () => {
    const { workspace, outside } = place
    const wanted = new Map<string, Wanted>()
    for (const path of ['dir/a', 'dir/b/a', 'dir/c', 'dir/new', 'dir/b/b/c']) wanted.set(path, file(path))
    const racer = `
      const { renameSync, symlinkSync, unlinkSync, writeFileSync, mkdirSync, existsSync } = require('node:fs')
      const done = ${JSON.stringify(join(place.folder, 'done'))}
      process.chdir(${JSON.stringify(workspace)})
      const quietly = (work) => { try { work() } catch {} }
      process.stdout.write('ready')
      for (let i = 0; i < 1e9; i++) {
        quietly(() => renameSync('dir', 'moved' + (i % 3)))
        quietly(() => symlinkSync(${JSON.stringify(outside)}, 'dir'))
        quietly(() => writeFileSync('extra' + (i % 7), 'x'))
        quietly(() => unlinkSync('dir'))
        quietly(() => renameSync('moved' + (i % 3), 'dir'))
        if (i % 64 === 0 && existsSync(done)) break
      }`
    const child = spawn(process.execPath, ['-e', racer], { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    await new Promise((resolve) => child.stdout.once('data', resolve))
    const root = await openRoot(workspace)
    try {
      for (let i = 0; i < 60; i++) {
        await restoreTree(root, wanted, all, defaultLimits).catch((error: unknown) => {
          if (!isReprise(error, 'TREE_BLOCKED', 'NOT_FOUND')) throw error
        })
      }
    } finally {
      writeFileSync(join(place.folder, 'done'), '')
      await ended
      await root.close()
    }
    expect(picture(outside, { hasFolders: true })).toEqual(before)
    // Without an interruption the result is right.
    const quiet = await openRoot(workspace)
    await restoreTree(quiet, wanted, all, defaultLimits)
    await quiet.close()
    expect(Object.keys(picture(workspace)).sort()).toEqual([...wanted.keys()].sort())
  })
})

describe('the bounds of a tree', () => {
  it('are held when it is scanned: one name or one directory too many is refused', async () => {
    mkdirSync(join(place.workspace, 'a/b'), { recursive: true })
    writeFileSync(join(place.workspace, 'a/b/c'), '')
    const root = await openRoot(place.workspace)
    const scan = (treeDepth: number, treeNames: number) => scanTree(root, all, { treeDepth, treeNames })
    expect((await scan(2, 3)).found).toEqual([{ path: 'a/b/c', target: null }])
    await expect(scan(1, 3)).rejects.toEqual(code('LIMIT_EXCEEDED'))
    await expect(scan(2, 2)).rejects.toEqual(code('LIMIT_EXCEEDED'))
    await root.close()
  })

  it('are held when it is restored', () => {
    expect(checkPaths(['a', 'b'], { treeDepth: 0, treeNames: 2 })).toEqual([])
    expect(() => checkPaths(['a', 'b'], { treeDepth: 0, treeNames: 1 })).toThrow(/treeNames/)
    expect(() => checkPaths(['a/b'], { treeDepth: 0, treeNames: 2 })).toThrow(/treeDepth/)
  })

  it('hold for descriptors: a tree of many directories keeps open as many as it is deep', async () => {
    const wanted = new Map<string, Wanted>()
    for (let i = 0; i < 300; i++) wanted.set(`d${i}/e/f`, file('x'))
    const root = await openRoot(place.workspace)
    const open = () => (existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0)
    const openBefore = open()
    await restoreTree(root, wanted, all, defaultLimits)
    expect(open()).toBe(openBefore)
    await root.close()
    expect(Object.keys(picture(place.workspace))).toHaveLength(300)
  })

  it('know names that differ only in case or composition', () => {
    const limits = defaultLimits
    expect(checkPaths(['a/x', 'A/y', 'b'], limits)).toEqual(['A/y'])
    expect(checkPaths(['\u00e9', 'e\u0301'], limits)).toHaveLength(1)
    expect(checkPaths(['a/x', 'a/y'], limits)).toEqual([])
  })

  it('refuse such names where the file system takes them for one', async () => {
    const root = await openRoot(place.workspace)
    const both = new Map([
      ['a', file('one')],
      ['A', file('two')],
    ])
    if (await root.isCaseSensitive()) {
      await restoreTree(root, both, all, defaultLimits)
      expect(picture(place.workspace)).toEqual({ A: '644 two', a: '644 one' })
    }
    Object.defineProperty(root, 'isCaseSensitive', { value: async () => false })
    await expect(restoreTree(root, both, all, defaultLimits)).rejects.toEqual(code('UNSAFE_PATH'))
    await root.close()
  })

  it('remove the remains of an interrupted restore', async () => {
    writeFileSync(join(place.workspace, `.reprise-restore-${'a'.repeat(32)}`), 'half')
    const root = await openRoot(place.workspace)
    await restoreTree(root, new Map([['a', file('one')]]), all, defaultLimits)
    await root.close()
    expect(picture(place.workspace)).toEqual({ a: '644 one' })
    expect(readFileSync(join(place.workspace, 'a'), 'utf8')).toBe('one')
  })
})
