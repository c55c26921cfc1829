// Cached commands: outputs with modes, links and deletions are restored completely, printed output is repeated, and a process
// that dies in the middle leaves no partial output.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
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
import { hostOf } from '../support/host.ts'
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

/** Counts its runs in a file that is not an output. */
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
  it('B9: a hit restores outputs with modes, links and deletions, and repeats the printed output', async () => {
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
    expect(text(again.output)).toEqual(['stderr: careful\n', 'stdout: built\n'])
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

  it('B9: a failure is not stored, and changes no output; on request, it is stored and returned', async () => {
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

  it('B9: an input that changes during the run prevents an entry, and is reported', async () => {
    const rp = await (await world()).engine()
    const folder = project()
    const restless = await rp.open(build(folder, { cmd: 'mkdir -p dist; date +%N >> src/a.txt; cp src/a.txt dist/' }))
    const ran = await restless.run()
    expect(ran.notKept).toContain('its inputs changed while it was computed')
    expect(await restless.run()).toMatchObject({ from: 'computed' })
  })
})

it('refuses patterns that lead out of the directory', () => {
  expect(() => command('x', { cmd: 'true', inputs: [], outputs: ['../x'] })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  )
  for (const pattern of ['a/../x', '../a/../x', '/etc/passwd', 'a/../../b', '', 'a\nb']) {
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

it('B9: two runs of other keys in one directory do not remember each other', async () => {
  const rp = await open('memory:')
  const folder = project()
  const write = (mode: string, wait: string) =>
    command('mode', {
      cmd: `mkdir -p dist; echo ${mode} > dist/mode; ${wait}; echo ${mode} > dist/end`,
      directory: folder,
      inputs: [],
      outputs: ['dist/**'],
    })
  const [slow, quick] = [await rp.open(write('a', 'sleep 0.5')), await rp.open(write('b', 'true'))]
  await Promise.all([slow.run(), quick.run()])
  for (const [handle, mode] of [
    [slow, 'a'],
    [quick, 'b'],
  ] as const) {
    rmSync(join(folder, 'dist'), { recursive: true })
    expect(await handle.run()).toMatchObject({ exitCode: 0, notKept: null })
    const read = (name: string) => readFileSync(join(folder, 'dist', name), 'utf8').trim()
    expect([read('mode'), read('end')]).toEqual([mode, mode])
  }
  await rp.close()
})

it('B9: an input that changes and changes back, a file that comes and goes: no entry', async () => {
  const rp = await open('memory:')
  const folder = project()
  const runs = [
    'cp -p src/a.txt keep; echo B > src/a.txt; cat src/a.txt > dist/o; cp -p keep src/a.txt',
    'touch src/x; ls src > dist/o; rm src/x',
  ]
  for (const cmd of runs) {
    const handle = await rp.open(build(folder, { cmd: `mkdir -p dist; ${cmd}` }))
    expect((await handle.run()).notKept).toContain('its inputs changed')
  }
  await rp.close()
})

it('B9: files that this run did not write, unmatched patterns, and inputs are not stored as outputs', async () => {
  const rp = await open('memory:')
  const folder = project()
  mkdirSync(join(folder, 'dist'))
  writeFileSync(join(folder, 'dist/old.txt'), 'of another build')
  expect((await (await rp.open(build(folder))).run()).notKept).toContain('dist/old.txt existed before')
  const cleaned = await rp.open(build(folder, { clean: true }))
  expect((await cleaned.run()).notKept).toContain('dist/old.txt existed before and was not rewritten')
  expect(readdirSync(join(folder, 'dist')).sort()).toEqual(['all.txt', 'deep', 'link', 'old.txt'])
  rmSync(join(folder, 'dist/old.txt'))
  expect(await cleaned.run()).toMatchObject({ notKept: null, outputs: ['dist/all.txt', 'dist/deep/tool', 'dist/link'] })
  expect((await (await rp.open(build(folder, { outputs: ['dits/**'] }))).run()).notKept).toContain('no file matches')
  const both = await rp.open(build(folder, { outputs: ['**'] }))
  expect((await both.run()).notKept).toMatch(/is an input and an output|existed before/)
  await rp.close()
})

it('files that are never outputs stay when a folder is restored', async () => {
  const rp = await open('memory:')
  const folder = project()
  const handle = await rp.open(build(folder))
  await handle.run()
  mkdirSync(join(folder, 'dist/.git'))
  writeFileSync(join(folder, 'dist/.git/HEAD'), 'work')
  rmSync(join(folder, 'dist/all.txt'))
  expect(await handle.run()).toMatchObject({ from: 'store', isInPlace: false })
  expect(readdirSync(join(folder, 'dist')).sort()).toEqual(['.git', 'all.txt', 'deep', 'link'])
  await rp.close()
})

it('B9: links count with their targets, and directories behind links are refused; our input is not read', async () => {
  const { symlinkSync } = await import('node:fs')
  const rp = await open('memory:')
  const folder = project()
  writeFileSync(join(folder, 'target'), '1')
  symlinkSync('../target', join(folder, 'src/link'))
  const handle = await rp.open(build(folder))
  await handle.run()
  writeFileSync(join(folder, 'target'), '2')
  expect(await handle.explain()).toMatchObject({ isHit: false, why: 'file src/link changed' })
  symlinkSync('src', join(folder, 'behind'))
  const refused = expect.objectContaining({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('link to a directory'),
  })
  await expect((await rp.open(build(folder, { inputs: ['behind/**'] }))).run()).rejects.toEqual(refused)
  const reads = await rp.open(command('reads', { cmd: 'cat', directory: folder, inputs: [] }))
  expect(await reads.run()).toMatchObject({ exitCode: 0, output: [] })
  await rp.close()
})

/** Starts a process that runs the command, and yields its lines. */
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

it('B9: a waiting process takes over when the computing one is killed, in each phase', async () => {
  const folder = project()
  const store = join(folder, 'store.db')
  // It waits for a file, so that the test decides when it continues.
  const cmd =
    'echo run >> runs.log; echo begun; while [ ! -f go ]; do sleep 0.05; done; mkdir -p dist; cat src/a.txt > dist/all.txt'
  const first = start(folder, store, cmd)
  await first.said('begun')
  const second = start(folder, store, cmd)
  await second.said('asked')
  first.child.kill('SIGKILL')
  // The descendants of the first one are still running, and are waited for.
  writeFileSync(join(folder, 'go'), '')
  await second.said('begun')
  expect(await second.ended).toContain('computed 0')
  expect(await start(folder, store, cmd).ended).toContain('store 0')
  expect(runsOf(folder)).toBe(2)
  expect(existsSync(join(folder, 'dist/all.txt'))).toBe(true)
})

it('B9: descendants of a killed process are waited for, and never mixed into the next run', async () => {
  const folder = project()
  const store = join(folder, 'store.db')
  const cmd = (mode: string) =>
    `echo begun; mkdir -p dist; echo ${mode} > dist/1; while [ ! -f go ]; do sleep 0.05; done; echo ${mode} > dist/2`
  const first = start(folder, store, cmd('old'))
  await first.said('begun')
  await expect.poll(() => existsSync(join(folder, 'dist/1'))).toBe(true)
  first.child.kill('SIGKILL')
  const second = start(folder, store, cmd('new'))
  await second.said('asked')
  writeFileSync(join(folder, 'go'), '')
  expect(await second.ended).toContain('computed 0')
  const read = () => ['1', '2'].map((name) => readFileSync(join(folder, 'dist', name), 'utf8').trim())
  expect(read()).toEqual(['new', 'new'])
})

it.each(['removed', 'changed'])(
  'B9: a chunk of an artifact that was %s is a miss: nothing of it is put in place, and it is made anew',
  async (how) => {
    const folder = project()
    writeFileSync(join(folder, 'src/large.bin'), randomBytes(3_000_000))
    const rp = await open('memory:', { redundancy: false })
    const problems: unknown[] = []
    rp.events.on('problem', ({ error }) => problems.push((error as { code?: unknown }).code))
    const cmd = 'echo run >> runs.log; mkdir -p dist && cp src/large.bin dist/a && cp src/a.txt dist/b'
    const handle = await rp.open(build(folder, { cmd, clean: true }))
    expect(await handle.run()).toMatchObject({ from: 'computed', notKept: null })
    const { blobs } = hostOf(rp).kernel.store
    const { get } = blobs
    // The last of them: a reader that had restored its chunks so far would leave half of an artifact.
    const chunks = await blobs.list(null, 1000)
    const sizes = chunks.filter(({ bytes }) => bytes > 16_000)
    const { digest: victim } = sizes.at(-1)!
    blobs.get = async (digests) => {
      const found = await get.call(blobs, digests)
      return found.map((bytes, i) => {
        if (!bytes || Buffer.compare(digests[i]!, victim) !== 0 || runsOf(folder) > 1) return bytes
        return how === 'removed' ? null : bytes.map((byte, at) => (at === 100 ? byte ^ 1 : byte))
      })
    }
    writeFileSync(join(folder, 'dist/a'), 'mine')
    rmSync(join(folder, 'dist/b'))
    expect(await handle.run()).toMatchObject({ from: 'computed', notKept: null, isInPlace: true })
    expect(problems).toEqual([how === 'removed' ? 'CHUNK_MISSING' : 'CHUNK_DAMAGED'])
    expect(runsOf(folder)).toBe(2)
    expect(readFileSync(join(folder, 'dist/a')).equals(readFileSync(join(folder, 'src/large.bin')))).toBe(true)
    rmSync(join(folder, 'dist'), { recursive: true })
    expect(await handle.run()).toMatchObject({ from: 'store', isInPlace: false })
    expect(readFileSync(join(folder, 'dist/a')).equals(readFileSync(join(folder, 'src/large.bin')))).toBe(true)
    expect(await handle.run()).toMatchObject({ from: 'store', isInPlace: true })
    await rp.close()
  },
)
