// Joins of a stream with a table of Reprise: rows that change while records flow, and which version is met by records that are
// processed again after a kill.

import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  checkPipelines,
  collectSink,
  count,
  generatedSource,
  pipeline,
  type Source,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { amount, Child, newFolder, removeFolder } from '../crash/support.ts'
import { pause, until } from '../support/fixture.ts'

const kills = Math.min(20, amount('REPRISE_PIPELINE_KILLS', 2))

/** The same number repeatedly, until it is stopped. */
function asking<T>(value: T): { readonly source: Source<T>; end(): void } {
  let isOver = false
  const source: Source<T> = {
    async open() {
      return {
        partitions: () => [''],
        close: async () => undefined,
        async read() {
          await pause(2)
          return isOver ? null : { partition: '', values: [value], position: 0 }
        },
      }
    },
  }
  return {
    source,
    end() {
      isOver = true
    },
  }
}

it('a record meets the row that it names, as the table has it by then', async () => {
  const rp = await open('memory:')
  const prices = table<number>('prices')
  const { source, end } = asking('pear')
  const out = collectSink<readonly [string, number | undefined]>()
  const asked = pipeline('asked', (p) => {
    p.from('skus', source)
      .joinTable(
        prices,
        (sku) => sku,
        (sku, price) => [sku, price] as const,
      )
      .to('out', out)
  })
  const run = await rp.run(asked, { checkpoint: { every: '10ms' } }).started()
  const last = () => out.values.at(-1)?.[1]
  // The table does not exist: it has no rows.
  await until(() => out.values.length > 0)
  expect(last()).toBeUndefined()
  const rows = await rp.open(prices)
  await rows.set('pear', 10)
  await until(() => last() === 10)
  await rows.transaction((tx) => {
    tx.set('pear', 12)
    tx.set('plum', 3)
  })
  await until(() => last() === 12)
  await rows.delete('pear')
  await until(() => last() === undefined)
  end()
  await run.result()
  expect([...new Set(out.values.map(([, price]) => price))]).toEqual([undefined, 10, 12])
  await rp.close()
})

it('reads one of several tables, in every instance, and sets poison aside', async () => {
  const rp = await open('memory:')
  const prices = table<{ readonly cents: number }>('prices')
  const rows = await rp.open(prices, 'shop-1')
  for (let n = 0; n < 40; n++) await rows.set(`sku-${n}`, { cents: n })
  const out = collectSink<{ readonly key: string | number; readonly value: number }>()
  const priced = pipeline('priced', (p) => {
    p.from(
      'orders',
      generatedSource((n) => ({ sku: `sku-${n % 50}`, n }), { count: 200 }),
    )
      .keyBy(({ sku }) => sku)
      .joinTable(
        prices,
        ({ sku }) => sku,
        (order, row) => {
          if (!row) throw new Error(`no price for ${order.sku}`)
          return { ...order, cents: row.cents }
        },
        { id: 'shop-1' },
      )
      .keyBy(({ cents }) => cents % 4)
      .aggregate('sums', { ...count(), add: (total: number, { cents }: { readonly cents: number }) => total + cents })
      .to('out', out)
  })
  const report = await rp.run(priced, { parallelism: 3 }).result()
  expect(report).toMatchObject({ status: 'completed', deadLetters: 40 })
  const sums = new Map(out.values.map(({ key, value }) => [key, value]))
  expect([...sums.values()].reduce((a, b) => a + b)).toBe(4 * ((39 * 40) / 2))
  await rp.close()
})

it('refuses other definitions, and is checked against unchanging rows', async () => {
  const rp = await open('memory:')
  const prices = table<number>('prices')
  const drawn = pipeline('checked', (p) => {
    p.from('skus', valueSource(['pear', 'plum', 'pear']))
      .joinTable(
        prices,
        (sku) => sku,
        (sku, price) => ({ sku, price }),
      )
      .to('out', collectSink())
  })
  const rows = await rp.open(prices)
  await rows.set('pear', 1)
  expect(await checkPipelines(rp, [drawn])).toMatchObject({ ok: true, checked: [{ records: 3 }] })
  const wrong = pipeline('wrong', (p) => {
    p.from('skus', valueSource(['pear']))
      .joinTable({ name: 'prices' } as never, String, (sku) => sku)
      .to('out', collectSink())
  })
  await expect(rp.run(wrong)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await rp.close()
})

it('over kills, every record is joined once, with versions that never go back and never miss a commit', async () => {
  const folder = newFolder()
  const file = join(folder, 'joined.db')
  const query = <R>(text: string): R[] => {
    const db = new DatabaseSync(file, { readOnly: true })
    try {
      return db.prepare(text).all() as R[]
    } finally {
      db.close()
    }
  }
  const records = 400 + 300 * kills
  const rp = await open(`sqlite:${file}`)
  const settings = await rp.open(table<number>('settings'))
  let version = 1
  await settings.set('current', version)
  let isOver = false
  const changing = (async () => {
    while (!isOver) {
      await settings.set('current', version + 1)
      version += 1
      await pause(3)
    }
  })()
  const begun: { readonly seen: number; readonly version: number }[] = []
  try {
    for (let start = 0; start <= kills; start++) {
      const tables = query("SELECT name FROM sqlite_master WHERE name = 'seen'")
      const seen = tables.length === 0 ? 0 : query<{ n: number }>('SELECT count(*) AS n FROM seen')[0]!.n
      begun.push({ seen, version })
      const child = new Child('pipeline-joined', { url: `sqlite:${file}`, records })
      if (start < kills) {
        await child.until(() => child.lines.includes('READY'))
        await new Promise((resolve) => setTimeout(resolve, 40 + ((start * 53) % 100)))
        await child.kill()
      } else await child.ended
      expect(child.errors).toBe('')
    }
  } finally {
    isOver = true
    await changing
    await rp.close()
  }
  const found = query<{ n: number; version: number }>('SELECT n, version FROM seen ORDER BY n')
  expect(found.map(({ n }) => n)).toEqual(Array.from({ length: records }, (_, n) => n))
  const versions = found.map((row) => row.version)
  expect(versions).toEqual([...versions].sort((a, b) => a - b))
  for (const { seen, version: least } of begun) {
    if (seen < records) expect(versions[seen]).toBeGreaterThanOrEqual(least)
  }
  removeFolder(folder)
})
