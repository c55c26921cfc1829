// G1, G4: several PostgreSQL servers behind one store, and workers that share it. Workers and servers are killed (SIGKILL) by
// chance while runs exchange mail between shards. Every run ends with its result, no run is there twice, a reader of the feed has
// seen every entry once, and verify finds nothing. REPRISE_TEST_SHARDS=4 and REPRISE_SHARD_KILLS=20 are a longer run.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import { isReprise } from '../../src/core/errors.ts'
import { feedStart, type Store } from '../../src/core/ports.ts'
import { openStore } from '../../src/engine/open-store.ts'
import { open } from '../../src/index.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { newSchemaName } from '../support/schema.ts'
import { amount, Child } from './support.ts'

const given = process.env.REPRISE_TEST_POSTGRES
if (given) console.log('shards killed under load: skipped, the server was given by REPRISE_TEST_POSTGRES')
const seed = amount('REPRISE_CRASH_SEED', 5)
const servers = amount('REPRISE_TEST_SHARDS', 2)
const kills = amount('REPRISE_SHARD_KILLS', 2)
const perKill = 8

describe.skipIf(given)('shards on several servers, with workers and servers killed under load', () => {
  let all: TestPostgres[] = []
  beforeAll(async () => {
    all = await Promise.all(Array.from({ length: servers }, () => startPostgres()))
  })
  afterAll(async () => {
    for (const server of all) await server.stop()
  })

  it('G1, G4: loses nothing, doubles nothing and ends every run', async () => {
    const random = randomFrom(seed)
    const schema = newSchemaName()
    const shards = all.map(({ url }) => `${url}?schema=${schema}`)
    const started = async (_: unknown, n: number) => n
    const order = workflow('order', started, { queue: queue('belt', { concurrency: 5 }) })
    const rush = workflow('rush', started)
    const run = (n: number) => rp.run(n % 2 === 0 ? order : rush, n, { id: `order-${n}`, here: false })
    const rp = await open({ shards, patience: '60s' })
    const reader = await openStore(`shards:${shards.join(',')}`, { readOnly: true })
    const follower = new Follower(reader)
    const start = () => new Child('shard-worker', { shards })
    const workers = [start(), start()]
    let begun = 0
    const begin = async (count: number) => {
      const ids = Array.from({ length: count }, (_, i) => begun + i)
      begun += count
      await Promise.all(ids.map(run))
    }
    try {
      await begin(perKill)
      await Promise.all(workers.map((worker) => worker.until(() => worker.lines.includes('READY'))))
      for (let kill = 0; kill < kills; kill++) {
        await pause(random.below(400))
        if (kill % 2 === 0) {
          const server = all[random.below(all.length)]!
          await server.kill()
          const beginning = begin(perKill)
          await pause(random.below(600))
          await server.restart()
          await beginning
        } else {
          const at = random.below(workers.length)
          await workers[at]!.kill()
          workers[at] = start()
          await begin(perKill)
        }
        await follower.read()
      }
      for (let n = 0; n < begun; n++) {
        expect(await (await run(n)).result(), `order-${n}`).toBe(n * 2 + 1)
      }
    } finally {
      await Promise.all(workers.map((worker) => worker.kill()))
    }
    await rp.close()
    await follower.finish()
    await reader.close()
    const again = await open({ shards, housekeeping: false })
    expect((await again.verify()).faults).toEqual([])
    await again.close()
    console.log(`${servers} servers, ${kills} kills, ${begun} runs: none lost, none doubled, none stuck`)
  }, 300_000)
})

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Reads the feed now and then, and must have everything once. */
class Follower {
  readonly #store: Store
  readonly #seen: string[] = []
  #position = feedStart

  constructor(store: Store) {
    this.#store = store
  }

  async read(): Promise<boolean> {
    try {
      for (;;) {
        const page = await this.#store.feed(this.#position, {}, 50)
        for (const { timeline, run } of page.items) this.#seen.push(`${timeline} ${run.first} ${toHex(run.digest)}`)
        this.#position = page.next
        if (page.isEnd) return true
      }
    } catch (error) {
      if (!isReprise(error, 'STORE_UNREACHABLE')) throw error
      return false
    }
  }

  async finish(): Promise<void> {
    while (!(await this.read())) await pause(100)
    const there: string[] = []
    for (const { timeline } of await this.#store.timelines({ limit: 100_000 })) {
      for (const run of await this.#store.read(timeline, 0, 1e9))
        there.push(`${timeline} ${run.first} ${toHex(run.digest)}`)
    }
    expect(new Set(this.#seen).size, 'nothing is seen twice').toBe(this.#seen.length)
    expect([...this.#seen].sort()).toEqual(there.sort())
  }
}
