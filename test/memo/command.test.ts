// Commands, remembered: outputs with modes, links and deletions come back whole, what was said is said again, and a
// process that dies in the middle leaves nothing half.

import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { command } from '../../src/layers/memo/index.ts'
import { programPath } from '../crash/support.ts'
import { onEveryStore } from '../support/worlds.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0))
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
})

function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-command-'))
  folders.push(folder)
  mkdirSync(join(folder, 'src'))
  writeFileSync(join(folder, 'src/a.txt'), 'a')
  return folder
}

/** Counts its runs in a file that is no output. */
const line = [
  'echo run >> runs.log',
  'mkdir -p dist/deep',
  'cat src/*.txt > dist/all.txt',
  'cp src/a.txt dist/deep/tool && chmod 755 dist/deep/tool',
  'ln -sf deep/tool dist/link',
  'echo built; echo careful >&2',
].join(' && ')

const build = (directory: string, more = {}) =>
  command('build', {
    cmd: line,
    directory,
    inputs: ['src/**'],
    outputs: ['dist/**'],
    env: ['REPRISE_COMMAND_TEST'],
    ...more,
  })

const runsOf = (folder: string) => readFileSync(join(folder, 'runs.log'), 'utf8').split('\n').length - 1
const text = (said: readonly { readonly to: string; readonly bytes: Uint8Array }[]) =>
  said.map(({ to, bytes }) => `${to}: ${Buffer.from(bytes)}`).sort()

onEveryStore('commands', (world) => {
  it('B9: a hit puts outputs in place with modes, links and deletions, and says again what was said', async () => {
    const rp = await (await world()).engine()
    const folder = project()
    const handle = await rp.open(build(folder))
    const first = await handle.run()
    expect(first).toMatchObject({
      exitCode: 0,
      from: 'computed',
      outputs: ['dist/all.txt', 'dist/deep/tool', 'dist/link'],
      notKept: null,
    })
    expect(await handle.run()).toMatchObject({ from: 'store', isInPlace: true })
    rmSync(join(folder, 'dist'), { recursive: true })
    mkdirSync(join(folder, 'dist'))
    writeFileSync(join(folder, 'dist/stray.txt'), 'left over')
    const again = await handle.run()
    expect(again).toMatchObject({ from: 'store', isInPlace: false, exitCode: 0 })
    expect(text(again.said)).toEqual(['stderr: careful\n', 'stdout: built\n'])
    expect(readdirSync(join(folder, 'dist')).sort()).toEqual(['all.txt', 'deep', 'link'])
    expect(readlinkSync(join(folder, 'dist/link'))).toBe('deep/tool')
    expect(lstatSync(join(folder, 'dist/deep/tool')).mode & 0o777).toBe(0o755)
    expect(readdirSync(folder).sort()).toEqual(['dist', 'runs.log', 'src'])
    expect(runsOf(folder)).toBe(1)
    writeFileSync(join(folder, 'src/b.txt'), 'b')
    expect(await handle.explain()).toMatchObject({ isHit: false, why: 'file src/b.txt was added' })
    expect(await handle.run()).toMatchObject({ from: 'computed' })
    rmSync(join(folder, 'src/b.txt'))
    expect(await handle.run()).toMatchObject({ from: 'store', isInPlace: false })
    expect(readFileSync(join(folder, 'dist/all.txt'), 'utf8')).toBe('a')
  })

  it('a clean clone elsewhere hits; another platform, mode or variable does not', async () => {
    const rp = await (await world()).engine()
    const [one, other] = [project(), project()]
    await (await rp.open(build(one))).run()
    const handle = await rp.open(build(other))
    expect(await handle.run()).toMatchObject({ from: 'store' })
    expect(readFileSync(join(other, 'dist/all.txt'), 'utf8')).toBe('a')
    chmodSync(join(other, 'src/a.txt'), 0o755)
    expect(await handle.explain()).toMatchObject({ isHit: false, why: 'file src/a.txt changed' })
    chmodSync(join(other, 'src/a.txt'), 0o644)
    process.env.REPRISE_COMMAND_TEST = 'x'
    const explained = await handle.explain()
    delete process.env.REPRISE_COMMAND_TEST
    expect(explained).toMatchObject({
      isHit: false,
      changes: [{ part: 'env', name: 'REPRISE_COMMAND_TEST', how: 'added' }],
    })
  })

  it('B9: a failure is not kept, and touches no output; asked for, it is given again', async () => {
    const rp = await (await world()).engine()
    const folder = project()
    mkdirSync(join(folder, 'dist'))
    writeFileSync(join(folder, 'dist/old.txt'), 'old')
    const cmd = 'echo run >> runs.log; echo half > dist/half.txt; exit 3'
    const failing = await rp.open(build(folder, { cmd }))
    expect(await failing.run()).toMatchObject({ exitCode: 3, from: 'computed', notKept: 'it ended with 3' })
    expect(await failing.run()).toMatchObject({ exitCode: 3, from: 'computed' })
    const kept = await rp.open(build(folder, { cmd, errors: '1h' }))
    await kept.run()
    expect(await kept.run()).toMatchObject({ exitCode: 3, from: 'store' })
    expect(runsOf(folder)).toBe(3)
    expect(readFileSync(join(folder, 'dist/old.txt'), 'utf8')).toBe('old')
  })

  it('B9: what is changed while it runs leaves no entry, and says so', async () => {
    const rp = await (await world()).engine()
    const folder = project()
    const restless = await rp.open(build(folder, { cmd: 'mkdir -p dist; date +%N >> src/a.txt; cp src/a.txt dist/' }))
    const ran = await restless.run()
    expect(ran.notKept).toContain('its inputs changed while it was computed')
    expect(await restless.run()).toMatchObject({ from: 'computed' })
  })
})

it('refuses patterns that lead out of the directory', () => {
  for (const pattern of ['../x', '/etc/passwd', 'a/../../b', '', 'a\nb']) {
    expect(() => command('x', { cmd: 'true', inputs: [pattern] })).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    )
    expect(() => command('x', { cmd: 'true', inputs: [], outputs: [pattern] })).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    )
  }
})

it('a planted link among the outputs is replaced, never written through', async () => {
  const rp = await open('memory:')
  const [folder, victim] = [project(), project()]
  const handle = await rp.open(build(folder, { outputs: ['dist/all.txt', 'dist/deep/tool', 'dist/link'] }))
  await handle.run()
  rmSync(join(folder, 'dist'), { recursive: true })
  const { symlinkSync } = await import('node:fs')
  symlinkSync(join(victim, 'src'), join(folder, 'dist'))
  await handle.run()
  expect(readdirSync(join(victim, 'src'))).toEqual(['a.txt'])
  expect(lstatSync(join(folder, 'dist')).isSymbolicLink()).toBe(false)
  await rp.close()
})

/** Starts a process that runs the command, and tells its lines. */
function start(
  folder: string,
  store: string,
  cmd: string,
): { readonly child: ChildProcess; said(line: string): Promise<void>; readonly ended: Promise<string> } {
  const child = spawn(process.execPath, [programPath('memo-command'), store, folder, cmd], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let all = ''
  child.stdout!.on('data', (piece) => {
    all += piece
  })
  return {
    child,
    said: (wanted) => expect.poll(() => all).toContain(wanted),
    ended: new Promise((done) => child.on('close', () => done(all))),
  }
}

it('B9: whoever waits takes over when the one that computes is killed, in each phase', async () => {
  const folder = project()
  const store = join(folder, 'store.db')
  // It waits for a file, so that the test decides when it goes on.
  const cmd =
    'echo run >> runs.log; echo begun; while [ ! -f go ]; do sleep 0.05; done; mkdir -p dist; cat src/a.txt > dist/all.txt'
  const first = start(folder, store, cmd)
  await first.said('begun')
  const second = start(folder, store, cmd)
  await second.said('asked')
  first.child.kill('SIGKILL')
  await second.said('begun')
  writeFileSync(join(folder, 'go'), '')
  expect(await second.ended).toContain('computed 0')
  expect(await start(folder, store, cmd).ended).toContain('store 0')
  expect(runsOf(folder)).toBe(2)
  expect(existsSync(join(folder, 'dist/all.txt'))).toBe(true)
})
