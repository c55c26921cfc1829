// Commands that only read: they need neither the write lock nor the right to write, and leave the store as it is.

import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { feedStart } from '../../src/core/store/ports.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { Connection } from '../../src/stores/sqlite/file/connection.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { Child } from '../crash/support.ts'
import { binIn, cli, type Ran, workFolder } from './support.ts'

const folder = workFolder()
const original = join(folder.path, 'original', 'store.db')
const definition = `import { timeline } from 'reprise'
export const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state, entry) => ({ total: state.total + entry.by }),
})
`

/** The commands that only read. */
const reading: readonly (readonly string[])[] = [
  ['ls'],
  ['show', 'counter/a', '--module', 'counter.mjs'],
  ['log', 'counter/a'],
  ['tail', '--from', 'start', '--once'],
  ['checkpoints', 'counter/a'],
  ['at', 'counter/a@2', '--module', 'counter.mjs'],
  ['diff', 'counter/a@1', 'counter/a@3', '--module', 'counter.mjs'],
  ['card', 'counter/a', '--module', 'counter.mjs'],
  ['export', 'counter/a', 'a.rp', '--force'],
  ['verify'],
  ['prune', '--module', 'counter.mjs'],
  ['tiers'],
  ['log'],
  ['keys'],
  ['workers'],
  ['queues'],
  ['dead'],
]

beforeAll(async () => {
  mkdirSync(join(folder.path, 'original'))
  writeFileSync(join(folder.path, 'counter.mjs'), definition)
  writeFileSync(
    join(folder.path, 'make.mjs'),
    `import { open } from 'reprise'
import { counter } from './counter.mjs'
const rp = await open('sqlite:${original}')
const a = await rp.open(counter, 'a')
for (let i = 0; i < 3; i++) await a.append({ type: 'added', by: 1 })
await a.checkpoint()
// As a kill leaves it: with a write-ahead log.
process.kill(process.pid, 'SIGKILL')
`,
  )
  spawnSync(process.execPath, ['make.mjs'], { cwd: folder.path })
  expect(existsSync(`${original}-wal`)).toBe(true)
  chmodSync(folder.path, 0o777)
})
afterAll(() => folder.remove())

function copyOf(name: string, ends: readonly string[]): string {
  const path = join(folder.path, name)
  mkdirSync(path)
  for (const end of ends) cpSync(original + end, join(path, `store.db${end}`))
  return join(path, 'store.db')
}

async function checkpointed(file: string): Promise<void> {
  const connection = new Connection(await loadDriver(), file, false)
  connection.checkpoint()
  connection.close()
  for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true })
}

async function expectReads(run: (args: readonly string[]) => Promise<Ran> | Ran, commands = reading): Promise<void> {
  for (const args of commands) {
    const ran = await run(args)
    expect({ args, code: ran.code, stderr: ran.code === 0 ? '' : ran.stderr }).toEqual({ args, code: 0, stderr: '' })
    if (args[0] === 'ls') expect(ran.stdout).toContain('counter/a')
  }
}

describe('while another process is stopped inside a commit', () => {
  it('every read works, and a writer gets the holder of the lock', async () => {
    const file = copyOf('locked', ['', '-wal', '-ack'])
    const url = ['--url', `sqlite:${file}`]
    const holder = new Child('lock-holder', file)
    await holder.until((child) => child.lines.length > 0)
    holder.signal('SIGSTOP')
    try {
      await expectReads((args) => cli([...args, ...url], { cwd: folder.path }))
      const doctor = await cli(['doctor', ...url], { cwd: folder.path })
      expect(doctor.stdout).toContain('sqlite at')
      expect(doctor.stdout).not.toContain('STORE_')
      const writing = await cli(['savepoint', 'counter/a', '--module', 'counter.mjs', ...url], { cwd: folder.path })
      expect(writing.stderr).toContain('STORE_BUSY')
      expect(writing.stderr).not.toMatch(/check the url/i)
      if (existsSync('/proc/locks')) {
        expect(writing.stderr).toContain(`process ${holder.process.pid} (`)
        expect(writing.stderr).toContain('is stopped')
      }
    } finally {
      holder.signal('SIGCONT')
      await holder.kill()
    }
  })
})

describe('a store that cannot be written', () => {
  const states: Readonly<Record<string, (file: string) => void | Promise<void>>> = {
    'closed in order': checkpointed,
    'left by a process that was killed': () => undefined,
    'moved without its shared memory': (file) => rmSync(`${file}-shm`, { force: true }),
  }

  for (const [state, prepare] of Object.entries(states)) {
    it(`on a read-only mount or in a read-only folder, ${state}, is read and exported`, async () => {
      const file = copyOf(`mount-${Object.keys(states).indexOf(state)}`, ['', '-wal', '-shm', '-ack'])
      await prepare(file)
      const place = join(file, '..')
      const before = readdirSync(place)
      const undo = makeReadOnly(place)
      try {
        const url = ['--url', `sqlite:${file}`]
        const some = reading.filter(([name]) => ['ls', 'at', 'export', 'verify'].includes(name!))
        await expectReads((args) => cli([...args, ...url], { cwd: folder.path }), some)
        const writing = await cli(['savepoint', 'counter/a', '--module', 'counter.mjs', ...url], { cwd: folder.path })
        expect(writing.stderr).toContain('STORE_READ_ONLY')
        const doctor = await cli(['doctor', ...url], { cwd: folder.path })
        expect(doctor.stdout).toContain('sqlite at')
        expect(readdirSync(place)).toEqual(before)
      } finally {
        undo()
      }
    })
  }

  it('changes by others are seen where they are made, in order and by a process that is killed', async () => {
    const file = copyOf('changing', ['', '-wal', '-ack'])
    await checkpointed(file)
    const { view, write, undo } = viewOf(join(file, '..'))
    const store = await openSqlite(join(view, 'store.db'), { namespace: 'default', hash: sha256, readOnly: true })
    const seen = async () => (await store.head([timelineId('counter/a')]))[0]!.seq
    const append = (end: string) =>
      write(() => {
        const program = `import { open } from 'reprise'
import { counter } from './counter.mjs'
const rp = await open('sqlite:${file}')
await (await rp.open(counter, 'a', { takeover: true })).append({ type: 'added', by: 1 })
${end}`
        spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: folder.path })
      })
    try {
      expect((await store.upkeep.facts()).durability).toEqual({ access: 'read only' })
      expect(await seen()).toBe(3)
      append('await rp.close()')
      expect(await seen()).toBe(4)
      append(`process.kill(process.pid, 'SIGKILL')`)
      expect(await seen()).toBe(5)
      expect((await store.feed(feedStart, { prefixes: ['counter/'] }, 100)).items.length).toBe(5)
      await expect(store.commit([])).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
    } finally {
      await store.close()
      undo()
    }
  })

  it('a file that only its owner may write is read by others', async () => {
    const file = copyOf('foreign', ['', '-wal', '-ack'])
    await checkpointed(file)
    const bytes = readFileSync(file)
    chmodSync(file, 0o444)
    chmodSync(join(file, '..'), 0o777)
    const uid = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
    await expectReads((args) => {
      const given = [binIn(folder.path), ...args, '--url', `sqlite:${file}`]
      const { status, signal, stdout, stderr } = spawnSync(process.execPath, given, {
        cwd: folder.path,
        encoding: 'utf8',
        ...uid,
      })
      rmSync(join(folder.path, 'a.rp'), { force: true })
      return { code: status, signal, stdout, stderr }
    })
    expect(readFileSync(file).equals(bytes)).toBe(true)
  })

  /**
   * A place where the same files cannot be written, and a function that writes them anyway. Unmounting may fail with EBUSY:
   * the driver for older Nodes closes a file when its statements are collected.
   */
  function viewOf(place: string): { view: string; write: (work: () => void) => void; undo: () => void } {
    if (process.getuid?.() === 0) {
      const view = `${place}-view`
      mkdirSync(view)
      spawnSync('mount', ['--bind', place, view])
      spawnSync('mount', ['-o', 'remount,ro,bind', view])
      return { view, write: (work) => work(), undo: () => void spawnSync('umount', ['-l', view]) }
    }
    const write = (work: () => void) => {
      chmodSync(place, 0o755)
      work()
      chmodSync(place, 0o555)
    }
    write(() => undefined)
    return { view: place, write, undo: () => chmodSync(place, 0o755) }
  }

  /** Root makes a read-only mount of the folder; for other users the folder's mode is enough. */
  function makeReadOnly(place: string): () => void {
    if (process.getuid?.() !== 0) {
      chmodSync(place, 0o555)
      return () => chmodSync(place, 0o755)
    }
    const mount = (...args: string[]) => spawnSync('mount', args, { encoding: 'utf8' })
    const [bound, remounted] = [mount('--bind', place, place), mount('-o', 'remount,ro,bind', place)]
    expect([bound.stderr, remounted.stderr]).toEqual(['', ''])
    return () => void spawnSync('umount', [place])
  }
})

describe('a command that fails', () => {
  it.each([
    [['run', 'nofile.mjs']],
    [['run', 'broken.mjs']],
    [['run', 'counter.mjs', 'nothing']],
    [['run', 'job.mjs', '--input', '{no json']],
    [['work', 'nofile.mjs']],
    [['import', 'nofile']],
    [['import', 'garbage.rp']],
    [['ls']],
    [['doctor']],
  ])('%j leaves no store behind', async (args) => {
    const at = join(folder.path, `failing-${args.join('-').replace(/\W/g, '_')}`)
    mkdirSync(at)
    writeFileSync(join(at, 'counter.mjs'), definition)
    writeFileSync(join(at, 'broken.mjs'), 'export const x = (')
    writeFileSync(
      join(at, 'job.mjs'),
      `import { job } from 'reprise/job'\nexport const few = job('few', { source: [1], key: String, each: () => 1 })\n`,
    )
    writeFileSync(join(at, 'garbage.rp'), 'this is no export')
    const before = readdirSync(at)
    const ran = await cli(args, { cwd: at })
    if (args[0] !== 'doctor') expect(ran.code).not.toBe(0)
    expect(readdirSync(at)).toEqual(before)
  })

  it('one that works makes it', async () => {
    const at = join(folder.path, 'working')
    mkdirSync(at)
    writeFileSync(
      join(at, 'job.mjs'),
      `import { job } from 'reprise/job'\nexport const few = job('few', { source: [1, 2], key: String, each: () => 1 })\n`,
    )
    const ran = await cli(['run', 'job.mjs'], { cwd: at })
    expect(ran).toMatchObject({ code: 0 })
    expect(existsSync(join(at, '.reprise/reprise.db'))).toBe(true)
  })
})
