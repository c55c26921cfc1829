// G1, G4: several PostgreSQL servers behind one store, and workers that share it. Workers and servers are killed (SIGKILL) by
// chance among steps of runs that exchange mail between shards. Every run ends with its result, every step has one outcome, a
// reader of the feed has seen every entry once, and verify finds nothing. REPRISE_TEST_SHARDS=4 and REPRISE_SHARD_KILLS=40 are a
// longer run.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { shardOf } from '../../src/core/store/shards.ts'
import { open } from '../../src/index.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { newSchemaName } from '../support/schema.ts'
import { Crew, Follower, pause } from './shard-crew.ts'
import { amount, Child } from './support.ts'

const given = process.env.REPRISE_TEST_POSTGRES
if (given) console.log('shards killed under load: skipped, the server was given by REPRISE_TEST_POSTGRES')
const seed = amount('REPRISE_CRASH_SEED', 5)
const servers = amount('REPRISE_TEST_SHARDS', 2)
const kills = amount('REPRISE_SHARD_KILLS', 2)
const perKill = 6
const longMs = 300_000 + kills * 30_000

describe.skipIf(given)('shards on several servers, with workers and servers killed under load', () => {
  let all: TestPostgres[] = []
  beforeAll(async () => {
    all = await Promise.all(Array.from({ length: servers }, () => startPostgres()))
  })
  afterAll(async () => {
    for (const server of all) await server.stop()
  })

  it(
    'G1, G4: loses nothing, doubles nothing and ends every run',
    async () => {
      const random = randomFrom(seed)
      const schema = newSchemaName()
      const shards = all.map(({ url }) => `${url}?schema=${schema}`)
      const started = async (_: unknown, n: number) => n
      const order = workflow('order', started, { queue: queue('belt', { concurrency: 5 }) })
      const rush = workflow('rush', started)
      const run = (n: number) => rp.run(n % 2 === 0 ? order : rush, n, { id: `order-${n}`, here: false })
      const rp = await open({ shards, patience: '60s' })
      const follower = new Follower()
      const crew = new Crew(shards)
      let begun = 0
      const begin = async (count: number) => {
        const ids = Array.from({ length: count }, (_, i) => begun + i)
        begun += count
        await Promise.all(ids.map(run))
      }
      let serverKills = 0
      try {
        await crew.ready()
        for (let kill = 0; kill < kills; kill++) {
          // Killed among steps that are being executed, of runs that were begun before and of those that are just begun.
          await begin(perKill)
          const beginning = begin(perKill)
          await crew.flow(1 + random.below(2 * perKill))
          await pause(random.below(40))
          if (kill % 2 === 0) {
            const server = all[random.below(all.length)]!
            await server.kill()
            serverKills += 1
            if (random.below(3) === 0) await crew.replace(random.below(2))
            await pause(random.below(2000))
            await server.restart()
          } else {
            await crew.replace(random.below(2))
          }
          await beginning
          await follower.read(shards)
        }
        for (let n = 0; n < begun; n++) {
          expect(await (await run(n)).result(), `order-${n}`).toBe(n * 2 + 1)
        }
      } finally {
        await crew.end()
      }
      await rp.close()
      await follower.finish(shards)
      const again = await open({ shards, housekeeping: false })
      expect((await again.verify()).faults).toEqual([])
      await again.close()
      console.log(`${servers} servers, ${serverKills} of them killed, ${crew.check(begun)}`)
    },
    longMs,
  )

  for (const away of [0, 1]) {
    it(`G1, G4: stops the timelines of shard ${away} while it is away, and no others`, async () => {
      const schema = newSchemaName()
      // Shards are numbered in the order of their addresses.
      const sorted = [...all].sort((a, b) => (a.url < b.url ? -1 : 1))
      const shards = sorted.map(({ url }) => `${url}?schema=${schema}`)
      const none = async (_: unknown, n: number) => n
      const [lone, queued, rush] = [
        workflow('lone', none),
        workflow('queued', none, { queue: queue(queueOn(1 - away, servers)) }),
        workflow('rush', none),
      ]
      const idOn = (name: string, isThere: boolean, n: number) => {
        for (let i = 0; ; i++) {
          const id = `${name}-${n}-${i}`
          if ((shardOf(`workflow/${name}/${id}`, servers) === away) !== isThere) return id
        }
      }
      const workerOptions = { shards, queue: queueOn(1 - away, servers) }
      const rp = await open({ shards, patience: '60s' })
      const workers = [new Child('shard-worker', workerOptions), new Child('shard-worker', workerOptions)]
      const some = Array.from({ length: 6 }, (_, i) => i)
      const later: Promise<unknown>[] = []
      const server = sorted[away]!
      try {
        await Promise.all(workers.map((worker) => worker.until(() => worker.lines.includes('READY'))))
        // Each shard has some in progress.
        const before = some.map((n) => rp.run(rush, n, { id: `rush-${n}`, here: false }))
        await Promise.all(before)
        await server.kill()
        workers.push(new Child('shard-worker', workerOptions))
        const late = await open({ shards, patience: '60s' })
        expect((await late.facts()).durability['shards away']).toContain(`shard ${away} `)
        for (const [definition, engine] of [
          [lone, rp],
          [lone, late],
          [queued, rp],
          [queued, late],
        ] as const) {
          const name = definition.name
          const tag = engine === rp ? 10 : 20
          const runs = some.map((n) => engine.run(definition, n, { id: idOn(name, true, tag + n), here: false }))
          for (const [n, run] of runs.entries()) expect(await (await run).result(), `${name} ${n}`).toBe(n + 1)
        }
        // The two that were up and the new one: each continues alone.
        for (const gone of [0, 1]) {
          await workers[gone]!.kill()
          const run = rp.run(lone, gone, { id: idOn('lone', true, 30 + gone), here: false })
          expect(await (await run).result()).toBe(gone + 1)
        }
        await expect(late.list()).rejects.toMatchObject({
          code: 'STORE_UNREACHABLE',
          message: expect.stringContaining(`shard ${away} (`),
        })
        for (const n of some) later.push(late.run(lone, n, { id: idOn('lone', false, n), here: false }))
        await server.restart()
        for (const [n, run] of later.entries()) expect(await ((await run) as Run).result()).toBe(n + 1)
        for (const [n, run] of before.entries()) expect(await (await run).result(), `rush ${n}`).toBe(n * 2 + 1)
        await late.close()
      } finally {
        await Promise.all(workers.map((worker) => worker.kill()))
        await server.restart().catch(() => undefined)
      }
      expect((await rp.verify()).faults).toEqual([])
      await rp.close()
    }, 300_000)
  }
})

interface Run {
  result(): Promise<unknown>
}

/** The name of a queue that lives on this shard. */
function queueOn(shard: number, count: number): string {
  for (let i = 0; ; i++) if (shardOf(`workflow-queue/q${i}`, count) === shard) return `q${i}`
}
