// Patterns as in other tools, and typing mistakes in them: reported, never a hit with an old result.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { command, memo } from '../../src/layers/memo/index.ts'
import { anchoredAll, Unmatched } from '../../src/layers/memo/patterns.ts'
import { temporaryFolder } from '../support/fixture.ts'

const home = temporaryFolder('patterns')

function project(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(home, 'p-'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

describe('a pattern', () => {
  it.each([
    ['src/*.{ts,js}', ['/src/*.ts', '/src/*.js']],
    ['{a,b/{c,d}}/x', ['/a/x', '/b/c/x', '/b/d/x']],
    ['!src/{a,b}', ['!/src/a', '!/src/b']],
    ['src//a.ts', ['/src/a.ts']],
    ['./src/a', ['/src/a']],
    ['a\\{b', ['/a\\{b']],
    ['app/[id].ts', ['/app/[id].ts', '/app/\\[id\\].ts']],
    ['app/(group)/x', ['/app/(group)/x']],
  ])('%s is written out', (given, wanted) => {
    expect(anchoredAll([given])).toEqual(wanted)
  })

  it.each(['@(a|b)', 'src/+(a|b).ts', 'src/{a}', 'src/{a,b', '', '../a', '/a', `{${'a,'.repeat(300)}b}`])(
    '%s is refused, with the way to write it',
    (given) => {
      expect(() => anchoredAll([given])).toThrow(/INVALID_ARGUMENT/)
    },
  )

  it('matches or is named', () => {
    const given = ['src/*.{ts,js}', 'packages/*', 'src', 'lib/**', 'package.json', '!none', 'src/[ab].ts']
    const unmatched = new Unmatched(given)
    expect(unmatched.left).toEqual(given.filter((pattern) => pattern !== '!none'))
    unmatched.saw({ folder: 'packages/x/deep', names: ['y'] })
    unmatched.saw({ folder: 'src', names: ['z.md', 'a.ts'] })
    expect(unmatched.left).toEqual(['lib/**', 'package.json'])
  })
})

describe('inputs of a command', () => {
  it.each(['src/*.{ts,js}', 'src//[id].ts', 'src/[id].ts', 'src/{[id],x}.ts'])(
    'B9: %s is in the key: a change is no hit',
    async (pattern) => {
      const folder = project({ 'src/[id].ts': 'one' })
      const rp = await open('memory:')
      const build = command('build', { cmd: 'cat src/*', directory: folder, inputs: [pattern] })
      const handle = await rp.open(build)
      expect(await handle.run()).toMatchObject({ from: 'computed', unmatched: [] })
      expect(await handle.run()).toMatchObject({ from: 'store' })
      writeFileSync(join(folder, 'src/[id].ts'), 'two')
      expect(await handle.run()).toMatchObject({ from: 'computed' })
      await rp.close()
    },
  )

  it('that match nothing are reported: by the result of a command, by an event of a function', async () => {
    const folder = project({ 'src/a.ts': 'one' })
    const rp = await open('memory:')
    const problems: string[] = []
    rp.events.on('problem', ({ error }) => problems.push((error as Error).message))
    const build = command('build', { cmd: 'true', directory: folder, inputs: ['scr/**', 'src/**'] })
    expect(await (await rp.open(build)).run()).toMatchObject({ unmatched: ['scr/**'] })
    const read = memo('read', { version: 1, directory: folder, inputs: ['scr/**'], run: (n: number) => n })
    const handle = await rp.open(read)
    for (const n of [1, 2, 3]) await handle.call(n)
    expect(problems.filter((what) => what.includes('scr/**'))).toHaveLength(1)
    await rp.close()
  })
})

it('temporary outputs of a killed process are removed by the next run; those of a live one stay', async () => {
  const folder = project({ 'src/a': 'a' })
  const rp = await open('memory:')
  const options = {
    cmd: 'mkdir -p dist && cp src/a dist/',
    directory: folder,
    inputs: ['src/**'],
    outputs: ['dist/**'],
  }
  const handle = await rp.open(command('copy', options))
  await handle.run()
  // The name that this machine's file system stores.
  const { stdout } = spawnSync(
    process.execPath,
    [
      '-e',
      "process.stdout.write(require('crypto').createHash('sha256').update(require('os').hostname()).digest('hex').slice(0, 8))",
    ],
    { encoding: 'utf8' },
  )
  const dead = spawnSync(process.execPath, ['-e', '0']).pid
  const [left, used] = [dead, process.pid].map((pid) => `.reprise-restore-${stdout}-${pid}-0123456789abcdef`)
  for (const name of [left!, used!, '.reprise-restore-mine']) mkdirSync(join(folder, name, 'deep'), { recursive: true })
  rmSync(join(folder, 'dist'), { recursive: true })
  expect(await handle.run()).toMatchObject({ from: 'store' })
  expect(readFileSync(join(folder, 'dist/a'), 'utf8')).toBe('a')
  expect(readdirSync(folder).sort()).toEqual(['.reprise-restore-mine', 'dist', 'src', used].sort())
  await rp.close()
})

it('B9: a list with properties of its own is no argument: it would share the result of the list without', async () => {
  const rp = await open('memory:')
  const handle = await rp.open(memo('list', { version: 1, run: (list: { readonly a: number[] }) => list.a.length }))
  await handle.call({ a: [1] })
  await expect(handle.call({ a: Object.assign([1], { x: 2 }) })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await rp.close()
})
