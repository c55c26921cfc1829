// One changed row among the lives of forgotten ids: it is noticed at every use, and by verify.

import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Store } from '../../core/store/ports.ts'
import { createEngine } from '../../store.ts'
import { asTimeline, expectOk, hash, Kit } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'
import { upgradeTables } from './tables.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const past = `"${schema}".past`
let store: Store
let kit: Kit

beforeAll(async () => {
  store = await openPostgres(shared, { namespace: 'n', schema, hash })
  kit = new Kit(store, async () => store, {})
})
afterAll(async () => {
  await store.close()
  await dropSchema(shared, schema)
})

const lived = async (id: string, lives: number) => {
  for (let life = 1; life <= lives; life++) {
    const writer = await kit.create(id)
    await writer.append('one')
    expectOk(await writer.commit({ forget: true }))
  }
  const [found] = await store.past([asTimeline(id)])
  expect(found!.life).toBe(lives)
  return found!.name
}

it('G16: lives that an older version wrote get their checksum with the upgrade', async () => {
  await lived('older', 4)
  await query(shared, `ALTER TABLE ${past} DROP COLUMN checksum`)
  await query(shared, `DROP TABLE "${schema}".request CASCADE`)
  await query(shared, upgradeTables(`"${schema}"`, 9))
  expect((await store.past([asTimeline('older')]))[0]!.life).toBe(4)
  expect(await store.upkeep.inspect()).toEqual([])
  await lived('newer', 2)
})

it('G7: a changed life of a forgotten id is refused at every use, is found by inspect, and is not tidied away', async () => {
  const names = [await lived('a', 2), await lived('b', 3), await lived('sound', 1)]
  expect(await store.upkeep.inspect()).toEqual([])
  // The server computes the checksum of each UPDATE; damage on the disk does not.
  await query(shared, `ALTER TABLE ${past} ALTER COLUMN checksum DROP EXPRESSION`)
  await query(shared, `UPDATE ${past} SET life = life # 1 WHERE name = '${names[0]}'`)
  await query(shared, `UPDATE ${past} SET forgotten_at = 1 WHERE name = '${names[1]}'`)
  for (const id of ['a', 'b']) {
    await expect(store.past([asTimeline(id)])).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    // A process that read the life before the damage is refused by the server.
    const writer = kit.writerOf(id)
    writer.epoch = 2
    const take = writer.take({ create: { digest: writer.digest } })
    await expect(take).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  }
  await expect(store.upkeep.pasts(null, 10)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect((await store.past([asTimeline('sound')]))[0]!.life).toBe(1)
  await store.upkeep.recall([{ name: names[0]!, life: 1, epoch: 1, forgottenAt: 1 }])
  await store.upkeep.tidy(Date.now())
  const faults = await store.upkeep.inspect()
  expect(faults.map(({ what }) => what).sort()).toEqual(
    names
      .slice(0, 2)
      .map((name) => `the life of a forgotten id (${name}) does not match its checksum`)
      .sort(),
  )
})

describe('a repair', () => {
  /** The generated column is replaced by a trigger that computes the same at every write, and that damage can bypass. */
  const bypassable = async () => {
    await query(shared, `DELETE FROM ${past}`)
    await query(shared, `ALTER TABLE ${past} ALTER COLUMN checksum DROP EXPRESSION IF EXISTS`)
    await query(
      shared,
      `CREATE OR REPLACE FUNCTION "${schema}".sum_past() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         new.checksum := md5(new.ns::text || ' ' || new.name || ' ' || new.life::text || ' ' || new.epoch::text || ' '
           || encode(float8send(new.forgotten_at), 'hex'));
         RETURN new;
       END $$;
       CREATE OR REPLACE TRIGGER sum_past BEFORE INSERT OR UPDATE ON ${past} FOR EACH ROW EXECUTE FUNCTION "${schema}".sum_past()`,
    )
  }
  const damage = async (name: string, change: string) => {
    await query(
      shared,
      `ALTER TABLE ${past} DISABLE TRIGGER sum_past; UPDATE ${past} SET ${change} WHERE name = '${name}';
       ALTER TABLE ${past} ENABLE TRIGGER sum_past`,
    )
    expect(await store.upkeep.inspect()).toHaveLength(1)
  }

  it.each([
    ['life', `life = life # 4`],
    ['life, its sign', `life = life # (1::bigint << 63)`],
    ['epoch', `epoch = epoch # 1024`],
    ['name', `name = chr(ascii(name) # 1) || substr(name, 2)`],
    ['time', `forgotten_at = -forgotten_at`],
    ['checksum', `checksum = chr(ascii(checksum) # 2) || substr(checksum, 2)`],
  ])('G8: puts a row right in which one bit flipped (%s)', async (_, change) => {
    await bypassable()
    const name = await lived('flipped', 3)
    await lived('beside', 1)
    const before = await store.upkeep.pasts(null, 10)
    await damage(name, change)
    expect(await store.upkeep.mendPasts()).toMatchObject({ mended: [expect.stringContaining('checksum')], lost: [] })
    expect(await store.upkeep.pasts(null, 10)).toEqual(before)
    expect(await store.upkeep.inspect()).toEqual([])
    expect(await store.upkeep.mendPasts()).toEqual({ mended: [], lost: [] })
  })

  it('G8: names the loss of a row with more damage, and no earlier life returns', async () => {
    await bypassable()
    await lived('beside', 2)
    const name = await lived('lost', 3)
    await damage(name, `life = 0`)
    const rp = createEngine({ store, namespace: 'n' }, { worker: 'repair' })
    const repaired = await rp.verify({ repair: true })
    expect(repaired.ok).toBe(false)
    expect(repaired.faults.map(({ what }) => what)).toEqual([
      'the life of a deleted id is lost: an id without one starts above life 1000002, so that no earlier key returns',
    ])
    expect(await store.past([asTimeline('lost')])).toMatchObject([{ life: 1_000_002 }])
    expect(await store.past([asTimeline('beside')])).toMatchObject([{ life: 2 }])
    // The loss is named until a person accepts it.
    const { ok, faults, losses } = await rp.verify()
    expect([ok, faults, losses.map(({ lost }) => lost.length)]).toEqual([false, [], [1]])
    await rp.acceptLoss(losses[0]!.id, { by: 'ann', reason: 'known' })
    expect(await rp.verify()).toMatchObject({ ok: true })
  })
})
