// Whether a command is what it declares, told with strace and without: both name the same files, and the line to add.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { checkHermetic } from '../../src/layers/memo/check.ts'
import { guiltyOnes } from '../../src/layers/memo/search.ts'

const home = mkdtempSync(join(tmpdir(), 'reprise-hermetic-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

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
    expect(await guiltyOnes(names, async (without) => !guilty.some((name) => without.has(name)))).toEqual(guilty)
  },
)
