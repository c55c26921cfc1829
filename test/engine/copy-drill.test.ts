// Drills of a backup file: restored to a separate place, verified, compared with the store, and measured; and the alarms.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { drillBackup } from '../../src/operations/copy-drill.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { temporaryFolder } from '../support/fixture.ts'

const folder = temporaryFolder('copy-drill')
const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, e: { type: 'x'; by: number }) => sum + e.by,
})

async function add(rp: Reprise, id: string, count = 1): Promise<void> {
  const handle = await rp.open(counter, id)
  for (let n = 0; n < count; n++) await handle.append({ type: 'x', by: 1 })
  await handle.close()
}

const checksOf = async (rp: Reprise, name: string) => (await checkStore(rp)).filter((check) => check.name === name)

it('A4.6, A7.3: a drill of a backup measures RPO and RTO, and compares every history with the store', async () => {
  const rp = await open(`sqlite:${join(folder, 'a.db')}`, { housekeeping: false })
  await add(rp, 'one', 3)
  await add(rp, 'two', 2)
  const file = join(folder, 'a.rpb')
  await rp.backup(file, { loseAtMost: '1h' })
  expect(await drillBackup(rp, file)).toMatchObject({ ok: true, rpoMs: 0, entriesLost: 0, entries: 5, faults: [] })
  await add(rp, 'two', 4)
  await add(rp, 'three')
  const late = await drillBackup(rp, file)
  expect(late).toMatchObject({ ok: true, entriesLost: 5, timelinesLost: 1 })
  expect(late.rpoMs).toBeGreaterThan(0)
  expect(late.rtoMs).toBeCloseTo(late.restoreMs + late.verifyMs)
  // A rolled back entry is in the archive: the backup that has it is still a part of the store's history.
  await rp.rollback({ to: { timeline: 'counter/one', seq: 1 } })
  expect((await drillBackup(rp, file)).faults).toEqual([])
  expect((await checksOf(rp, 'drills')).map(({ state }) => state)).toEqual(['ok'])
  expect(await checksOf(rp, 'backups')).toMatchObject([{ state: 'ok', what: expect.stringContaining('at most 1h') }])
  expect((await rp.log({ kind: 'drill' })).at(-1)!.what).toContain('would be lost')
  await rp.close()
})

it('A4.6: a backup of another history, or a damaged one, fails its drill, and stays an alarm until a drill succeeds', async () => {
  const [rp, other] = await Promise.all(
    ['b', 'c'].map((name) => open(`sqlite:${join(folder, `${name}.db`)}`, { housekeeping: false })),
  )
  await add(rp!, 'one', 3)
  await add(other!, 'one', 3)
  const [own, foreign, broken] = ['own', 'foreign', 'broken'].map((name) => join(folder, `${name}.rpb`)) as [
    ...[string, string, string],
  ]
  await rp!.backup(own)
  await other!.backup(foreign)
  const bytes = readFileSync(own)
  bytes[bytes.length >> 1]! ^= 1
  writeFileSync(broken, bytes)
  expect(await drillBackup(rp!, foreign)).toMatchObject({ ok: false, faults: [expect.stringContaining('differs')] })
  expect(await checksOf(rp!, 'drills')).toContainEqual(expect.objectContaining({ state: 'bad' }))
  await expect(drillBackup(rp!, broken)).rejects.toMatchObject({ code: 'NOT_A_SAVEPOINT' })
  const [alarm] = (await checksOf(rp!, 'drills')).filter(({ state }) => state === 'bad')
  expect(alarm).toMatchObject({ what: expect.stringContaining('damaged or incomplete') })
  expect(await drillBackup(rp!, own)).toMatchObject({ ok: true })
  expect((await checksOf(rp!, 'drills')).filter(({ state }) => state === 'bad')).toEqual([])
  await Promise.all([rp!.close(), other!.close()])
})

it('refuses a bound of no time, and notes none in a store that is only read', async () => {
  const url = `sqlite:${join(folder, 'd.db')}`
  const rp = await open(url, { housekeeping: false })
  await add(rp, 'one')
  await expect(rp.backup(join(folder, 'd.rpb'), { loseAtMost: 0 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await rp.close()
  const reader = await open(url, { readOnly: true })
  expect((await reader.backup(join(folder, 'd.rpb'))).timelines).toBe(1)
  expect(await checksOf(reader, 'backups')).toEqual([])
  await reader.close()
})
