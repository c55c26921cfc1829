// The rows that SQLite's feed reads for a filter that few timelines match: none behind their last one.

import { join } from 'node:path'
import { beforeEach, expect, it, vi } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import { feedStart } from '../../../core/store/ports.ts'
import { hash, Kit } from '../../../testing/conformance/kit.ts'
import { Connection } from '../file/connection.ts'
import { openSqlite } from '../index.ts'

let folder: string
const open = () => openSqlite(join(folder, 'store.db'), { namespace: 'a', hash })

beforeEach(() => {
  folder = temporaryFolder('feed')
})

it('reads no row where nothing matches, and none behind the last that does', async () => {
  const store = await open()
  const kit = new Kit(store, open, {})
  const rare = await kit.create('rare/1')
  await rare.append('first')
  for (let i = 0; i < 40; i++) await (await kit.create(`many/${i}`)).append(`${i}`)
  let rows = 0
  const iterate = Connection.prototype.iterate
  const spy = vi.spyOn(Connection.prototype, 'iterate').mockImplementation(function* (
    this: Connection,
    sql,
    ...values
  ) {
    for (const row of iterate.call(this, sql, ...values)) {
      rows += 1
      yield row
    }
  })
  try {
    const none = await store.feed(feedStart, { prefixes: ['nothing/', 'none'] }, 10)
    expect([none.items.length, none.isEnd, rows]).toEqual([0, true, 0])
    const few = await store.feed(feedStart, { prefixes: ['rare/'] }, 10)
    expect([few.items.length, few.isEnd]).toEqual([1, true])
    expect(few.next).toBe(none.next)
    expect(rows).toBeLessThan(5)
    await rare.append('second')
    expect((await store.feed(few.next, { prefixes: ['rare/'] }, 10)).items).toHaveLength(1)
  } finally {
    spy.mockRestore()
    await store.close()
  }
})
