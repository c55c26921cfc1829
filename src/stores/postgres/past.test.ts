// One changed row among the lives of forgotten ids: it is noticed at every use, and by verify.

import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Store } from '../../core/store/ports.ts'
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
