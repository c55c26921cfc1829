// The hits and misses of the memos of a process, as its server reports them.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { open } from '../../src/index.ts'
import { command, memo } from '../../src/layers/memo/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { startServer, type TestServer } from './support.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function served(options: Parameters<typeof startServer>[0] = {}): Promise<TestServer> {
  const here = await startServer(options)
  cleanups.push(() => here.close())
  return here
}

const memosOf = async (here: TestServer) => (await here.ask('/v1/caches')).value.memos

/** @example { store: 2, computed: 1 } */
async function figuresOf(here: TestServer, name: string): Promise<Record<string, number>> {
  const { value } = await here.ask('/metrics')
  const lines = [...value.matchAll(/^reprise_memo_lookups_total\{memo="([^"]*)",result="(\w+)"\} (\d+)$/gm)]
  return Object.fromEntries(lines.filter(([, memo]) => memo === name).map(([, , from, n]) => [from, Number(n)]))
}

const half = (n: number) => {
  if (n < 0) throw new Error('no')
  return n / 2
}

it('after any requests in any order: a hit for each existing entry, a miss for each other', async () => {
  const here = await served()
  const asked = fc.record({ n: fc.integer({ min: -1, max: 2 }), refresh: fc.boolean() })
  let round = 0
  await fc.assert(
    fc.asyncProperty(fc.array(asked, { minLength: 1, maxLength: 8 }), fc.boolean(), async (calls, inMemory) => {
      const name = `half-${round++}`
      const options = { version: 1, run: half, ...(!inMemory && { cacheBytes: 0 }) }
      const handle = await here.rp.open(memo(name, options))
      const known = new Set<number>()
      const expected = { hits: 0, computed: 0, failed: 0 }
      for (const { n, refresh } of calls) {
        await handle.recall([n], { refresh }).catch(() => undefined)
        // A forced computation is not a lookup.
        if (!refresh) expected[known.has(n) ? 'hits' : n < 0 ? 'failed' : 'computed'] += 1
        if (n >= 0) known.add(n)
        // A peek is not a lookup either.
        await handle.peek(n)
      }
      const { memory = 0, store = 0, computed = 0, failed = 0, ...others } = await figuresOf(here, name)
      expect({ hits: memory + store, computed, failed, others }).toEqual({ ...expected, others: {} })
      if (!inMemory) expect(memory).toBe(0)
      const { hits, misses } = {
        hits: 0,
        misses: 0,
        ...(await memosOf(here)).find((each: { memo: string }) => each.memo === name),
      }
      expect({ hits, misses }).toEqual({ hits: expected.hits, misses: expected.computed + expected.failed })
    }),
    { numRuns: 10 },
  )
})

it('counts a failure that is remembered, an old result and a command like any other', async () => {
  const here = await served()
  const failing = await here.rp.open(memo('failing', { version: 1, errors: '1h', cacheBytes: 0, run: () => half(-1) }))
  for (let i = 0; i < 3; i++) await expect(failing.call()).rejects.toThrow('no')
  expect(await memosOf(here)).toMatchObject([{ memo: 'failing', hits: 2, misses: 1 }])

  const old = await here.rp.open(memo('old', { version: 1, ttl: 0, stale: '1h', cacheBytes: 0, run: half }))
  expect([await old.call(4), await old.call(4)]).toEqual([2, 2])
  await old.close()
  // A computation without a waiting caller is not a lookup.
  expect(await figuresOf(here, 'old')).toEqual({ computed: 1, stale: 1 })

  const folder = temporaryFolder('lookups')
  writeFileSync(join(folder, 'in.txt'), 'in')
  const copy = { cmd: 'cp in.txt out.txt', directory: folder, inputs: ['in.txt'], outputs: ['out.txt'] }
  const copying = await here.rp.open(command('copy', copy))
  await copying.run()
  await copying.run()
  await copying.run({ refresh: true })
  expect(await figuresOf(here, 'copy')).toEqual({ computed: 1, store: 1 })
})

it('explains each of the last misses by the changed part', async () => {
  const here = await served({ rp: await open('memory:', { housekeeping: false, redundancy: false }) })
  const folder = temporaryFolder('lookups')
  cleanups.push(() => delete process.env.LOOKUPS_MODE)
  const write = (text: string) => writeFileSync(join(folder, 'in.txt'), text)
  const of = (version: number) =>
    memo('why', { version, directory: folder, inputs: ['in.txt'], env: ['LOOKUPS_MODE'], cacheBytes: 0, run: half })
  const whys = async (name = 'why') => {
    const found = (await memosOf(here)).find((each: { memo: string }) => each.memo === name)
    return found.missed.map(({ why }: { why: string }) => why)
  }
  write('one')
  const first = await here.rp.open(of(1))
  await first.call(2)
  expect(await whys()).toEqual(['no result is stored yet'])
  await first.call(4)
  expect((await whys())[0]).toBe('other arguments')
  write('another')
  await first.call(2)
  expect((await whys())[0]).toBe('file in.txt changed')
  process.env.LOOKUPS_MODE = 'fast'
  await first.call(2)
  expect((await whys())[0]).toBe('variable LOOKUPS_MODE was added')
  const second = await here.rp.open(of(2))
  await second.call(2)
  expect((await whys())[0]).toBe('another version')
  // A hit has no explanation, and earlier explanations stay unchanged.
  await second.call(2)
  const all = ['another version', 'variable LOOKUPS_MODE was added', 'file in.txt changed', 'other arguments']
  expect(await whys()).toEqual([...all, 'no result is stored yet'])

  const old = await here.rp.open(memo('old', { version: 1, ttl: 0, cacheBytes: 0, run: half }))
  for (let i = 0; i < 2; i++) await old.call(2)
  expect((await whys('old'))[0]).toBe('too old')

  const long = (n: number) => 'x'.repeat(50_000 + n)
  const broken = await here.rp.open(memo('broken', { version: 1, cacheBytes: 0, run: long }))
  await broken.call(2)
  const { blobs } = hostOf(here.rp).kernel.store
  for (const { digest } of await blobs.list(null, 100)) await blobs.delete([digest], Number.MAX_SAFE_INTEGER)
  await broken.call(2)
  expect((await whys('broken'))[0]).toBe('the stored result is damaged')
})

it('keeps the last twenty', async () => {
  const here = await served()
  const handle = await here.rp.open(memo('many', { version: 1, run: half }))
  for (let i = 0; i < 30; i++) await handle.call(i)
  const [{ misses, missed }] = await memosOf(here)
  expect([misses, missed.length, new Set(missed.map(({ why }: { why: string }) => why))]).toEqual([
    ...[30, 20],
    new Set(['other arguments']),
  ])
})

it('is of this process: a server that was closed hears no more, and the next one starts from nothing', async () => {
  const here = await served()
  const handle = await here.rp.open(memo('half', { version: 1, run: half }))
  await handle.call(2)
  await here.server.close()
  expect(here.rp.events.has('recalled')).toBe(false)
  const next = await startServer({ rp: here.rp })
  cleanups.push(() => next.server.close())
  expect(await memosOf(next)).toEqual([])
  await handle.call(2)
  expect(await memosOf(next)).toEqual([{ memo: 'half', hits: 1, misses: 0, missed: [] }])
})
