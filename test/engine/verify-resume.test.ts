// A verify reports its progress, yields to other work, and resumes an interrupted one. The report names the resumed part, and
// no later write counts as verified.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { openSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { unfinishedVerify } from '../../src/engine/tools/verify/progress.ts'
import type { VerifyProgress } from '../../src/engine/tools/verify/verify.ts'
import { timeline } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const log = timeline('log', {
  initial: () => ({ count: 0 }),
  apply: (state) => ({ count: state.count + 1 }),
})
const code = (expected: string) => expect.objectContaining({ code: expected })

let folder: string
let schema: string
beforeEach(() => {
  folder = temporaryFolder('verify')
  schema = newSchemaName()
})
afterEach(async () => {
  await dropSchema(inject('postgresUrl'), schema)
})

const places: readonly (readonly [string, () => Promise<Reprise>])[] = [
  ['SQLite', () => open(`sqlite:${join(folder, 'store.db')}`)],
  [
    'PostgreSQL',
    () => {
      const server = new URL(inject('postgresUrl'))
      server.searchParams.set('schema', schema)
      return open(server.href)
    },
  ],
  ['two shards', () => open({ shards: [`sqlite:${join(folder, 'a.db')}`, `sqlite:${join(folder, 'b.db')}`] })],
]

const name = (n: number) => `l${String(n).padStart(3, '0')}`

async function fill(rp: Reprise, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, n) => note(rp, n)))
}

async function note(rp: Reprise, n: number): Promise<void> {
  const handle = await rp.open(log, name(n))
  await handle.append({ type: 'noted' })
  await handle.close()
}

/** Before the next write: a verify skips timelines without a write in the second before it began. */
const later = () => new Promise((resolve) => setTimeout(resolve, 1200))

/** Aborts when it is at this timeline. */
async function interruptedAt(rp: Reprise, at: string): Promise<void> {
  const stop = new AbortController()
  const onProgress = (progress: VerifyProgress) => {
    if (progress.at === at) stop.abort()
  }
  await expect(rp.verify({ resume: true, signal: stop.signal, onProgress })).rejects.toThrow(code('ABORTED'))
}

describe.each(places)('on %s', (_, openPlace) => {
  it('an interrupted verify is resumed, and later writes are verified again', async () => {
    const rp = await openPlace()
    await fill(rp, 30)
    await later()
    await interruptedAt(rp, `log/${name(20)}`)
    expect(await unfinishedVerify(hostOf(rp).kernel)).toMatchObject({
      part: 'timelines',
      upTo: `log/${name(19)}`,
      done: 20,
    })
    await note(rp, 7)
    await note(rp, 25)
    const looked: (string | null)[] = []
    const report = await rp.verify({ resume: true, onProgress: ({ at }) => looked.push(at) })
    expect(report).toMatchObject({ ok: true, faults: [] })
    // Beside them the log of the store itself.
    expect(report.entries).toBeGreaterThanOrEqual(32)
    expect(report.earlier).toMatchObject({ upTo: `log/${name(19)}`, timelines: 19, again: 1 })
    expect(report.earlier!.from).toBeLessThanOrEqual(report.earlier!.structuresAt!)
    expect(report.earlier!.structuresAt).toBeLessThanOrEqual(report.earlier!.to)
    // It reached its end: there is nothing to resume.
    expect(await unfinishedVerify(hostOf(rp).kernel)).toBeNull()
    expect((await rp.verify({ resume: true })).earlier).toBeNull()
    await rp.close()
  })

  it('a mark that is one of another place counts for nothing', async () => {
    const rp = await openPlace()
    await fill(rp, 3)
    await later()
    await interruptedAt(rp, `log/${name(2)}`)
    const { kernel } = hostOf(rp)
    const [head] = await kernel.store.head([timelineId('reprise/store')])
    const mark = JSON.parse(String(head!.attributes.$verify))
    const { changeNotes } = await import('../../src/engine/storage/key-notes.ts')
    await changeNotes(kernel, { $verify: JSON.stringify({ ...mark, location: 'elsewhere' }) })
    expect((await rp.verify({ resume: true })).earlier).toBeNull()
    await rp.close()
  })

  it("the store's own check reports its progress, resumes from its mark, and can be aborted", async () => {
    const rp = await openPlace()
    await fill(rp, 20)
    const { store } = hostOf(rp).kernel
    const marks: string[] = []
    const parts = new Set<string>()
    const partOf = (at: { readonly part: string }) => at.part.replace(/^shard \d: /, '')
    const onProgress = (at: { readonly part: string; readonly mark: string }) => {
      parts.add(partOf(at))
      marks.push(at.mark)
    }
    expect(await store.upkeep.inspect({ onProgress })).toEqual([])
    expect(parts).toContain('timelines')
    const [first] = parts
    for (const after of [...marks, 'nonsense', '']) {
      const rest = new Set<string>()
      expect(await store.upkeep.inspect({ after, onProgress: (at) => rest.add(partOf(at)) })).toEqual([])
      // How many reports there are depends on the speed of the machine; the parts do not.
      expect([...rest].filter((part) => !parts.has(part))).toEqual([])
      if (after === marks.at(-1) && parts.size > 1) expect(rest).not.toContain(first)
      if (!marks.includes(after)) expect(rest).toContain(first)
    }
    await expect(store.upkeep.inspect({ signal: AbortSignal.abort() })).rejects.toThrow(code('ABORTED'))
    await rp.close()
  })
})

it('damage does not move the mark: a resumed verify finds it again', async () => {
  const path = join(folder, 'store.db')
  const rp = await open(`sqlite:${path}`)
  await fill(rp, 12)
  const handle = await rp.open(log, name(9))
  await handle.append({ type: 'in-a-row-of-its-own' })
  await handle.close()
  const database = (await loadDriver()).open(path, { isReadOnly: false })
  const find = `SELECT position, body FROM reprise_log WHERE instr(body, CAST('in-a-row-of-its-own' AS BLOB)) > 0`
  const { position, body } = database.prepare(find).get()! as { position: number; body: Uint8Array }
  await later()
  // The structures of the store are sound, and are not looked at again.
  await interruptedAt(rp, `log/${name(6)}`)
  const spoilt = body.map((byte, i) => (i === body.length - 2 ? byte ^ 1 : byte))
  database.prepare('UPDATE reprise_log SET body = ? WHERE position = ?').run(spoilt, position)
  database.close()
  await interruptedAt(rp, `log/${name(11)}`)
  expect(await unfinishedVerify(hostOf(rp).kernel)).toMatchObject({ upTo: `log/${name(5)}` })
  const { faults } = await rp.verify({ resume: true })
  expect(faults.map(({ timeline }) => timeline)).toEqual([`log/${name(9)}`])
  await rp.close()
})

it('a process that verifies and is killed leaves a mark to go on from', async () => {
  const url = `sqlite:${join(folder, 'store.db')}`
  const rp = await open(url)
  await fill(rp, 60)
  await rp.close()
  await later()
  const program = `
    import { open } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
    const rp = await open(${JSON.stringify(url)})
    const pause = new Int32Array(new SharedArrayBuffer(4))
    await rp.verify({ resume: true, onProgress: ({ part, done }) => {
      if (part === 'timelines') Atomics.wait(pause, 0, 0, 60)
      if (done === 40) process.kill(process.pid, 'SIGKILL')
    } })`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' })
  expect(await new Promise((resolve) => child.on('exit', (_, signal) => resolve(signal)))).toBe('SIGKILL')
  const again = await open(url)
  const report = await again.verify({ resume: true })
  expect(report).toMatchObject({ ok: true, entries: 60 })
  expect(report.earlier!.timelines).toBeGreaterThan(10)
  expect(report.earlier!.timelines).toBeLessThan(41)
  await again.close()
})

it('it yields to other work, and reports its progress', async () => {
  const rp = await open(`sqlite:${join(folder, 'store.db')}`)
  await fill(rp, 300)
  let turns = 0
  let isOver = false
  const turn = () => {
    turns += 1
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const told: unknown[] = []
  rp.events.on('progress', ({ work, part }) => told.push(`${work} ${part}`))
  await rp.verify()
  isOver = true
  expect(turns).toBeGreaterThan(1)
  expect(new Set(told)).toEqual(new Set(['verify structures', 'verify timelines', 'verify chunks', 'verify copies']))
  await rp.close()
})

it('a large file is checked on a thread of its own, which finds the same damage', async () => {
  const path = join(folder, 'store.db')
  const rp = await open(`sqlite:${path}`)
  const bulk = save<{ bytes: Uint8Array }>('bulk')
  const handle = await rp.open(bulk, 'a')
  const bytes = new Uint8Array(randomBytes(12_000_000))
  await handle.put({ bytes })
  await handle.close()
  await fill(rp, 50)
  expect(await hostOf(rp).kernel.store.upkeep.inspect()).toEqual([])
  await expect(hostOf(rp).kernel.store.upkeep.inspect({ signal: AbortSignal.abort() })).rejects.toThrow(code('ABORTED'))
  await rp.close()
  expect(statSync(path).size).toBeGreaterThan(8 * 1024 * 1024)
  // Every page from the second half on: SQLite's own check gives up or names trees.
  const file = openSync(path, 'r+')
  for (let at = 8_000_000; at < statSync(path).size; at += 4096)
    writeSync(file, Buffer.alloc(64, 7), 0, 64, at - (at % 4096))
  const again = await open(`sqlite:${path}`, { readOnly: true })
  expect((await hostOf(again).kernel.store.upkeep.inspect()).some(({ isOfFile }) => isOfFile)).toBe(true)
  await again.close()
})

it('what cannot be resumed is refused with the reason', async () => {
  const path = join(folder, 'store.db')
  const rp = await open(`sqlite:${path}`)
  await fill(rp, 2)
  await expect(rp.verify({ resume: true, repair: true })).rejects.toThrow(code('INVALID_ARGUMENT'))
  await expect(rp.verify({ resume: true, timelines: [`log/${name(0)}`] })).rejects.toThrow(code('INVALID_ARGUMENT'))
  await rp.close()
  const reading = await open(`sqlite:${path}`, { readOnly: true })
  await expect(reading.verify({ resume: true })).rejects.toThrow(code('STORE_READ_ONLY'))
  expect((await reading.verify()).ok).toBe(true)
  await reading.close()
})

it('the mark does not keep the name of a timeline that was erased', async () => {
  const rp = await open(`sqlite:${join(folder, 'store.db')}`)
  await fill(rp, 5)
  await interruptedAt(rp, `log/${name(3)}`)
  await rp.erase(`log/${name(2)}`)
  expect(await unfinishedVerify(hostOf(rp).kernel)).toBeNull()
  await rp.close()
})
