// A log in which old entries stay and most others are removed: it does not keep a row for every commit, and all its readers
// (the feed from any position, verify, a process with an old mark, a damaged file) continue as before.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { hostOf } from '../../../../test/support/host.ts'
import { feedStart } from '../../../core/store/ports.ts'
import { open, type Reprise, timeline } from '../../../index.ts'
import { loadDriver } from '../file/driver.ts'

const notes = timeline('note', { initial: () => 0, apply: (n: number, _: { type: 'written' }) => n + 1 })
let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reprise-empty-rows-'))
  path = join(folder, 'store.db')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function write(rp: Reprise, id: string, times = 1) {
  const handle = await rp.open(notes, id)
  for (let n = 0; n < times; n++) await handle.append({ type: 'written' })
  await handle.close()
}

async function withFile<T>(use: (database: import('../file/driver.ts').Database) => T): Promise<T> {
  const database = (await loadDriver()).open(path, { isReadOnly: false })
  try {
    return use(database)
  } finally {
    database.close()
  }
}

const openHere = () => open(`sqlite:${path}`, { housekeeping: false, log: false })
const rowCount = () => withFile((db) => Number(db.prepare('SELECT count(*) AS n FROM reprise_log').get()!.n))
const feedFrom = async (rp: Reprise, after: string) => {
  const names: string[] = []
  for (let at = after; ; ) {
    const page = await hostOf(rp).kernel.store.feed(at, {}, 3)
    names.push(...page.items.map(({ timeline: name, run }) => `${name}@${run.first}`))
    at = page.next
    if (page.isEnd) return names
  }
}

it('keeps a few rows, not one for each commit, though the first entry stays', async () => {
  const rp = await openHere()
  await write(rp, 'old')
  const places: string[] = []
  for (let n = 0; n < 60; n++) {
    await write(rp, `n${n}`, 2)
    places.push((await hostOf(rp).kernel.store.feed(feedStart, {}, 10_000)).next)
  }
  await write(rp, 'new')
  const before = await rowCount()
  for (let n = 0; n < 60; n++) await rp.delete(`note/n${n}`)
  await rp.collect()
  expect(before).toBeGreaterThan(120)
  const few = await rowCount()
  expect(few).toBeLessThan(20)
  // Once more, with more rows behind it: joined rows are joined with the new ones.
  for (let n = 0; n < 20; n++) await write(rp, `m${n}`)
  for (let n = 0; n < 20; n++) await rp.delete(`note/m${n}`)
  await rp.collect()
  await rp.collect()
  expect(await rowCount()).toBeLessThan(few + 10)
  for (const place of [feedStart, ...places]) {
    const names = await feedFrom(rp, place)
    expect(names).toContain('note/new@1')
    expect(names.includes('note/old@1')).toBe(place === feedStart)
  }
  expect((await rp.verify()).faults).toEqual([])
  await rp.close()
  const again = await openHere()
  expect((await again.verify()).faults).toEqual([])
  expect(await feedFrom(again, feedStart)).toEqual(expect.arrayContaining(['note/old@1', 'note/new@1']))
  await again.close()
})

it('a row that is lost is damage, also beside rows that were joined', async () => {
  const rp = await openHere()
  await write(rp, 'old')
  for (let n = 0; n < 10; n++) await write(rp, `n${n}`)
  await write(rp, 'new', 3)
  for (let n = 0; n < 10; n++) await rp.delete(`note/n${n}`)
  await rp.collect()
  await rp.close()
  const positions = await withFile((db) =>
    db
      .prepare('SELECT position FROM reprise_log ORDER BY position')
      .all()
      .map((row) => Number(row.position)),
  )
  for (const position of positions.slice(0, -1)) {
    const body = await withFile((db) => {
      const row = db.prepare('SELECT body FROM reprise_log WHERE position = ?').get(position)
      db.prepare('DELETE FROM reprise_log WHERE position = ?').run(position)
      return row!.body!
    })
    const damaged = await openHere()
    const { faults } = await damaged.verify()
    expect(faults.length, `row ${position}`).toBeGreaterThan(0)
    await expect(feedFrom(damaged, feedStart)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    await damaged.close()
    await withFile(
      (db) => void db.prepare('INSERT INTO reprise_log (position, body) VALUES (?, ?)').run(position, body),
    )
  }
})

it('whatever is written, deleted and collected in whatever order, what stays is read and verified', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('write' as const), id: fc.integer({ min: 0, max: 9 }) }),
    fc.record({ do: fc.constant('delete' as const), id: fc.integer({ min: 0, max: 9 }) }),
    fc.constant({ do: 'collect' as const, id: 0 }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      rmSync(folder, { recursive: true, force: true })
      folder = mkdtempSync(join(tmpdir(), 'reprise-empty-rows-'))
      path = join(folder, 'store.db')
      const rp = await openHere()
      const written = new Map<number, number>()
      await write(rp, 'old')
      for (const { do: what, id } of steps) {
        if (what === 'collect') await rp.collect()
        else if (what === 'write') {
          await write(rp, `n${id}`)
          written.set(id, (written.get(id) ?? 0) + 1)
        } else if (written.delete(id)) await rp.delete(`note/n${id}`)
      }
      await rp.collect()
      const expected = [...written].flatMap(([id, count]) =>
        Array.from({ length: count }, (_, index) => `note/n${id}@${index + 1}`),
      )
      expect((await feedFrom(rp, feedStart)).sort()).toEqual(['note/old@1', ...expected].sort())
      expect((await rp.verify()).faults).toEqual([])
      await rp.close()
    }),
    { numRuns: 15 },
  )
})
