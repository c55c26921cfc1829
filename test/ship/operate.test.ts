// Shipping as operators see it: the doctor, the drill, verify, keys, and an unreachable place.

import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { restoreShipped } from '../../src/tools.ts'
import { cli, live, type Ran } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { newBucket, startProxy, startS3 } from '../s3/support.ts'
import { newGate } from '../support/fixture.ts'

const notes = save<{ readonly text: string }>('notes')
let folder: string
let url: string

beforeEach(() => {
  folder = newFolder()
  url = `sqlite:${join(folder, 'a.db')}`
})
afterEach(() => removeFolder(folder))

const run = (...args: string[]): Promise<Ran> => cli([...args, '--json'], { cwd: folder, env: { REPRISE_URL: url } })
const said = (ran: Ran) => JSON.parse(ran.stdout) as Record<string, unknown>

async function write(text: string, keys?: Parameters<typeof open>[1]): Promise<void> {
  const rp = await open(url, { housekeeping: false, ...keys })
  const saved = await rp.open(notes)
  await saved.put({ text })
  await saved.close()
  await rp.close()
}

async function shippingCheck(): Promise<{ state: string; what: string; code: number | null }> {
  const ran = await run('doctor')
  const { checks } = said(ran) as { checks: { name: string; state: string; what: string }[] }
  return { ...checks.find(({ name }) => name === 'shipping')!, code: ran.code }
}

describe('operating a shipped store', () => {
  it('A4.6: a drill measures the loss and the duration of a restore, and the doctor reports a missing shipper', async () => {
    await write('first')
    expect((await run('ship', 'place', '--once')).code).toBe(0)
    const drilled = await run('drill', '--shipped', 'place')
    expect(drilled.code).toBe(0)
    expect(said(drilled)).toMatchObject({ ok: true, positionsBehind: 0, rpoMs: 0, lost: null, faults: [] })
    // The report of the drill itself is newer: after it is shipped, only later commits are behind.
    await run('ship', 'place', '--once')
    expect(await shippingCheck()).toMatchObject({ state: 'warning', code: 0 })
    await write('second')
    expect(await shippingCheck()).toMatchObject({ state: 'bad', code: 1 })
    const late = said(await run('drill', '--shipped', 'place')) as { positionsBehind: number; rpoMs: number }
    expect(late).toMatchObject({ ok: true })
    expect(late.positionsBehind).toBeGreaterThan(0)
    expect(late.rpoMs).toBeGreaterThan(0)
    const reports = (await run('log', '--kind', 'drill')).stdout
    expect(reports).toContain('would be lost')
  }, 120_000)

  it('A1.3: damage at the place is found by verify and by the drill; a restore uses the newest sound record, and reports it', async () => {
    for (const text of ['first', 'second', 'third']) {
      await write(text)
      await run('ship', 'place', '--once')
    }
    expect((await run('ship', 'place', '--verify')).code).toBe(0)
    const names = readdirSync(join(folder, 'place/log')).sort()
    const last = join(folder, 'place/log', names.at(-1)!)
    const bytes = readFileSync(last)
    bytes[bytes.length - 20]! ^= 4
    writeFileSync(last, bytes)
    const verified = await run('ship', 'place', '--verify')
    expect(verified.code).toBe(8)
    expect(said(verified)).toMatchObject({ ok: false, faults: [{ where: `record ${names.length}` }] })
    expect((await run('drill', '--shipped', 'place')).code).toBe(8)
    const restored = await run('restore', 'place', '--into', 'sqlite:b.db')
    expect(restored.code).toBe(3)
    expect(said(restored)).toMatchObject({ lost: { from: names.length, to: names.length } })
    const rp = await open(`sqlite:${join(folder, 'b.db')}`, { housekeeping: false })
    expect((await (await rp.open(notes)).latest()).value.text).toBe('second')
    await rp.close()
    // The next shipper passes the damaged record by with a base of its own.
    await run('ship', 'place', '--once')
    expect(said(await run('restore', 'place', '--into', 'sqlite:c.db'))).toMatchObject({ lost: null })
    // A restore never overwrites a store, nor the remains of one.
    expect((await run('restore', 'place', '--into', 'sqlite:c.db')).code).toBe(6)
    rmSync(join(folder, 'c.db'))
    writeFileSync(join(folder, 'c.db-wal'), 'of another life')
    expect((await run('restore', 'place', '--into', 'sqlite:c.db')).code).toBe(6)
  }, 120_000)

  it('A8.6: with a key ring nothing leaves in plain text, and without it nothing comes back', async () => {
    const key = randomBytes(32)
    await write('a secret word', { keys: { current: 'k1', keys: { k1: key } } })
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ current: 'k1', keys: { k1: key.toString('base64') } }))
    expect((await run('ship', 'place', '--once')).code).not.toBe(0)
    // A ring of other keys would leave data that the store's own keys do not open.
    const other = randomBytes(32).toString('base64')
    writeFileSync(join(folder, 'other.json'), JSON.stringify({ current: 'k2', keys: { k2: other } }))
    const refused = await run('ship', 'place', '--once', '--keys', 'other.json')
    expect(refused.stderr).toContain('KEY_MISSING')
    expect(existsSync(join(folder, 'place/log')) ? readdirSync(join(folder, 'place/log')) : []).toEqual([])
    expect((await run('ship', 'place', '--once', '--keys', 'keys.json')).code).toBe(0)
    for (const name of readdirSync(join(folder, 'place'), { recursive: true, encoding: 'utf8' })) {
      if (!/\d$/.test(name)) continue
      const object = readFileSync(join(folder, 'place', name)).toString('latin1')
      expect([name, /secret|save\/notes|CREATE TABLE|SQLite format/.test(object)]).toEqual([name, false])
    }
    const without = await run('restore', 'place', '--into', 'sqlite:b.db')
    expect(without.stderr).toContain('KEY_MISSING')
    expect((await run('restore', 'place', '--into', 'sqlite:b.db', '--keys', 'keys.json')).code).toBe(0)
    expect((await run('drill', '--shipped', 'place', '--keys', 'keys.json')).code).toBe(0)
  }, 120_000)

  it('A7.3: data in tiers is not shipped, and ship names the places that must be kept', async () => {
    await write('first')
    expect((await cli(['ship', 'place', '--once'], { cwd: folder, env: { REPRISE_URL: url } })).stderr).not.toContain(
      'tier',
    )
    await write('second', { tiers: { cold: { at: join(folder, 'cold-place'), after: '1d', history: true } } })
    const ran = await cli(['ship', 'place', '--once'], { cwd: folder, env: { REPRISE_URL: url } })
    expect(ran.code).toBe(0)
    expect(ran.stderr).toMatch(/chunks and history that moved to the tier cold \(.*cold-place\) are not shipped/)
  }, 60_000)
})

describe('shipping inside the application', () => {
  it('ends when the engine is closed, and everything acknowledged is shipped', async () => {
    const rp = await open(url, { housekeeping: false })
    const place = join(folder, 'place')
    const { opened: begun, open: isThere } = newGate()
    const shipping = rp.ship(place, { every: '20ms', onStatus: ({ record }) => record > 0 && isThere() })
    await begun
    // A second one would fence the first.
    await expect(rp.ship(`${place}/`, { once: true })).rejects.toMatchObject({ code: 'CONFLICT' })
    const saved = await rp.open(notes)
    for (let n = 0; n < 20; n++) await saved.put({ text: `number ${n}` })
    await rp.close()
    expect((await shipping).record).toBeGreaterThan(0)
    const { file, lost, record, position, at, isLater } = await restoreShipped(place, `sqlite:${join(folder, 'b.db')}`)
    expect([lost, isLater]).toEqual([null, false])
    const points = { record: [record, record + 1], position: [position, position + 1], time: [at, at + 1] }
    for (const [kind, values] of Object.entries(points)) {
      for (const [index, value] of values.entries()) {
        const into = `sqlite:${join(folder, `${kind}-${index}.db`)}`
        const there = await restoreShipped(place, into, { at: { [kind]: value } as never })
        expect([kind, there.record, there.isLater]).toEqual([kind, record, index === 1])
      }
    }
    // A bare number is a time; before the first record, and for anything else, the error has a code.
    const bare = (value: unknown) => restoreShipped(place, `sqlite:${join(folder, 'bare.db')}`, { at: value as never })
    await expect(bare(5)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    for (const value of [Number.NaN, 'yesterday', {}, [], { record: 'one' }, null]) {
      await expect(bare(value), String(value)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    expect((await bare(at + 1)).record).toBe(record)
    const other = await open(`sqlite:${file}`, { housekeeping: false })
    expect((await (await other.open(notes)).latest()).value.text).toBe('number 19')
    expect((await other.verify()).faults).toEqual([])
    await other.close()
    await expect((await open('memory:')).ship(place)).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED' })
  }, 60_000)
})

const server = await startS3()
describe.skipIf(server === null)(`a place that is away (${server?.kind})`, () => {
  it('the application continues, the doctor shows it, and everything is shipped when the place is back', async () => {
    const proxy = await startProxy(server!.endpoint)
    const place = (await newBucket(server!.endpoint)).replace(server!.endpoint, proxy.endpoint)
    await write('first')
    const shipper = live(['ship', place, '--every', '50ms'], { cwd: folder, env: { REPRISE_URL: url } })
    try {
      await shipper.until(/shipping to/)
      proxy.fault = () => 503
      await write('second')
      await shipper.until(/refused the records/)
      await write('third')
      expect((await shippingCheck()).what).toContain('has accepted nothing')
      proxy.fault = () => 'pass'
      await shipper.until(/back: shipping/)
      expect((await run('restore', place, '--into', 'sqlite:b.db')).code).toBe(0)
      const rp = await open(`sqlite:${join(folder, 'b.db')}`, { housekeeping: false })
      expect((await (await rp.open(notes)).latest()).value.text).toBe('third')
      await rp.close()
    } finally {
      await shipper.end('SIGKILL')
      await proxy.close()
      await server!.close()
    }
  }, 120_000)
})
