// A full disk, and one that cannot be written: writes are refused with a code, nothing acknowledged is lost, reads and exports
// continue, and writes resume when space is free again. Uses a small tmpfs, so it needs the right to mount one; elsewhere it is
// skipped with the reason.

import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { isReprise, type Reprise } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { Child, definitions, newFolder, openStore, removeFolder, type Where } from '../crash/support.ts'
import { entry, expected, show } from '../programs/crash-model.mjs'
import { hostOf } from '../support/host.ts'

const folder = newFolder()
const disk = join(folder, 'disk')

let mounts = 0

function mount(options: string): string | null {
  mkdirSync(disk, { recursive: true })
  const done = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk], { encoding: 'utf8' })
  if (done.status !== 0) {
    return `no tmpfs can be mounted here: ${(done.stderr ?? done.error?.message ?? '').trim()}`
  }
  // Files get other numbers on each mount. SQLite takes one of the same number at the same path for the same file, and a
  // connection to the disk before, closed when it is collected as garbage, would remove this disk's log.
  const pad = join(disk, 'pad')
  for (let i = 0; i < 200 * mounts; i++) {
    writeFileSync(pad, '')
    rmSync(pad)
  }
  mounts += 1
  return null
}

const reason = mount('size=1m')
if (reason) console.log(`full disk: skipped, ${reason}`)
else spawnSync('umount', [disk])

const code = (expectedCode: string) => expect.objectContaining({ code: expectedCode })
const paid = 'CREATE TABLE IF NOT EXISTS paid (n INTEGER, pad TEXT)'
/** Large enough to fill a disk soon. */
const big = (n: number) => ({ ...entry(n), pad: 'y'.repeat(20_000) })

describe.skipIf(reason)('a disk', () => {
  const open: Reprise[] = []
  const inStore: Where = { kind: 'sqlite', file: join(disk, 'store.db') }
  const inDirectory: Where = { ...inStore, chunks: join(disk, 'chunks') }

  beforeEach(() => {
    expect(mount('size=3m')).toBeNull()
  })
  afterEach(async () => {
    for (const rp of open.splice(0)) await rp.close().catch(() => undefined)
    // Lazily: whatever a failed test left open must not keep the next one from starting.
    spawnSync('umount', ['-l', disk])
  })

  async function engine(where: Where): Promise<Reprise> {
    const rp = createEngine({ store: await openStore(where) }, { worker: 'full', patience: 500 })
    open.push(rp)
    return rp
  }

  /** Leaves only this much room. */
  function fill(bytesFree: number): void {
    const { bavail, bsize } = statfsSync(disk)
    writeFileSync(
      join(disk, 'filler'),
      Buffer.alloc(Math.max(0, Math.floor((bavail * bsize - bytesFree) / bsize) * bsize)),
    )
  }

  const remount = (options: string) => expect(spawnSync('mount', ['-o', `remount,${options}`, disk]).status).toBe(0)

  async function fillWithEntries(rp: Reprise): Promise<number> {
    const handle = await rp.open(definitions.plain, 'a')
    for (let n = handle.state.last + 1; ; n++) {
      try {
        await handle.append(big(n))
      } catch (error) {
        expect(error).toEqual(code('STORE_FULL'))
        expect(handle.state.last).toBe(n - 1)
        return n - 1
      }
    }
  }

  async function readsAndExports(rp: Reprise, last: number): Promise<void> {
    const { state } = await rp.at(definitions.plain, 'a', { seq: last })
    expect(show(state)).toEqual(expected('plain', last))
    expect((await rp.verify()).faults).toEqual([])
    const { coordinate } = await rp.export({ timeline: 'plain/a', seq: last }, join(folder, 'out.reprise'))
    expect(coordinate.seq).toBe(last)
  }

  it('that is full: STORE_FULL, nothing acknowledged is lost, reads and export work, writing resumes', async () => {
    const rp = await engine(inStore)
    const last = await fillWithEntries(rp)
    expect(last).toBeGreaterThan(10)
    await readsAndExports(rp, last)
    const handle = await rp.open(definitions.plain, 'a')
    await expect(handle.append(big(last + 1))).rejects.toEqual(code('STORE_FULL'))
    remount('size=8m')
    // The same handle continues: refused writes left no trace.
    await handle.append(big(last + 1))
    expect(handle.coordinate.seq).toBe(last + 1)
    await rp.close()
    const again = await (await engine(inStore)).open(definitions.plain, 'a')
    expect(show(again.state)).toEqual(expected('plain', last + 1))
  })

  it('that is full when the program starts: it opens, reads and exports; it writes once there is room', async () => {
    const first = await engine(inStore)
    const last = await fillWithEntries(first)
    // As a crash would: nothing is closed, nothing is cleaned up.
    hostOf(first).kernel.worker.abandon()
    const rp = await engine(inStore)
    await readsAndExports(rp, last)
    await expect(rp.open(definitions.plain, 'a', { takeover: true })).rejects.toEqual(code('STORE_FULL'))
    remount('size=8m')
    const handle = await rp.open(definitions.plain, 'a', { takeover: true })
    expect(show(handle.state)).toEqual(expected('plain', last))
    await handle.append(big(last + 1))
  })

  it('that has room for nothing at all from the start', async () => {
    fill(8 * 1024)
    await expect(engine(inStore)).rejects.toSatisfy((error) => isReprise(error, 'STORE_FULL', 'STORE_IO'))
    rmSync(join(disk, 'filler'))
    const handle = await (await engine(inStore)).open(definitions.plain, 'a')
    await handle.append(entry(1))
  })

  it('whatever is left of it, an append is acknowledged and there, or refused and not there', async () => {
    // The last bytes go to the log, the marks beside it or the file itself: each amount fails somewhere else.
    for (let bytesFree = 0; bytesFree <= 220 * 1024; bytesFree += 20 * 1024) {
      const rp = await engine(inStore)
      const handle = await rp.open(definitions.ledger, `room-${bytesFree}`)
      await handle.append(entry(1))
      fill(bytesFree)
      let last = 1
      let refused = 0
      for (let n = 2; n < 40; n++) {
        try {
          await handle.append(entry(last + 1))
          last += 1
        } catch (error) {
          expect(error).toEqual(code('STORE_FULL'))
          refused += 1
        }
      }
      rmSync(join(disk, 'filler'))
      await handle.append(entry(last + 1))
      expect(show(handle.state), `${refused} refused with ${bytesFree} bytes free`).toEqual(
        expected('ledger', last + 1),
      )
      await rp.close()
      open.pop()
      const checker = await engine(inStore)
      const again = await checker.open(definitions.ledger, `room-${bytesFree}`)
      expect(again.coordinate.seq).toBe(last + 1)
      expect(show(again.state)).toEqual(expected('ledger', last + 1))
      expect((await checker.verify()).faults).toEqual([])
      await checker.close()
      open.pop()
      rmSync(join(disk, 'store.db'))
      rmSync(join(disk, 'store.db-ack'), { force: true })
    }
  })

  it('that fills up in the first commits: refused entries are absent, acknowledged ones exist', async () => {
    for (let bytesFree = 0; bytesFree <= 96 * 1024; bytesFree += 4096) {
      const rp = await engine(inStore)
      fill(bytesFree)
      const made: number[] = []
      const tryAppend = async () => {
        const handle = await rp.open(definitions.plain, 'a')
        const n = handle.state.last + 1
        await handle.append(entry(n))
        made.push(n)
      }
      for (let i = 0; i < 6; i++) await tryAppend().catch((error) => expect(error).toEqual(code('STORE_FULL')))
      rmSync(join(disk, 'filler'))
      await tryAppend()
      expect(made, `with ${bytesFree} bytes free`).toEqual(made.map((_, i) => i + 1))
      await rp.close()
      open.pop()
      spawnSync('umount', ['-l', disk])
      mount('size=3m')
    }
  })

  it("that is full when SQL of the user's needs it: STORE_FULL, and the run resumes by itself", async () => {
    remount('size=64m')
    const rp = await engine(inStore)
    const pay = workflow('pay', async (ctx, n: number) => {
      await ctx.transaction('make', (sql) => sql.run('CREATE TABLE IF NOT EXISTS paid (n INTEGER, pad TEXT)'))
      // More than SQLite keeps in memory until the COMMIT: a statement meets the full disk.
      const pad = 'z'.repeat(1_000_000)
      return await ctx.transaction('pay', async (sql) => {
        for (let i = 0; i < (n === 1 ? 1 : 15); i++) await sql.run('INSERT INTO paid VALUES (?, ?)', n, pad)
        return n
      })
    })
    await (await rp.run(pay, 1, { id: 'first' })).result()
    const codes = new Set<string>()
    const hear = ({ error }: { readonly error: unknown }) => codes.add((error as { code: string }).code)
    rp.events.on('problem', hear)
    rp.events.on('store-retry', hear)
    fill(4 * 1024 * 1024)
    const run = await rp.run(pay, 2, { id: 'second' }).catch((error) => error)
    expect(isReprise(run)).toBe(false)
    for (let i = 0; i < 200 && !codes.has('STORE_FULL'); i++) await new Promise((resolve) => setTimeout(resolve, 50))
    expect([...codes]).toEqual(['STORE_FULL'])
    rmSync(join(disk, 'filler'))
    expect(await run.result({ timeout: '30s' })).toBe(2)
    expect(await rp.sql('SELECT count(*) AS many FROM paid')).toEqual([{ many: 16 }])
  })

  it('that is full while a job records its items: none of them fails, and the job resumes by itself', async () => {
    const rp = await engine(inStore)
    await rp.run(job('tables', { source: [1], each: (_: number, ctx) => ctx.commit((sql) => sql.run(paid)) })).result()
    const isFull = new Promise<void>((resolve) => {
      rp.events.on('store-retry', ({ error }) => isReprise(error, 'STORE_FULL') && resolve())
    })
    const pay = job('pay', {
      source: Array.from({ length: 20 }, (_, n) => n),
      key: String,
      concurrency: 2,
      each: (n, ctx) => {
        if (n === 5) fill(0)
        ctx.commit((sql) => sql.run('INSERT INTO paid VALUES (?, ?)', n, 'z'.repeat(10_000)))
      },
    })
    const run = await rp.run(pay)
    await isFull
    rmSync(join(disk, 'filler'))
    expect(await run.result()).toMatchObject({ status: 'completed', done: 20, failed: 0, retried: 0 })
    expect(await rp.sql('SELECT count(*) AS many, sum(n) AS sum FROM paid')).toEqual([{ many: 20, sum: 190 }])
  })

  it('that is full in a turn of an agent or in a migration: STORE_FULL, and the rest is done when it is resumed', async () => {
    const rp = await engine(inStore)
    let [calls, attempts] = [0, 0]
    const note = tool({
      kind: 'read-only',
      run: () => {
        calls += 1
        if (calls === 1) fill(0)
        return 'z'.repeat(500_000)
      },
    })
    const bot = agent('bot', {
      tools: { note },
      model: ({ messages }) =>
        messages.at(-1)!.role === 'tool'
          ? { content: 'noted' }
          : { content: '', requests: [{ tool: 'note', args: {} }] },
    })
    await expect(rp.open(bot, 'a').turn('note it')).rejects.toEqual(code('STORE_FULL'))
    rmSync(join(disk, 'filler'))
    expect(await rp.open(bot, 'a').resume()).toMatchObject({ turn: 1, status: 'completed', content: 'noted' })
    expect(calls).toBe(2)
    const schema = migrations('schema', {
      steps: [
        { id: '001-paid', sql: paid },
        {
          id: '002-fill',
          retry: { attempts: 1 },
          run: (step) => {
            attempts += 1
            if (attempts === 1) fill(0)
            step.commit((sql) => sql.run('INSERT INTO paid VALUES (?, ?)', 1, 'z'.repeat(500_000)))
          },
        },
      ],
    })
    await expect(rp.run(schema).result()).rejects.toEqual(code('STORE_FULL'))
    rmSync(join(disk, 'filler'))
    expect((await rp.run(schema).result()).applied).toMatchObject([{ id: '002-fill' }])
    expect(await rp.sql('SELECT count(*) AS many FROM paid')).toEqual([{ many: 1 }])
  })

  it('that is full when a job is stopped: it ends after its grace, and the next run does the rest', async () => {
    const rp = await engine(inStore)
    await rp.run(job('tables', { source: [1], each: (_: number, ctx) => ctx.commit((sql) => sql.run(paid)) })).result()
    const isFull = new Promise<void>((resolve) => {
      rp.events.on('store-retry', ({ error }) => isReprise(error, 'STORE_FULL') && resolve())
    })
    const done: number[] = []
    const steps = (isFilling: boolean) =>
      job('steps', {
        source: [1, 2, 3],
        key: String,
        grace: 50,
        each: (n, ctx) => {
          if (n === 2 && isFilling) fill(0)
          done.push(n)
          ctx.commit((sql) => sql.run('INSERT INTO paid VALUES (?, ?)', n, 'z'.repeat(100_000)))
        },
      })
    const run = await rp.run(steps(true))
    await isFull
    await run.stop().catch((error) => expect(error).toEqual(code('STORE_FULL')))
    await run.result().catch((error) => expect(error).toEqual(code('STORE_FULL')))
    rmSync(join(disk, 'filler'))
    expect(await rp.run(steps(false)).result()).toMatchObject({ status: 'completed', failed: 0 })
    expect(new Set(done)).toEqual(new Set([1, 2, 3]))
    expect(await rp.sql('SELECT count(*) AS many FROM paid')).toEqual([{ many: 3 }])
  })

  it('that is full of chunks: the checkpoint fails, history continues, and the next one works', async () => {
    const rp = await engine(inDirectory)
    const handle = await rp.open(definitions.shelf, 'c')
    for (let n = 1; n <= 12; n++) await handle.append(entry(n))
    await handle.checkpoint({ full: true }).catch(() => undefined)
    fill(0)
    await handle.append(entry(13)).catch((error) => expect(error).toEqual(code('STORE_FULL')))
    await expect(handle.checkpoint({ full: true })).rejects.toEqual(code('STORE_FULL'))
    rmSync(join(disk, 'filler'))
    await handle.append(entry(handle.state.last + 1))
    await handle.checkpoint({ full: true })
    expect((await rp.verify()).faults).toEqual([])
    expect(show(handle.state)).toEqual(expected('shelf', handle.state.last))
  })

  it('that turns read-only: STORE_READ_ONLY, reads and export work, writing resumes', async () => {
    // Written by other processes: the driver keeps handles of this one open until its statements are collected.
    const write = async (count: number) => {
      const writer = new Child('crash-writer', { where: inStore, ids: ['plain/a'], count, close: true })
      await writer.ended
      expect(writer.errors).toBe('')
    }
    await write(5)
    remount('ro')
    const rp = await engine(inStore)
    await readsAndExports(rp, 5)
    await expect(rp.open(definitions.plain, 'a')).rejects.toEqual(code('STORE_READ_ONLY'))
    remount('rw')
    await write(2)
    await readsAndExports(rp, 7)
  })
})

afterAll(() => removeFolder(folder))
