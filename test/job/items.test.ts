// The handling of an item by a job: order, repetitions, version, and outside effects.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { job } from '../../src/layers/job/index.ts'
import { pause } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

onEveryStore(
  'a job',
  (world) => {
    it('never has more items in flight than it may, and keeps the slot until the item is durable', async () => {
      const engine = await (await world()).engine()
      let inFlight = 0
      let most = 0
      const work = job('slots', {
        source: numbers(60),
        concurrency: 5,
        each: async () => {
          inFlight += 1
          most = Math.max(most, inFlight)
          await pause(1)
          inFlight -= 1
        },
      })
      const report = await (await engine.run(work)).result()
      expect(report.done).toBe(60)
      expect(most).toBeLessThanOrEqual(5)
      expect(most).toBeGreaterThan(1)
    })

    it('does items one after another in the order of the source where that is declared', async () => {
      const engine = await (await world()).engine()
      const seen: number[] = []
      const work = job('ordered', {
        source: numbers(20),
        order: 'kept',
        retry: { attempts: 3, backoff: 1 },
        each: async (item: number, { attempt }) => {
          if (item === 7 && attempt < 3) throw new Error('not yet')
          seen.push(item)
        },
      })
      await (await engine.run(work)).result()
      expect(seen).toEqual(numbers(20))
    })

    it('does an item again when its version changed, also back to an earlier one', async () => {
      const engine = await (await world()).engine()
      const seen: string[] = []
      const run = async (items: { id: string; rev: number }[]) => {
        const work = job('versions', {
          source: items,
          key: (item: { id: string; rev: number }) => item.id,
          version: (item) => item.rev,
          each: (item) => void seen.push(`${item.id}${item.rev}`),
        })
        return await (await engine.run(work)).result()
      }
      await run([
        { id: 'a', rev: 1 },
        { id: 'b', rev: 1 },
      ])
      expect(
        await run([
          { id: 'a', rev: 2 },
          { id: 'b', rev: 1 },
        ]),
      ).toMatchObject({ done: 1, skipped: 1 })
      expect(await run([{ id: 'a', rev: 1 }])).toMatchObject({ done: 1 })
      expect(seen).toEqual(['a1', 'b1', 'a2', 'a1'])
    })

    it('does everything again when the version of its code changed', async () => {
      const engine = await (await world()).engine()
      const run = async (version: string) =>
        (await (await engine.run(job('code', { source: ['a', 'b'], version, each: () => undefined }))).result()).done
      expect(await run('1')).toBe(2)
      expect(await run('1')).toBe(0)
      expect(await run('2')).toBe(2)
    })

    it('does one of two items with the same key', async () => {
      const engine = await (await world()).engine()
      const work = job('twins', {
        source: ['x', 'x', 'y', 'x'],
        concurrency: 4,
        each: () => new Promise((resolve) => setTimeout(resolve, 2)),
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 2, skipped: 2 })
    })

    it('gives each item a key for the outside that is the same in every attempt and differs between items', async () => {
      const engine = await (await world()).engine()
      const keys: Record<string, Set<string>> = { a: new Set(), b: new Set() }
      const work = job('outside', {
        source: ['a', 'b'],
        retry: { attempts: 3, backoff: 1 },
        each: async (item: string, context) => {
          keys[item]!.add(context.idempotencyKey)
          if (context.attempt < 3) throw new Error('again')
        },
      })
      await (await engine.run(work)).result()
      expect([...keys.a!]).toHaveLength(1)
      expect([...keys.b!]).toHaveLength(1)
      expect([...keys.a!]).not.toEqual([...keys.b!])
    })

    it('does not repeat an effect whose outcome is recorded, though the item is tried again (G5)', async () => {
      const engine = await (await world()).engine()
      const charged: string[] = []
      const work = job('effects', {
        source: ['order-1'],
        retry: { attempts: 3, backoff: 1 },
        each: async (_: string, context) => {
          const receipt = await context.effect('charge', ({ key }) => {
            charged.push(key)
            return `receipt-${charged.length}`
          })
          if (context.attempt < 2) throw new Error('after the effect')
          expect(receipt).toBe('receipt-1')
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 1, failed: 0 })
      expect(charged).toHaveLength(1)
    })
  },
  ['memory', 'sqlite'],
)

describe('a job on a database of its own', () => {
  it('commits the SQL of an item in the same transaction as the record that it is done', async () => {
    const { open } = await import('../../src/index.ts')
    const folder = mkdtempSync(join(tmpdir(), 'reprise-ride-'))
    try {
      const engine = await open(`sqlite:${join(folder, 'ride.db')}`)
      const setup = job('setup', {
        source: ['table'],
        each: (_: string, context) => context.commit((sql) => sql.run('CREATE TABLE paid (item TEXT PRIMARY KEY)')),
      })
      await (await engine.run(setup)).result()
      const pay = job('pay', {
        source: ['a', 'b', 'c'],
        concurrency: 3,
        retry: { attempts: 1 },
        each: async (item: string, context) => {
          context.commit((sql) => sql.run('INSERT INTO paid VALUES (?)', item))
          if (item === 'b') context.commit((sql) => sql.run('INSERT INTO nowhere VALUES (1)'))
        },
      })
      expect(await (await engine.run(pay)).result()).toMatchObject({ done: 2, failed: 1 })
      let rows: Record<string, unknown>[] = []
      const look = job('look', {
        source: ['x'],
        each: (_: string, context) =>
          context.commit(async (sql) => {
            rows = await sql.all('SELECT item FROM paid ORDER BY item')
          }),
      })
      await (await engine.run(look)).result()
      expect(rows.map((row) => row.item)).toEqual(['a', 'c'])
      await engine.close()
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
