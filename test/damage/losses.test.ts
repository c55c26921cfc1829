// A loss that a repair named is not forgotten with the output of that command: verify, doctor, `changes`, `show` and the events
// of an application name it until a person gives it up, also over a second repair, a backup and a restore.

import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { Connection } from '../../src/stores/sqlite/file/connection.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { cli } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = newFolder(true)
const file = join(folder, 'store.db')
const url = `sqlite:${file}`
const backup = join(folder, 'store.rpb')
const run = (...args: string[]) => cli([...args, '--url', url], { cwd: folder })

const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[] }),
  apply: ({ texts }, { text }: { type: 'note'; text: string }) => ({ texts: [...texts, text] }),
})

/** Acknowledged entries in a log that is cut in the middle, as a killed process leaves it, and one repair. */
beforeAll(async () => {
  const written = join(folder, 'open.db')
  const rp = await open(`sqlite:${written}`, { housekeeping: false })
  const all = await Promise.all([0, 1, 2].map((id) => rp.open(notes, `${id}`)))
  for (let i = 0; i < 40; i++) await all[i % 3]!.append({ type: 'note', text: `note ${i}` })
  for (const end of ['', '-wal', '-ack']) copyFileSync(`${written}${end}`, `${file}${end}`)
  await rp.close()
  const log = readFileSync(`${file}-wal`)
  writeFileSync(`${file}-wal`, log.subarray(0, Math.floor(0.7 * log.length)))
  expect((await run('verify', '--repair')).code).toBe(8)
  expect((await run('backup', backup)).code).toBe(0)
})
afterAll(() => removeFolder(folder))

it('is named by every later command, until it is given up', async () => {
  // 1. Listed repeatedly, with its content and its remedy.
  for (let i = 0; i < 2; i++) {
    const verify = await run('verify')
    expect(verify.code).toBe(8)
    expect(verify.stdout).toMatch(/^DATA_LOST loss-\w+: the repair of .* lost: .*its history ends at \d+/m)
  }
  const doctor = await run('doctor')
  expect(doctor.code).not.toBe(0)
  expect(doctor.stdout).toMatch(/bad +losses .*\[DATA_LOST\]/)
  const listed = await run('changes', '--json')
  expect(listed.code).not.toBe(0)
  const [loss] = JSON.parse(listed.stdout)
  expect(loss).toMatchObject({ kind: 'loss', kept: expect.stringContaining('-damaged-') })
  const { timeline: id, after } = loss.lost.find((each: { timeline: string | null }) => each.timeline !== null)
  expect(after).toBeGreaterThan(0)
  expect((await run('show', id)).stdout).toMatch(new RegExp(`lost .*${loss.id}`))
  // 2. An application that opens the store, and the timeline, gets an event.
  const rp = await open(url, { housekeeping: false })
  const told: { where: string; code: unknown }[] = []
  const isToldOfStore = new Promise<void>((resolve) => {
    rp.events.on('problem', ({ where, error }) => {
      told.push({ where, code: (error as { code?: unknown }).code })
      if (where === 'store') resolve()
    })
  })
  await (await rp.open(notes, id.slice('notes/'.length), { takeover: true })).append({ type: 'note', text: 'next' })
  expect(told).toContainEqual({ where: id, code: 'DATA_LOST' })
  await isToldOfStore
  expect(told).toContainEqual({ where: 'store', code: 'DATA_LOST' })
  await rp.close()
  // 3. A second repair keeps it, and `changes` reports the change as one that it cannot undo.
  expect((await run('verify', '--repair')).code).toBe(8)
  expect((await run('changes', loss.id, '--abandon', '--yes')).stderr).toContain(`reprise give-up ${loss.id}`)
  // 4. Only a person ends it, with a name and a reason.
  expect((await run('give-up', loss.id)).code).toBe(0)
  expect((await run('give-up', loss.id, '--yes')).code).toBe(2)
  expect((await run('verify')).code).toBe(8)
  expect((await run('give-up', loss.id, '--by', 'ann', '--reason', 'no copy', '--yes')).code).toBe(0)
  expect((await run('verify')).code).toBe(0)
  expect((await run('changes')).code).toBe(0)
  expect((await run('doctor')).stdout).not.toContain('DATA_LOST')
  expect((await run('log', '--kind', 'repair')).stdout).toContain('a loss was accepted by ann: no copy')
})

it('is known from its note where its record in the file is damaged', async () => {
  const copy = join(folder, 'store-2.db')
  const rp = await open(`sqlite:${copy}`, { housekeeping: false })
  await rp.restore(backup)
  const [loss] = await rp.losses()
  await rp.close()
  expect(loss!.lost.length).toBeGreaterThan(0)
  const connection = new Connection(await loadDriver(), copy, false)
  connection.run(`INSERT INTO reprise_meta (key, value) VALUES (?, ?)`, `loss 1 ${loss!.id}`, '1 {}')
  connection.run(`INSERT INTO reprise_meta (key, value) VALUES ('loss 1 loss-x', '1 {}')`)
  connection.close()
  const again = await open(`sqlite:${copy}`, { housekeeping: false })
  expect(await again.losses()).toEqual([expect.objectContaining({ id: 'loss-x', at: 0 }), loss])
  await again.close()
})

onEveryStore('losses', (world) => {
  it('go with a backup, and are given up in the store that it was restored to', async () => {
    const rp = await (await world()).engine()
    await rp.restore(backup)
    const [loss] = await rp.losses()
    expect(await rp.verify()).toMatchObject({ ok: false, faults: [], losses: [loss] })
    expect((await checkStore(rp)).find(({ name }) => name === 'losses')).toMatchObject({ state: 'bad' })
    expect(await rp.verify({ timelines: [loss!.lost.at(-1)!.timeline!] })).toMatchObject({ ok: false, losses: [loss] })
    await expect(rp.acceptLoss(loss!.id, { by: ' ', reason: 'x' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(rp.acceptLoss('loss-0', { by: 'a', reason: 'x' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await rp.acceptLoss(loss!.id, { by: 'ann', reason: 'no copy has it' })
    expect(await rp.verify()).toMatchObject({ ok: true, losses: [] })
    expect((await checkStore(rp)).filter(({ name }) => name === 'losses')).toEqual([])
  })
})
