// Restoring a workspace never leaves it: not through links that an agent made, not through directories that it swapped, not
// through recorded paths. A canary file is beside every workspace.

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { type Action, act, action, makePlace, type Place, picture } from '../support/trees.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const coder = agent('coder', { model: () => ({ content: 'done' }) })
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function newSession(planted: readonly string[] = []) {
  const store = await openMemory({ namespace: 'default', hash: sha256, world: createWorld() })
  const engine = createEngine({ store, planted: new Set(planted) }, { worker: 'test' })
  cleanups.push(
    () => engine.close(),
    () => store.close(),
  )
  return await engine.open(coder, 'links')
}

function newPlace(files: Record<string, string> = {}): Place {
  const place = makePlace()
  cleanups.push(() => rmSync(place.folder, { recursive: true, force: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(place.workspace, path)), { recursive: true })
    writeFileSync(join(place.workspace, path), text)
  }
  return place
}

/** Captures, runs the agent, restores; the canary must be unchanged, and the workspace equal to its capture. */
async function roundTrip(place: Place, doing: (workspace: string) => void) {
  const directory = place.workspace
  const session = await newSession()
  await session.turn('first', { workspace: { directory } })
  const before = { workspace: picture(directory), outside: picture(place.outside, { hasFolders: true }) }
  doing(directory)
  await session.turn('second', { workspace: { directory } })
  await session.rollback({ to: 1, workspace: { directory } })
  expect(picture(place.outside, { hasFolders: true })).toEqual(before.outside)
  expect(picture(directory)).toEqual(before.workspace)
  expect(await session.captureWorkspace({ directory })).toMatchObject({ written: [], removed: [] })
  return session
}

describe('G15 restoring a workspace does not leave it', () => {
  it('when a directory became a link to one outside', async () => {
    const place = newPlace({ 'b/a': 'mine', 'b/new': 'mine' })
    await roundTrip(place, (workspace) => {
      renameSync(join(workspace, 'b'), join(workspace, 'aside'))
      symlinkSync(place.outside, join(workspace, 'b'))
    })
  })

  it('when the workspace itself became a link: rollback, restore and capture are refused, and nothing is rolled back', async () => {
    const place = newPlace({ a: 'mine' })
    const directory = place.workspace
    const session = await newSession()
    await session.turn('first', { workspace: { directory } })
    await session.turn('second')
    const outside = picture(place.outside, { hasFolders: true })
    renameSync(directory, join(place.folder, 'moved'))
    symlinkSync(place.outside, directory)
    for (const refused of [
      () => session.rollback({ to: 1, workspace: { directory } }),
      () => session.rollback({ to: 0, workspace: { directory } }),
      () => session.restoreWorkspace({ directory }),
      () => session.captureWorkspace({ directory }),
    ]) {
      await expect(refused()).rejects.toThrow(code('TREE_BLOCKED'))
    }
    expect(picture(place.outside, { hasFolders: true })).toEqual(outside)
    expect(session.state.turn).toBe(2)
    // The caller's own word: the place it was moved to, by its name.
    await session.rollback({ to: 1, workspace: { directory: join(place.folder, 'moved') } })
    expect(readFileSync(join(place.folder, 'moved/a'), 'utf8')).toBe('mine')
  })

  it('when it is reached through a link that is still the same', async () => {
    const place = newPlace({ a: 'mine' })
    const directory = join(place.folder, 'link')
    symlinkSync(place.workspace, directory)
    const session = await newSession()
    await session.turn('first', { workspace: { directory } })
    writeFileSync(join(directory, 'a'), 'changed')
    await session.restoreWorkspace({ directory })
    expect(readFileSync(join(place.workspace, 'a'), 'utf8')).toBe('mine')
  })

  it('when that directory holds one where a file belongs', async () => {
    const place = newPlace({ 'x/c': 'a file of that name' })
    await roundTrip(place, (workspace) => {
      rmSync(join(workspace, 'x'), { recursive: true })
      symlinkSync('../outside', join(workspace, 'x'))
    })
  })

  it('when the link is ignored, so that it is not deleted beforehand: nothing is written or deleted behind it', async () => {
    const place = newPlace({ 'x/new': 'mine', 'x/c': 'a file, where the canary has a directory' })
    await roundTrip(place, (workspace) => {
      rmSync(join(workspace, 'x'), { recursive: true })
      symlinkSync(place.outside, join(workspace, 'x'))
      writeFileSync(join(workspace, '.gitignore'), 'x\n')
    })
  })

  it('when a file became a link to one outside, or a hard link to it', async () => {
    const place = newPlace({ a: 'one', b: 'two' })
    await roundTrip(place, (workspace) => {
      rmSync(join(workspace, 'a'))
      symlinkSync(join(place.outside, 'a'), join(workspace, 'a'))
      rmSync(join(workspace, 'b'))
      execFileSync('ln', [join(place.outside, 'd'), join(workspace, 'b')])
    })
  })

  it('when files became directories, directories files, and links anything', async () => {
    const place = newPlace({ a: 'file', 'b/c/d': 'deep' })
    symlinkSync('a', join(place.workspace, 'l'))
    await roundTrip(place, (workspace) => {
      rmSync(join(workspace, 'a'))
      mkdirSync(join(workspace, 'a/x/y'), { recursive: true })
      writeFileSync(join(workspace, 'a/x/z'), 'new')
      rmSync(join(workspace, 'b'), { recursive: true })
      writeFileSync(join(workspace, 'b'), 'a file')
      rmSync(join(workspace, 'l'))
      mkdirSync(join(workspace, 'l'))
    })
  })

  it('when links lead anywhere: they come back as data', async () => {
    const place = newPlace({ a: 'file' })
    symlinkSync(place.outside, join(place.workspace, 'absolute'))
    symlinkSync('../../../../etc', join(place.workspace, 'parent'))
    symlinkSync('cycle', join(place.workspace, 'cycle'))
    symlinkSync('nowhere', join(place.workspace, 'dangling'))
    await roundTrip(place, (workspace) => {
      for (const name of ['absolute', 'parent', 'cycle', 'dangling']) {
        rmSync(join(workspace, name))
        mkdirSync(join(workspace, name))
        writeFileSync(join(workspace, name, 'a'), 'in the place of a link')
      }
    })
  })

  it('and gives back no right to run as another user', async () => {
    const place = newPlace({ a: 'file' })
    chmodSync(join(place.workspace, 'a'), 0o6755)
    await roundTrip(place, (workspace) => writeFileSync(join(workspace, 'a'), 'changed'))
    expect(lstatSync(join(place.workspace, 'a')).mode & 0o7777).toBe(0o755)
  })

  it('and keeps files that no capture could know: pipes, names that are no text, ignored files', async () => {
    const place = newPlace({ '.gitignore': 'node_modules/\n', a: 'one', 'node_modules/x': 'big' })
    const odd = Buffer.concat([Buffer.from(`${place.workspace}/`), Buffer.from([0xff, 0xfe])])
    const { workspace: directory } = place
    const session = await newSession()
    await session.captureWorkspace({ directory })
    execFileSync('mkfifo', [join(directory, 'pipe')])
    writeFileSync(odd, 'no name')
    // The restore deletes neither the files ignored at the capture nor those ignored now.
    writeFileSync(join(directory, '.gitignore'), 'late.env\n')
    writeFileSync(join(directory, 'late.env'), 'secret')
    writeFileSync(join(directory, 'b'), 'new')
    expect(await session.restoreWorkspace({ directory })).toMatchObject({ written: ['.gitignore'], removed: ['b'] })
    expect(lstatSync(join(place.workspace, 'pipe')).isFIFO()).toBe(true)
    expect(existsSync(odd)).toBe(true)
    expect(readFileSync(join(place.workspace, 'node_modules/x'), 'utf8')).toBe('big')
    expect(readFileSync(join(place.workspace, 'late.env'), 'utf8')).toBe('secret')
  })

  it('names the files it cannot capture', async () => {
    const { workspace: directory } = newPlace({ a: 'one' })
    execFileSync('mkfifo', [join(directory, 'pipe')])
    expect(await (await newSession()).captureWorkspace({ directory })).toMatchObject({ files: 1, skipped: ['pipe'] })
  })

  it('refuses, before it changes anything, to delete ignored files in a directory where a file belongs', async () => {
    const place = newPlace({ '.gitignore': '*.env\n', a: 'file', b: 'file' })
    const { workspace: directory } = place
    const session = await newSession()
    await session.captureWorkspace({ directory })
    rmSync(join(directory, 'a'))
    mkdirSync(join(directory, 'a'))
    writeFileSync(join(directory, 'a/secret.env'), 'ignored')
    writeFileSync(join(directory, 'b'), 'changed')
    await expect(session.restoreWorkspace({ directory })).rejects.toEqual(code('TREE_BLOCKED'))
    expect(readFileSync(join(directory, 'a/secret.env'), 'utf8')).toBe('ignored')
    expect(readFileSync(join(directory, 'b'), 'utf8')).toBe('changed')
  })

  it('does not capture the store that lies in it, nor write over it', async () => {
    const { workspace: directory } = newPlace({ a: 'one' })
    mkdirSync(join(directory, '.reprise'))
    const store = await openSqlite(join(directory, '.reprise/reprise.db'), { namespace: 'default', hash: sha256 })
    const engine = createEngine({ store }, { worker: 'test' })
    cleanups.push(
      () => engine.close(),
      () => store.close(),
    )
    const session = await engine.open(coder, 'store inside')
    await session.turn('first', { workspace: { directory } })
    expect([...session.state.files.keys()]).toEqual(['a'])
    writeFileSync(join(directory, 'a'), 'two')
    await session.turn('second', { workspace: { directory } })
    await session.rollback({ to: 1, workspace: { directory } })
    expect(readFileSync(join(directory, 'a'), 'utf8')).toBe('one')
    expect((await engine.verify()).faults).toEqual([])
  })

  it('takes a root that is a link, and none that is or holds the home directory', async () => {
    const place = newPlace({ a: 'one' })
    const session = await newSession()
    const directory = join(place.folder, 'way in')
    symlinkSync('workspace', directory)
    await session.captureWorkspace({ directory })
    writeFileSync(join(place.workspace, 'a'), 'two')
    await session.restoreWorkspace({ directory })
    expect(readFileSync(join(place.workspace, 'a'), 'utf8')).toBe('one')
    expect(lstatSync(directory).isSymbolicLink()).toBe(true)
    for (const refused of ['/', homedir(), dirname(homedir())]) {
      await expect(session.captureWorkspace({ directory: refused })).rejects.toEqual(code('INVALID_ARGUMENT'))
      await expect(session.restoreWorkspace({ directory: refused })).rejects.toEqual(code('INVALID_ARGUMENT'))
    }
    await expect(session.captureWorkspace({ directory: join(place.folder, 'none') })).rejects.toEqual(code('NOT_FOUND'))
  })
})

describe('G15 whatever an agent does between capture and restore', () => {
  const actions = fc.array(action, { maxLength: 12 })
  // Written between the two captures: its ignored files stay, and recorded files are restored anywhere.
  const ignored = fc.option(fc.constantFrom('/a', '/b', 'c', 'b/', '*'), { nil: null })
  const holds = (planted: readonly string[]) =>
    fc.asyncProperty(actions, actions, ignored, async (first: Action[], second: Action[], pattern) => {
      const place = makePlace()
      try {
        const outside = picture(place.outside, { hasFolders: true })
        const { workspace: directory } = place
        const session = await newSession(planted)
        for (const each of first) act(place, each)
        await session.captureWorkspace({ directory })
        const captured = picture(directory)
        for (const each of second) act(place, each)
        if (pattern !== null) writeFileSync(join(directory, '.gitignore'), pattern)
        const restored = await session.restoreWorkspace({ directory }).catch((error: unknown) => {
          // A directory that is left alone where a file belongs.
          expect(pattern).not.toBeNull()
          expect(error).toEqual(code('TREE_BLOCKED'))
          return null
        })
        expect(picture(place.outside, { hasFolders: true })).toEqual(outside)
        if (!restored) return
        if (pattern === null) expect(picture(directory)).toEqual(captured)
        else expect(picture(directory)).toMatchObject(captured)
        // "*" ignores its own .gitignore: the file stays, and so do the files it hides.
        const unchanged = pattern === null ? { written: [], removed: [] } : pattern === '*' ? {} : { removed: [] }
        expect(await session.captureWorkspace({ directory })).toMatchObject(unchanged)
        await session.close()
      } finally {
        rmSync(place.folder, { recursive: true, force: true })
      }
    })

  it('the workspace is as captured and the canary untouched', async () => {
    await fc.assert(holds([]), { numRuns: 200 })
  })

  it('and a restore that follows links is found out', async () => {
    const result = await fc.check(holds(['tree-follows-links']), { numRuns: 1000, endOnFailure: true })
    expect(result.failed).toBe(true)
  })
})
