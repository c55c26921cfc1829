// G7, G8: the identity of a store, which keys are derived from, is stored twice. One damaged copy changes nothing but the margin:
// the other is used, `open` reports the damage, verify names it, and a repair writes it from the sound one.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { isReprise, open } from '../../src/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { newFolder, removeFolder } from '../crash/support.ts'

const places = {
  reprise_identity: 'SELECT value FROM reprise_identity',
  reprise_meta: `SELECT value FROM reprise_meta WHERE key LIKE 'identity %'`,
}

let folder: string
let file: string
let truth: unknown

beforeEach(async () => {
  folder = newFolder(true)
  file = join(folder, 'store.db')
  const rp = await open(`sqlite:${file}`, { housekeeping: false })
  await rp.close()
  truth = await ask(places.reprise_meta)
})
afterEach(() => removeFolder(folder))

async function ask(sql: string): Promise<unknown> {
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const rows = database.prepare(sql).all()
  database.close()
  return rows
}

/** Flips a bit of the copy in this table: the text is twice in the file, and only one of them is that of the table. */
async function flip(place: keyof typeof places): Promise<void> {
  const [{ value }] = (await ask(places[place])) as [{ value: string }]
  const whole = readFileSync(file)
  const text = Buffer.from(value)
  for (let at = whole.indexOf(text); at >= 0; at = whole.indexOf(text, at + 1)) {
    const bytes = Buffer.from(whole)
    bytes[at + 60]! ^= 1
    writeFileSync(file, bytes)
    if (JSON.stringify(await ask(places[place])) !== JSON.stringify(truth)) return
  }
  throw new Error(`no copy was found in ${place}`)
}

it.each(Object.keys(places) as (keyof typeof places)[])(
  'a bit of the copy in %s flips: it is reported, named and put right',
  async (place) => {
    await flip(place)
    const rp = await open(`sqlite:${file}`, { housekeeping: false })
    const error = await new Promise((resolve) => rp.events.on('problem', ({ error }) => resolve(error)))
    expect(isReprise(error, 'STORE_DAMAGED') && error.message).toContain(place)
    const damage = async () => (await checkStore(rp)).filter(({ name }) => name === 'damage')
    expect(await damage()).toMatchObject([{ state: 'bad', what: expect.stringContaining(place) }])
    const { ok, faults } = await rp.verify()
    expect({ ok, what: faults.map(({ what }) => what).join() }).toEqual({
      ok: false,
      what: expect.stringContaining(place),
    })
    const repaired = await rp.verify({ repair: true })
    expect(repaired).toMatchObject({ ok: true, faults: [] })
    expect(repaired.healed.map(({ where }) => where)).toEqual([expect.stringContaining('identity')])
    expect(await rp.verify()).toMatchObject({ ok: true, healed: [] })
    expect((await rp.facts()).damage).toBeUndefined()
    expect(await damage()).toEqual([])
    await rp.close()
    for (const sql of Object.values(places)) expect(await ask(sql)).toEqual(truth)
  },
)
