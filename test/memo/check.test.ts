// Whether a command matches its declaration, found with strace and without: both name the same files, and the line to add.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { checkHermetic } from '../../src/layers/memo/check.ts'
import { affectingElements } from '../../src/layers/memo/delta-debugging.ts'
import { command } from '../../src/layers/memo/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

const home = temporaryFolder('hermetic')

/** The programs that the commands here need, and no strace. */
const bare = join(home, 'bin')
mkdirSync(bare)
for (const name of ['sh', 'cat', 'cp', 'mkdir', 'pwd', 'date', 'sed']) {
  symlinkSync(spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim(), join(bare, name))
}
const { PATH } = process.env
afterEach(() => {
  process.env.PATH = PATH
  delete process.env.REPRISE_CHECK_WHO
})

function project(): string {
  const folder = mkdtempSync(join(home, 'p-'))
  for (const name of ['src', 'conf', 'other']) mkdirSync(join(folder, name))
  for (const name of ['src/a', 'conf/x.json', 'aside.txt']) writeFileSync(join(folder, name), `${name}\n`)
  for (let i = 0; i < 20; i++) writeFileSync(join(folder, `other/${i}`), String(i))
  return folder
}

const canTrace = spawnSync('strace', ['-V']).status === 0
if (!canTrace) console.warn('checks with strace are left out: there is no strace here')
const ways = canTrace ? ['strace', 'a copy'] : ['a copy']

describe.each(ways)('with %s', (way) => {
  const check = (directory: string, cmd: string, more: object = {}) => {
    process.env.PATH = way === 'strace' ? PATH : bare
    return checkHermetic({ cmd, directory, inputs: ['src/**'], outputs: ['dist/**'], ...more })
  }

  it('B9: files and variables that it needs and does not declare are named, with the line to add', async () => {
    process.env.REPRISE_CHECK_WHO = 'me'
    const cmd = 'mkdir -p dist; cat src/a conf/x.json aside.txt > dist/all; echo "$REPRISE_CHECK_WHO" >> dist/all'
    const found = await check(project(), cmd)
    expect(found).toMatchObject({ isHermetic: false, undeclaredEnv: ['REPRISE_CHECK_WHO'], unstableOutputs: [] })
    expect(found.undeclaredInputs).toEqual(['aside.txt', 'conf/x.json'])
    expect(found.advice).toEqual(["inputs: ['aside.txt', 'conf/x.json']", "env: ['REPRISE_CHECK_WHO']"])
    const declared = { inputs: ['src/**', 'aside.txt', 'conf/x.json'], env: ['REPRISE_CHECK_WHO'] }
    const sound = await check(project(), cmd, declared)
    expect(sound).toMatchObject({ isHermetic: true, undeclaredInputs: [], undeclaredEnv: [], advice: [] })
  })

  it('C9: outputs that differ each time are named', async () => {
    const found = await check(project(), 'mkdir -p dist; cp src/a dist/a; date +%N > dist/when')
    expect(found).toMatchObject({ isHermetic: false, unstableOutputs: ['dist/when'] })
  })

  it('a command that fails is not checked', async () => {
    expect(await check(project(), 'exit 4')).toMatchObject({ isHermetic: false, exitCode: 4 })
  })
})

it('in a copy, one that fails without a file needs it; one that depends on its place is no match for a copy', async () => {
  const folder = project()
  process.env.PATH = bare
  const make = (cmd: string) => ({ cmd, directory: folder, inputs: ['src/**'], outputs: ['dist/**'] })
  const fails = await checkHermetic(make('set -e; mkdir -p dist; sed s/a/b/ aside.txt > /dev/null; cp src/a dist/a'))
  expect(fails).toMatchObject({ undeclaredInputs: ['aside.txt'], advice: ["inputs: ['aside.txt']"] })
  const placed = await checkHermetic(make('mkdir -p dist; pwd > dist/where'))
  expect(placed).toMatchObject({ isHermetic: false, undeclaredInputs: null })
  expect(placed.advice).toEqual([expect.stringContaining('a copy of its directory')])
  expect(readdirSync(folder).sort()).toEqual(['aside.txt', 'conf', 'dist', 'other', 'src'])
})

it.each([[[]], [['c']], [['a', 'z']], [['b', 'c', 'd', 'x']]])(
  'finds those that matter among many: %j',
  async (guilty) => {
    const names = [...'abcdefghijklmnopqrstuvwxyz']
    expect(await affectingElements(names, async (without) => !guilty.some((name) => without.has(name)))).toEqual(guilty)
  },
)

describe.runIf(canTrace)('outside of its directory', () => {
  /** A workspace: a package with a command, a neighbour, hoisted packages, a base configuration and a tool on the PATH. */
  function workspace() {
    const root = mkdtempSync(join(home, 'w-'))
    const files: Record<string, string> = {
      'package.json': '{}',
      'package-lock.json': '{"v":1}',
      'base.json': 'base',
      'node_modules/left/package.json': '{"version":"1.0.0"}',
      'node_modules/left/index.js': 'left',
      'node_modules/@s/right/index.js': 'right',
      'packages/app/package.json': '{}',
      'packages/app/src/a': 'a',
      'packages/neighbour/package.json': '{}',
      'packages/neighbour/src/n': 'n',
      'tools/mine/package.json': '{"version":"1.0.0"}',
    }
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(root, name, '..'), { recursive: true })
      writeFileSync(join(root, name), text)
    }
    mkdirSync(join(root, 'bin'))
    writeFileSync(join(root, 'tools/mine/mine'), '#!/bin/sh\necho version 1\n', { mode: 0o755 })
    symlinkSync(join(root, 'tools/mine/mine'), join(root, 'bin/mine'))
    process.env.PATH = `${join(root, 'bin')}:${PATH}`
    return { root, directory: join(root, 'packages/app') }
  }
  const reads = [
    ...['src/a', '../../base.json', '../neighbour/src/n', '../../node_modules/left/index.js'],
    '../../node_modules/@s/right/index.js',
  ].join(' ')
  const cmd = `mkdir -p dist; cat ${reads} > dist/all; mine >> dist/all`

  it('every read that is not of the system is named by its package, with what to declare', async () => {
    const { root, directory } = workspace()
    const options = { cmd, directory, inputs: ['src/**'], outputs: ['dist/**'] }
    const found = await checkHermetic(options)
    expect(found.isHermetic).toBe(false)
    expect(found.outside).toEqual(
      [...['base.json', 'node_modules/@s/right', 'node_modules/left', 'packages/neighbour', 'tools/mine']].map((name) =>
        join(root, name),
      ),
    )
    expect(found.declare).toEqual({
      inputs: ['../../base.json', '../../package-lock.json', '../neighbour/**'],
      tools: ['mine'],
      env: [],
    })
    const { inputs, tools } = found.declare
    const declared = { ...options, inputs: ['src/**', ...inputs], tools: [...tools] }
    expect(await checkHermetic(declared)).toMatchObject({ isHermetic: true, outside: [], advice: [] })
  })

  it('inputs declared above the directory, and the version of a tool, are part of the key', async () => {
    const { root, directory } = workspace()
    const rp = await open('memory:', { housekeeping: false })
    const inputs = ['src/**', '../../base.json', '../../package-lock.json', '../neighbour/**', '!../neighbour/tmp/**']
    const built = await rp.open(command('built', { cmd, directory, inputs, outputs: ['dist/**'], tools: ['mine'] }))
    const from = async () => {
      const ran = await built.run()
      return [ran.from, ran.notKept, ran.unmatched]
    }
    rmSync(join(directory, 'dist'), { recursive: true, force: true })
    expect(await from()).toEqual(['computed', null, []])
    expect(await from()).toEqual(['store', null, []])
    const again = async (path: string, text: string, why: string) => {
      writeFileSync(join(root, path), text)
      expect((await built.explain()).why).toBe(why)
      rmSync(join(directory, 'dist'), { recursive: true, force: true })
      expect((await from())[0]).toBe('computed')
      expect((await from())[0]).toBe('store')
    }
    await again('packages/neighbour/src/n', 'other', 'file ../neighbour/src/n changed')
    await again('package-lock.json', '{"v":2}', 'file ../../package-lock.json changed')
    await again('tools/mine/mine', '#!/bin/sh\necho version 2\n', 'tool mine changed')
    await again('tools/mine/package.json', '{"version":"2.0.0"}', 'tool mine changed')
    mkdirSync(join(root, 'packages/neighbour/tmp'))
    writeFileSync(join(root, 'packages/neighbour/tmp/x'), 'taken back')
    expect((await from())[0]).toBe('store')
    await rp.close()
  })
})

it('in a copy, inputs above the directory exist too', async () => {
  const root = mkdtempSync(join(home, 'above-'))
  mkdirSync(join(root, 'packages/app'), { recursive: true })
  writeFileSync(join(root, 'base.json'), 'base')
  process.env.PATH = bare
  const options = {
    ...{ cmd: 'mkdir -p dist; cat ../../base.json > dist/all', directory: join(root, 'packages/app') },
    ...{ inputs: ['../../base.json'], outputs: ['dist/**'] },
  }
  expect(await checkHermetic(options)).toMatchObject({ isHermetic: true, undeclaredInputs: [] })
  for (const outputs of [['../dist/**'], ['dist/../../x']]) {
    expect(() => command('x', { ...options, outputs })).toThrow('below the directory')
  }
  expect(() => command('x', { ...options, inputs: ['src/../../x'] })).toThrow('below the directory')
})

it('an incremental tool that does not write all outputs again keeps nothing with clean', async () => {
  const directory = mkdtempSync(join(home, 'incremental-'))
  mkdirSync(join(directory, 'src'))
  for (const name of ['a', 'b', 'c']) writeFileSync(join(directory, 'src', name), name)
  // As tsc --incremental: its notes lie beside the outputs, and it writes what changed since.
  writeFileSync(
    join(directory, 'build.sh'),
    'mkdir -p dist notes; for f in a b c; do cmp -s src/$f notes/$f || { cp src/$f dist/$f; cp src/$f notes/$f; }; done',
  )
  const rp = await open('memory:', { housekeeping: false })
  const options = { cmd: 'sh build.sh', directory, inputs: ['src/**'], outputs: ['dist/**'], clean: true }
  const build = await rp.open(command('build', options))
  expect(await build.run()).toMatchObject({ from: 'computed', notKept: null })
  writeFileSync(join(directory, 'src/b'), 'changed')
  expect(await build.run()).toMatchObject({
    from: 'computed',
    notKept: expect.stringMatching(/^dist\/a and 1 more existed before and was not rewritten/),
  })
  writeFileSync(join(directory, 'src/b'), 'changed again')
  expect((await build.run()).notKept).toContain('was not rewritten')
  expect(readdirSync(join(directory, 'dist')).sort()).toEqual(['a', 'b', 'c'])
  rmSync(join(directory, 'notes'), { recursive: true })
  expect(await build.run()).toMatchObject({ notKept: null, outputs: ['dist/a', 'dist/b', 'dist/c'] })
  await rp.close()
})

it('explains a variable or a file that is declared and not there as such, not as damage', async () => {
  const directory = project()
  const rp = await open('memory:', { housekeeping: false })
  const make = (more: object) => command('told', { cmd: 'true', directory, inputs: ['src/**'], ...more })
  await (await rp.open(make({}))).run()
  const why = async (more: object) => (await (await rp.open(make(more))).explain()).why
  delete process.env.REPRISE_CHECK_WHO
  expect(await why({ env: ['REPRISE_CHECK_WHO'] })).toBe('variable REPRISE_CHECK_WHO is now declared, but missing')
  expect(await why({ inputs: ['src/**', 'none.txt'] })).toBe('file none.txt is now declared, but missing')
  expect(await why({ tools: ['no-such-tool'] })).toBe('tool no-such-tool is now declared, but missing')
  await rp.close()
})
