// The timelines that the writer caches: those with an owner stay when there are too many.

import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import type { WorkerId } from '../../../core/coordinate.ts'
import { asTimeline, hash, Kit } from '../../../testing/conformance/kit.ts'
import { Connection } from '../file/connection.ts'
import { loadDriver } from '../file/driver.ts'
import { openSqlite } from '../index.ts'
import { UnsettledRuns } from '../log/unsettled.ts'
import { Timelines } from './timelines.ts'

let folder: string
beforeEach(() => {
  folder = temporaryFolder('timelines')
})

it('an open timeline stays cached, however many there are; others do not', async () => {
  const file = join(folder, 'store.db')
  const open = () => openSqlite(file, { namespace: 'a', hash })
  const store = await open()
  const kit = new Kit(store, open, {})
  for (let i = 0; i < 10; i++) await (await kit.create(`t/${i}`)).commit({ release: i % 2 === 0 })
  await store.close()
  const connection = new Connection(await loadDriver(), file, false)
  const timelines = new Timelines(connection, 1, new UnsettledRuns(connection, hash), 4)
  for (let i = 0; i < 10; i++) timelines.find(asTimeline(`t/${i}`))
  expect(timelines.count).toBe(10)
  connection.exec('BEGIN IMMEDIATE')
  timelines.flush()
  connection.exec('COMMIT')
  const kept = Array.from({ length: 10 }, (_, i) => timelines.kept(asTimeline(`t/${i}`)) !== undefined)
  expect(kept).toEqual(Array.from({ length: 10 }, (_, i) => i % 2 === 1))
  connection.close()
})

it('nothing is kept of a timeline that is gone', async () => {
  const file = join(folder, 'store.db')
  const open = () => openSqlite(file, { namespace: 'a', hash })
  const store = await open()
  await (await new Kit(store, open, {}).create('t/1')).commit({ release: true })
  await store.close()
  const connection = new Connection(await loadDriver(), file, false)
  const timelines = new Timelines(connection, 1, new UnsettledRuns(connection, hash))
  const found = timelines.find(asTimeline('t/1'))!
  connection.exec('BEGIN IMMEDIATE')
  timelines.put({ ...found, head: { ...found.head, owner: 'somebody' as WorkerId } })
  timelines.flush()
  timelines.remove(timelines.find(asTimeline('t/1'))!)
  timelines.flush()
  connection.exec('COMMIT')
  expect(timelines.count).toBe(0)
  connection.close()
})
