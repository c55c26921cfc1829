// The location of the file: behind links, in a read-only folder, and the resources released when it is closed.

import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '../../core/store/ports.ts'
import { expectOk, hash, Kit, message } from '../../testing/conformance/kit.ts'
import { describeHolder, lockHolder } from './file/lock-holder.ts'
import { realPath } from './file/real-path.ts'
import { openSqlite, type SqliteOptions } from './index.ts'

let directory: string
let stores: Store[]

beforeEach(() => {
  directory = realPath(mkdtempSync(join(tmpdir(), 'reprise-place-')))
  stores = []
})
afterEach(async () => {
  for (const store of stores) await store.close()
  rmSync(directory, { recursive: true, force: true })
})

async function openKit(file: string, options: Partial<SqliteOptions> = {}): Promise<Kit> {
  const open = async () => {
    const store = await openSqlite(file, { namespace: 'default', hash, ...options })
    stores.push(store)
    return store
  }
  return new Kit(await open(), open, {})
}

async function closeAll(): Promise<void> {
  for (const store of stores.splice(0)) await store.close()
}

/** Leaves the store as a kill does: with twenty commits in the write-ahead log. */
async function leaveStore(file: string): Promise<void> {
  const live = join(directory, 'live.db')
  const kit = await openKit(live)
  const a = await kit.create('a')
  for (let i = 0; i < 20; i++) await a.append(`entry ${i}`)
  for (const end of ['', '-wal', '-ack']) copyFileSync(live + end, file + end)
}

describe('a store behind a link', () => {
  it.each([
    ['to the file', 'link.db', 'store.db'],
    ['to a link', 'second.db', 'link.db'],
    ['to its folder', 'folder/store.db', ''],
  ])('G7: a flipped bit in the write-ahead log is found, whoever comes by a link %s', async (_, name, target) => {
    const file = join(directory, 'store.db')
    await leaveStore(file)
    if (name.startsWith('folder')) symlinkSync(directory, join(directory, 'folder'))
    else {
      if (target === 'link.db') symlinkSync('store.db', join(directory, target))
      symlinkSync(target, join(directory, name))
    }
    const log = readFileSync(`${file}-wal`)
    log[Math.floor(log.length / 2)]! ^= 1
    writeFileSync(`${file}-wal`, log)
    await expect(openKit(join(directory, name))).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    expect(readFileSync(`${file}-wal`).equals(log)).toBe(true)
  })

  it('G1: the acknowledged position is stored beside the file itself, and looked up there', async () => {
    const file = join(directory, 'inside', 'store.db')
    mkdirSync(join(directory, 'inside'))
    symlinkSync('inside/store.db', join(directory, 'link.db'))
    const kit = await openKit(join(directory, 'link.db'))
    await (await kit.create('a')).append('one')
    await closeAll()
    expect(existsSync(`${file}-ack`)).toBe(true)
    expect(existsSync(join(directory, 'link.db-ack'))).toBe(false)
    rmSync(file)
    await expect(openKit(join(directory, 'link.db'))).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  })

  it('a link that leads in circles is an error', async () => {
    symlinkSync('b.db', join(directory, 'a.db'))
    symlinkSync('a.db', join(directory, 'b.db'))
    await expect(openKit(join(directory, 'a.db'))).rejects.toThrow()
  })
})

describe('a store that is opened to read', () => {
  it('verify reports a missing end, although the store was opened in spite of it', async () => {
    const file = join(directory, 'store.db')
    await leaveStore(file)
    const log = readFileSync(`${file}-wal`)
    log[log.length - 4 * 4120]! ^= 1
    writeFileSync(`${file}-wal`, log)
    const reading = await openKit(file, { readOnly: true })
    expect(await reading.store.upkeep.inspect()).toContainEqual({
      where: 'log',
      what: expect.stringContaining('damaged in frame'),
    })
    await expect(openKit(file, { readOnly: true, refusesDamage: true })).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
    })
  })
})

describe('a lock', () => {
  it.runIf(existsSync('/proc/locks'))('is held by this process, and then by nobody', async () => {
    const file = join(directory, 'store.db')
    const kit = await openKit(file)
    const a = await kit.create('a')
    let seen = ''
    expectOk(
      await a.commit({
        userSql: async () => {
          seen = describeHolder(lockHolder(file)!)
        },
      }),
    )
    expect(seen).toBe('this process holds the write lock')
    expect(lockHolder(file)).toBeNull()
  })
})

describe('a store that is moved, removed or replaced while it is open', () => {
  const file = () => join(directory, 'store.db')
  const ends = ['', '-wal', '-shm', '-ack']
  const changes: Readonly<Record<string, (other: string) => void>> = {
    'the file is removed': () => rmSync(file()),
    'an older copy is put in its place': (other) => renameSync(other, file()),
    'all of it is moved away': () => {
      for (const end of ends) renameSync(file() + end, join(directory, `moved.db${end}`))
    },
    'another process removes the log': () => {
      for (const end of ['-wal', '-shm']) rmSync(file() + end)
    },
  }

  for (const [name, change] of Object.entries(changes)) {
    it(`G1: nothing is acknowledged after ${name}, also on repetition`, async () => {
      const kit = await openKit(file())
      const a = await kit.create('a')
      await a.append('kept')
      copyFileSync(file(), join(directory, 'older.db'))
      const mark = readFileSync(`${file()}-ack`)
      change(join(directory, 'older.db'))
      const commit = a.plan({ run: a.run('lost') })
      for (const more of [{}, {}, { send: [message('b', 'm')] }]) {
        await expect(kit.store.commit([{ ...commit, ...more }])).rejects.toMatchObject({ code: 'STORE_MOVED' })
      }
      await expect(kit.beat('w')).rejects.toMatchObject({ code: 'STORE_MOVED' })
      // The mark belongs to the other file by now.
      if (existsSync(`${file()}-ack`)) expect(readFileSync(`${file()}-ack`).equals(mark)).toBe(true)
    })
  }
})

describe('a store that was closed', () => {
  it.runIf(existsSync('/proc/self/fd'))('holds no descriptor, though the store is still referenced', () => {
    const program = `
      import { readdirSync, readlinkSync } from 'node:fs'
      import { open } from '${new URL('../../../dist/index.js', import.meta.url).href}'
      const rp = await open('sqlite:${join(directory, 'store.db')}')
      await rp.send('x', 'kind', 1)
      await rp.list()
      await rp.close()
      // The driver for older Nodes closes the file when its statements are collected.
      for (let i = 0; i < 20; i++) { gc(); await new Promise((resolve) => setImmediate(resolve)) }
      const open_ = readdirSync('/proc/self/fd').map((n) => { try { return readlinkSync('/proc/self/fd/' + n) } catch { return '' } })
      console.log(open_.filter((path) => path.includes('store.db')).length, typeof rp)`
    const ran = spawnSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', program], { encoding: 'utf8' })
    expect(ran.stdout.trim()).toBe('0 object')
  })
})
