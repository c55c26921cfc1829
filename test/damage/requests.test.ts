// G7, requests of applications in SQLite: any connection writes them, so they have no checksum. Each has three copies, and one
// flipped bit in any of them neither changes nor repeats the run that was requested, nor loses it.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { isReprise, open, type Reprise } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { openSqliteFile } from '../within/database.ts'

const payload = '{"cents":40404}'
const places = 3

describe('one flipped bit in a request of an application', () => {
  let file: string
  let started: unknown[]
  const pay = workflow('pay', async (ctx, order: { cents: number }) => {
    return await ctx.step('note', () => started.push(order.cents))
  })
  const opened = () => open(`sqlite:${file}`, { housekeeping: false })

  beforeEach(async () => {
    file = join(temporaryFolder('requests'), 'store.db')
    started = []
    await (await opened()).close()
    const application = openSqliteFile(file)
    const sql = 'INSERT INTO reprise_request (verb, target, id, data) VALUES (?, ?, ?, ?)'
    application.prepare(sql).run('start', 'workflow/pay', 'p1', payload)
    application.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    application.close()
  })

  it.each(Array.from({ length: places }, (_, i) => i))(
    'in copy %i: the run starts once, with its input',
    async (place) => {
      flip(file, place)
      let rp = await opened()
      expect((await listed(rp)).map(({ data }) => data)).toEqual([payload])
      expect((await rp.verify()).ok).toBe(false)
      // The request is carried out now, or refused until the repair: a half-removed one could come back.
      const refused: unknown[] = []
      rp.events.on('problem', ({ error }) => void refused.push(error))
      rp.work([pay])
      await until(() => refused.length > 0 || started.length > 0)
      await rp.close()
      expect(refused.filter((error) => !isReprise(error, 'STORE_DAMAGED'))).toEqual([])

      rp = await opened()
      await rp.verify({ repair: true })
      rp.work([pay])
      await (await rp.run(pay, { cents: 40404 }, { id: 'p1' })).result()
      expect(started).toEqual([40404])
      expect(await listed(rp)).toEqual([])
      expect(await rp.verify()).toMatchObject({ ok: true, faults: [] })
      await rp.close()
    },
  )
})

async function listed(rp: Reprise) {
  return await hostOf(rp).kernel.store.requests!.list({ limit: 10 })
}

/** The digit 4 becomes a 5 in one of the three copies. */
function flip(file: string, place: number): void {
  const bytes = readFileSync(file)
  const found: number[] = []
  for (let at = bytes.indexOf(payload); at >= 0; at = bytes.indexOf(payload, at + 1)) found.push(at)
  expect(found).toHaveLength(places)
  bytes[found[place]! + payload.indexOf('4')]! ^= 1
  writeFileSync(file, bytes)
}
