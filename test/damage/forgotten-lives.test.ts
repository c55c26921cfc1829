// G7, G8: the lives of deleted ids. A damaged one must not give an id the keys of an earlier life: an outside system would answer
// with the result of a call from then. Each life is stored twice; verify names damage to either place, and repair ends it.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { pastName } from '../../src/core/identity.ts'
import type { PastLife } from '../../src/core/store/ports.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, type Reprise } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { hostOf } from '../support/host.ts'

let folder: string
let file: string
let keys: string[]
let truth: readonly PastLife[]

const charge = workflow('charge', async (ctx) => {
  await ctx.step('pay', ({ key }) => void keys.push(key))
})

beforeEach(async () => {
  folder = newFolder(true)
  file = join(folder, 'store.db')
  keys = []
  const rp = await at()
  for (let life = 1; life <= 3; life++) {
    await rp.run(charge, { id: 'again' }).result()
    await rp.delete('workflow/charge/again')
  }
  await rp.run(charge, { id: 'other' }).result()
  await rp.delete('workflow/charge/other')
  truth = await pasts(rp)
  await rp.close()
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
})
afterEach(() => removeFolder(folder))

async function at(): Promise<Reprise> {
  return await open(`sqlite:${file}`, { housekeeping: false })
}

async function pasts(rp: Reprise): Promise<readonly PastLife[]> {
  return await hostOf(rp).kernel.store.upkeep.pasts(null, 100)
}

/** Changes bytes of the life in one of its places; its own byte follows the name in both. */
function damage(places: readonly number[], at: number, change: (byte: number) => number): void {
  const name = Buffer.from(pastName(sha256, timelineId('workflow/charge/again')))
  const bytes = readFileSync(file)
  const found: number[] = []
  for (let from = bytes.indexOf(name); from >= 0; from = bytes.indexOf(name, from + 1)) found.push(from)
  expect(found.length).toBe(2)
  for (const place of places) bytes[found[place]! + at] = change(bytes[found[place]! + at]!)
  writeFileSync(file, bytes)
}

const ofName = 5
const ofLife = 32

it.each([
  [0, ofName],
  [0, ofLife],
  [1, ofName],
  [1, ofLife],
])('a bit of it flips (place %i, byte %i): verify names it and the id gets a key of its own', async (place, byte) => {
  damage([place], byte, (value) => value ^ 2)
  const rp = await at()
  const { ok, faults } = await rp.verify()
  expect({ ok, faults: faults.length > 0 }).toEqual({ ok: false, faults: true })
  await rp.run(charge, { id: 'again' }).result()
  expect(new Set(keys).size).toBe(5)
  await rp.close()
})

it.each([
  [0, ofName],
  [0, ofLife],
  [1, ofName],
  [1, ofLife],
])('a bit of it flips (place %i, byte %i): a repair puts it right', async (place, byte) => {
  damage([place], byte, (value) => value ^ 2)
  const rp = await at()
  expect(await rp.verify({ repair: true })).toMatchObject({ ok: true, faults: [] })
  expect(await pasts(rp)).toEqual(truth)
  expect(await rp.verify()).toMatchObject({ ok: true, healed: [] })
  await rp.run(charge, { id: 'again' }).result()
  expect(new Set(keys).size).toBe(5)
  await rp.close()
})

it('is damaged in both places: the id is refused, and after a repair, which names the loss, no earlier key returns', async () => {
  damage([0, 1], ofLife, () => 0)
  const rp = await at()
  await expect(rp.run(charge, { id: 'again' }).result()).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  const { ok, faults } = await rp.verify({ repair: true })
  expect(ok).toBe(false)
  expect(faults.map(({ what }) => what).join()).toContain('lives of deleted ids are lost')
  expect((await pasts(rp)).map(({ name, life }) => [name === '', life])).toEqual([
    [true, 1_000_001],
    [false, 1],
  ])
  await rp.run(charge, { id: 'again' }).result()
  await rp.run(charge, { id: 'other' }).result()
  expect(new Set(keys).size).toBe(6)
  await rp.close()
})
