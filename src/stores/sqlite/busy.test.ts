// A process holds the write lock and does not release it (it was stopped, or is in a debugger): writes report the process and
// that nothing was written, the handle stays usable, and every read continues.

import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../test/support/fixture.ts'
import { feedStart } from '../../core/store/ports.ts'
import { asTimeline, hash, Kit } from '../../testing/conformance/kit.ts'
import { Connection } from './file/connection.ts'
import { loadDriver } from './file/driver.ts'
import { openSqlite } from './index.ts'
import { checksumOf } from './rows/row-checksum.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = temporaryFolder('busy')
  file = join(folder, 'store.db')
})
const open = (readOnly = false) =>
  openSqlite(file, { namespace: 'a', hash, busyMs: 60, readOnly, refusesDamage: readOnly })

describe('a write lock that another process keeps', () => {
  it('refuses writes by name, reports that nothing was written, and allows reads and new readers', async () => {
    const store = await open()
    const kit = new Kit(store, () => open(), {})
    const writer = await kit.create('a')
    await writer.append('one')
    const holder = new Connection(await loadDriver(), file, false)
    holder.run('BEGIN IMMEDIATE')
    const busy = { code: 'STORE_BUSY', data: { isUntouched: true } }
    await expect(store.commit([writer.plan({ run: writer.run('two') })])).rejects.toMatchObject(busy)
    await expect(store.upkeep.tidy(0)).rejects.toMatchObject(busy)
    // A process that opens it now can read too: an up-to-date file needs no lock to be opened.
    for (const reader of [store, await open(), await open(true)]) {
      expect((await reader.head([writer.id]))[0]?.seq).toBe(1)
      expect((await reader.timelines({ limit: 10 })).length).toBe(1)
      expect((await reader.feed(feedStart, {}, 10)).items.length).toBe(1)
      expect(await reader.read(writer.id, 0, 1000)).toHaveLength(1)
      expect((await reader.inbox(writer.id, 10)).messages).toEqual([])
      await Promise.all([reader.checkpoints(writer.id), reader.cursors(), reader.workers(), reader.upkeep.facts()])
      expect(await reader.blobs.list(null, 10)).toEqual([])
      expect(await reader.upkeep.inspect()).toEqual([])
      if (reader !== store) await reader.close()
    }
    holder.run('ROLLBACK')
    holder.close()
    await writer.append('two')
    expect((await store.head([asTimeline('a')]))[0]?.seq).toBe(2)
    await store.close()
  })
})

describe('an inbox with a message whose id was given as a number', () => {
  it('can be read and emptied: an older release put the number into the checksum', async () => {
    const store = await open()
    const kit = new Kit(store, () => open(), {})
    const writer = await kit.create('a')
    await kit.send('a', '12345', 'text')
    await store.close()
    const connection = new Connection(await loadDriver(), file, false)
    const { tid, kind, data, sent_at } = connection.get('SELECT * FROM reprise_inbox')!
    const crc = checksumOf([tid!, 12345, kind!, data!, sent_at!, null])
    connection.run('UPDATE reprise_inbox SET crc = ?', crc)
    connection.run('UPDATE reprise_witness SET mail = ?', crc)
    connection.close()
    const again = await open()
    const { messages } = await again.inbox(writer.id, 10)
    expect(messages.map(({ id }) => id)).toEqual(['12345'])
    await writer.twin(again).commit({ consume: messages.map(({ id }) => id) })
    expect((await again.inbox(writer.id, 10)).messages).toEqual([])
    expect(await again.upkeep.inspect()).toEqual([])
    await again.close()
  })
})
