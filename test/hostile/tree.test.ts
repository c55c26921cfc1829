// A session that was imported may record any path and any link. Restoring it is refused before anything is written, or
// stays inside the directory. The canary beside it is looked at after each.

import { existsSync, lstatSync, mkdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import { isReprise } from '../../src/core/errors.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { makePlace, type Place, picture } from '../support/trees.ts'

const coder = agent('coder', { model: () => ({ content: 'done' }) })
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function newEngine() {
  const store = await openMemory({ namespace: 'default', hash: sha256, world: createWorld() })
  const engine = createEngine({ store }, { worker: 'test' })
  cleanups.push(
    () => engine.close(),
    () => store.close(),
  )
  return engine
}

function newPlace(): Place {
  const place = makePlace()
  cleanups.push(() => rmSync(place.folder, { recursive: true, force: true }))
  writeFileSync(join(place.workspace, 'mine'), 'mine')
  return place
}

type Files = readonly (readonly [
  path: string,
  what: string | { readonly link: unknown } | { readonly mode: unknown },
])[]

const content = new TextEncoder().encode('hostile')
const digest = toHex(sha256(content))

/** Exports a session whose history records these files, imports it elsewhere and opens it there. */
async function imported(place: Place, files: Files, contents: readonly unknown[] = [[digest, content]]) {
  const set = files.map(([path, what]) => [
    path,
    { digest, mode: 0o644, bytes: content.length, ...(typeof what === 'object' ? what : {}) },
  ])
  const engine = await newEngine()
  const session = await engine.open(coder, 'victim')
  await session.adoptEntries([
    { type: 'files', data: { set, gone: [], contents }, version: 1, key: undefined, time: 0 } as never,
  ])
  await session.close()
  const file = join(place.folder, 'victim.reprise')
  await engine.export({ timeline: session.timeline, seq: 1 }, file)
  const elsewhere = await newEngine()
  await elsewhere.import(file)
  rmSync(file)
  return await elsewhere.open(coder, 'victim')
}

async function restored(place: Place, files: Files, contents?: readonly unknown[]): Promise<string> {
  const outside = picture(place.folder, { hasFolders: true })
  const session = await imported(place, files, contents)
  try {
    await session.restoreWorkspace({ directory: place.workspace })
    return 'restored'
  } catch (error) {
    if (!isReprise(error)) throw error
    expect(picture(place.folder, { hasFolders: true })).toEqual(outside)
    return error.code
  } finally {
    const { outside: canary } = place
    expect(picture(canary, { hasFolders: true })).toEqual(
      Object.fromEntries(
        Object.entries(outside)
          .filter(([path]) => path.startsWith('outside/'))
          .map(([path, seen]) => [path.slice(8), seen]),
      ),
    )
  }
}

const x = 'a file'

describe('G15 a crafted import cannot make a restore leave its directory', () => {
  test.each<[string, Files]>([
    ['a path with ..', [['../outside/a', x]]],
    ['.. in the middle', [['sub/../../outside/a', x]]],
    ['.. at the end', [['sub/..', x]]],
    ['an absolute path', [['/tmp/reprise-absolute', x]]],
    ['an empty path', [['', x]]],
    ['an empty name', [['a//b', x]]],
    ['a trailing slash', [['a/', x]]],
    ['a dot', [['.', x]]],
    ['a dot in the middle', [['a/./b', x]]],
    ['a NUL', [['a\0b', x]]],
    ['half a character', [['a\u{D800}', x]]],
    ['a name that is too long', [['é'.repeat(128), x]]],
    [
      'a file that is a directory too',
      [
        ['a', x],
        ['a/b', x],
      ],
    ],
    [
      'a link that is a directory too',
      [
        ['a', { link: '../outside' }],
        ['a/a', x],
      ],
    ],
    [
      'the same, the other way round',
      [
        ['b/b/c', x],
        ['b', { link: '../outside/b' }],
      ],
    ],
    ['hooks of git', [['.git/hooks/pre-commit', x]]],
    ['hooks of git in a sub-module', [['lib/.git/config', x]]],
    ['the store', [['.reprise/reprise.db', x]]],
    ['a name of our own', [[`.reprise-restore-${'0'.repeat(32)}`, x]]],
    ['a link to nothing', [['a', { link: '' }]]],
    ['a link to a NUL', [['a', { link: 'b\0c' }]]],
    ['a link that is no text', [['a', { link: { to: 'b' } }]]],
    ['a mode that is no number', [['a', { mode: '644' }]]],
  ])('%s is refused', async (_name, files) => {
    const place = newPlace()
    expect(await restored(place, [['good', x], ...files])).toBe('UNSAFE_PATH')
    expect(existsSync('/tmp/reprise-absolute')).toBe(false)
    expect(picture(place.workspace)).toEqual({ mine: '644 mine' })
  })

  test('links to anywhere are restored as data and not followed, now or by the next restore', async () => {
    const place = newPlace()
    const files: Files = [
      ['absolute', { link: '/etc/passwd' }],
      ['parent', { link: '../outside' }],
      ['self', { link: 'self' }],
    ]
    expect(await restored(place, files)).toBe('restored')
    expect(readlinkSync(join(place.workspace, 'parent'))).toBe('../outside')
    // The next session has files behind that name.
    expect(
      await restored(place, [
        ['parent/a', x],
        ['parent/c', x],
        ['absolute', x],
      ]),
    ).toBe('restored')
    expect(lstatSync(join(place.workspace, 'parent')).isDirectory()).toBe(true)
  })

  test('a mode gives no more than permissions', async () => {
    const place = newPlace()
    expect(
      await restored(place, [
        ['a', { mode: 0o104755 }],
        ['b', { mode: -1 }],
      ]),
    ).toBe('restored')
    expect(lstatSync(join(place.workspace, 'a')).mode & 0o7777).toBe(0o755)
    expect(lstatSync(join(place.workspace, 'b')).mode & 0o7777).toBe(0o777)
  })

  test('contents that are missing, of another digest, or no bytes are refused', async () => {
    const place = newPlace()
    expect(await restored(place, [['a', x]], [])).toBe('CHUNK_MISSING')
    expect(await restored(place, [['a', x]], [[digest, new TextEncoder().encode('other')]])).toBe('CHUNK_DAMAGED')
    expect(await restored(place, [['a', x]], [[digest, 'text']])).toBe('CHUNK_MISSING')
  })

  test('a path deeper than the limit is refused, one as deep is restored', async () => {
    const place = newPlace()
    const deep = (folders: number) => `${'d/'.repeat(folders)}f`
    expect(await restored(place, [[deep(129), x]])).toBe('LIMIT_EXCEEDED')
    expect(await restored(place, [[deep(128), x]])).toBe('restored')
    expect(existsSync(join(place.workspace, deep(128)))).toBe(true)
  })

  test('any record of paths and links is restored or refused, and the canary stays as it is', async () => {
    const name = fc.constantFrom('a', 'b', 'c', 'A', '..', '.', '', 'é', 'é')
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
    const what = fc.oneof(
      fc.constant(x),
      fc.record({ link: fc.constantFrom('a', '..', '../outside', '../outside/b', '.', 'b/c') }),
    )
    const before = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('link', 'folder')), {
      maxLength: 2,
    })
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(path, what), { maxLength: 5, selector: ([each]) => each }),
        before,
        async (files, made) => {
          const place = newPlace()
          for (const [each, kind] of made) {
            if (existsSync(join(place.workspace, each))) continue
            if (kind === 'folder') mkdirSync(join(place.workspace, each))
            else plantLink(place, each)
          }
          expect(['restored', 'UNSAFE_PATH', 'TREE_BLOCKED']).toContain(await restored(place, files))
          for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
        },
      ),
      { numRuns: 100 },
    )
  })
})

/** Ignored, so that it blocks the path instead of being deleted first. */
function plantLink(place: Place, name: string): void {
  writeFileSync(join(place.workspace, '.gitignore'), 'a\nb\nc\n')
  symlinkSync(place.outside, join(place.workspace, name))
}
