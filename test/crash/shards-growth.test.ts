// A shard is added to a set while workers execute runs that exchange mail between shards. Whoever adds it is killed (SIGKILL)
// by chance and starts again, and so are the workers. Every run ends with its result, a reader of the feed has seen every entry
// once, and verify finds nothing. REPRISE_GROWTH_KILLS=20 is a longer run; REPRISE_GROWTH_POSTGRES=1 does it on PostgreSQL.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import { feedStart, type Store } from '../../src/core/ports.ts'
import { openStore } from '../../src/engine/open-store.ts'
import { open, type Reprise } from '../../src/index.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { newSchemaName } from '../support/schema.ts'
import { amount, Child } from './support.ts'

const seed = amount('REPRISE_CRASH_SEED', 7)
const kills = amount('REPRISE_GROWTH_KILLS', 4)
const onPostgres = amount('REPRISE_GROWTH_POSTGRES', 0) > 0
const perKill = 8

describe('a set of shards that grows under load', () => {
  let directory: string
  let server: TestPostgres | null = null
  let all: string[]
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'reprise-growth-'))
    if (onPostgres) server = await startPostgres()
    const schema = newSchemaName()
    all = [0, 1, 2, 3].map((i) =>
      server ? `${server.url}?schema=${schema}_${i}` : `sqlite:${join(directory, `${i}.db`)}`,
    )
  }, 120_000)
  afterEach(async () => {
    await server?.stop()
    rmSync(directory, { recursive: true, force: true })
  })

  it('G1, G4: loses nothing, doubles nothing and ends every run, whoever is killed', async () => {
    const random = randomFrom(seed)
    const three = all.slice(0, 3)
    const started = async (_: unknown, n: number) => n
    const order = workflow('order', started, { queue: queue('belt', { concurrency: 5 }) })
    const rush = workflow('rush', started)
    const definitions = [order, rush] as const
    const run = (rp: Reprise, n: number) => rp.run(definitions[n % 2]!, n, { id: `order-${n}`, here: false })
    let begun = 0
    const begin = async (rp: Reprise, count: number) => {
      const ids = Array.from({ length: count }, (_, i) => begun + i)
      begun += count
      await Promise.all(ids.map((n) => run(rp, n)))
    }
    const first = await open({ shards: three, patience: '60s' })
    const children = [new Child('shard-worker', { shards: three }), new Child('shard-worker', { shards: three })]
    let adder: Child | null = null
    let rp = first
    try {
      await begin(first, 3 * perKill)
      await children[0]!.until(() => children[0]!.lines.includes('READY'))
      const reader = { position: feedStart, seen: [] as string[] }
      await follow(three, reader)
      // It joins, and waits for those that have three.
      adder = new Child('shard-adder', { shards: three, url: all[3] })
      await adder.until(() => adder!.lines.some((line) => line.startsWith('waiting')))
      await adder.kill()
      await first.close()
      rp = await open({ shards: all, patience: '60s' })
      for (let i = 0; i < children.length; i++) {
        await children[i]!.kill()
        children[i] = new Child('shard-worker', { shards: all })
      }
      for (let kill = 0; kill < kills; kill++) {
        adder = new Child('shard-adder', { shards: all, url: all[3] })
        await begin(rp, perKill)
        await adder.until(() => adder!.lines.length > 0)
        await pause(random.below(300))
        await adder.kill()
        const at = random.below(children.length)
        if (kill % 2 === 1) {
          await children[at]!.kill()
          children[at] = new Child('shard-worker', { shards: all })
        }
        await follow(all, reader)
      }
      adder = new Child('shard-adder', { shards: all, url: all[3] })
      await adder.until(() => adder!.lines.some((line) => line.startsWith('DONE')))
      await begin(rp, perKill)
      for (let n = 0; n < begun; n++) expect(await (await run(rp, n)).result(), `order-${n}`).toBe(n * 2 + 1)
      const rows = await rp.shards()
      expect(rows.map(({ isJoining, version }) => [isJoining, version])).toEqual([0, 1, 2, 3].map(() => [false, 2]))
      expect(rows[3]!.timelines).toBeGreaterThan(0)
      for (const child of children) await child.kill()
      expect((await rp.verify()).faults).toEqual([])
      await rp.close()
      await finish(all, reader)
      // With one too few nothing is read as if it were all.
      await expect(open({ shards: three })).rejects.toMatchObject({ code: 'SHARDS_DIFFER' })
      console.log(
        `${kills} kills, ${begun} runs, ${rows[3]!.timelines} timelines on the new shard; ${adder.lines.at(-1)}`,
      )
    } finally {
      await Promise.all([...children, ...(adder ? [adder] : [])].map((child) => child.kill()))
      await rp.close()
    }
  }, 300_000)
})

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

interface Reader {
  position: string
  readonly seen: string[]
}

async function follow(shards: readonly string[], reader: Reader): Promise<void> {
  const store = await openStore(`shards:${shards.join(',')}`, { readOnly: true })
  try {
    for (let isEnd = false; !isEnd; ) {
      const page = await store.feed(reader.position, {}, 50)
      for (const { timeline, run } of page.items) reader.seen.push(`${timeline} ${run.first} ${toHex(run.digest)}`)
      reader.position = page.next
      isEnd = page.isEnd
    }
  } finally {
    await store.close()
  }
}

async function finish(shards: readonly string[], reader: Reader): Promise<void> {
  await follow(shards, reader)
  const fresh = { position: feedStart, seen: [] as string[] }
  await follow(shards, fresh)
  const store: Store = await openStore(`shards:${shards.join(',')}`, { readOnly: true })
  const there: string[] = []
  for (const { timeline } of await store.timelines({ limit: 100_000 })) {
    for (const run of await store.read(timeline, 0, 1e9)) there.push(`${timeline} ${run.first} ${toHex(run.digest)}`)
  }
  await store.close()
  for (const { seen } of [reader, fresh]) {
    expect(new Set(seen).size, 'nothing is seen twice').toBe(seen.length)
    expect([...seen].sort()).toEqual([...there].sort())
  }
}
