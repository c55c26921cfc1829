// Requests that no worker has carried out yet are part of a backup: an application that committed one has been promised its run.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { storeUrls } from '../support/store-urls.ts'
import { application } from './database.ts'

const folder = temporaryFolder('within-backup')
const pay = workflow('pay', async (_ctx, order: { cents: number }) => order.cents)
const kinds = Object.keys(storeUrls)

describe.each(kinds)('E3: a backup of %s', (kind) => {
  it.each(kinds)('with waiting requests is restored into %s, where each is carried out once', async (other) => {
    const [from, to] = [storeUrls[kind]!(), storeUrls[other]!()]
    const source = await open(from.url)
    const app = await application(from.url)
    await app.start('pay', 'order-1', { cents: 500 })
    await app.start('pay', 'order-2', { cents: 900 })
    const file = join(folder, `${kind}-${other}.rpb`)
    await source.backup(file)
    const target = await open(to.url)
    await target.restore(file)
    // A repeated call changes nothing.
    await target.restore(file)
    target.work([pay])
    const runs = workflows(target).of(pay)
    for (const [id, cents] of [
      ['order-1', 500],
      ['order-2', 900],
    ] as const) {
      await expect
        .poll(
          () =>
            runs
              .get(id)
              .result()
              .catch(() => null),
          { timeout: 120_000 },
        )
        .toBe(cents)
    }
    const memory = await open('memory:')
    await expect(memory.restore(file)).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED' })
    expect(await memory.list()).toEqual([])
    for (const rp of [source, target, memory]) await rp.close()
    await app.close()
    await Promise.all([from.remove(), to.remove()])
  })

  it('is refused by a store with requests of its own', async () => {
    const [from, to] = [storeUrls[kind]!(), storeUrls[kind]!()]
    const [source, target] = [await open(from.url), await open(to.url)]
    const app = await application(to.url)
    await app.start('pay', 'mine', { cents: 1 })
    const file = join(folder, `${kind}-other.rpb`)
    await source.backup(file)
    await expect(target.restore(file)).rejects.toMatchObject({ code: 'EXISTS' })
    for (const rp of [source, target]) await rp.close()
    await app.close()
    await Promise.all([from.remove(), to.remove()])
  })
})
