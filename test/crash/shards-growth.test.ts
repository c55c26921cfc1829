import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { temporaryFolder } from '../support/fixture.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { newSchemaName } from '../support/schema.ts'
import { Crew, Follower, pause } from './shard-crew.ts'
import { amount, Child } from './support.ts'

const seed = amount('REPRISE_CRASH_SEED', 7)
const kills = amount('REPRISE_GROWTH_KILLS', 2)
const onPostgres = amount('REPRISE_GROWTH_POSTGRES', 0) > 0
const perKill = 6
const longMs = 300_000 + 2 * kills * 60_000

describe('a set of shards that grows under load', () => {
  let directory: string
  let servers: TestPostgres[] = []
  let all: string[]
  beforeEach(async () => {
    directory = temporaryFolder('growth')
    if (onPostgres) servers = await Promise.all([0, 1, 2, 3, 4].map(() => startPostgres()))
    const schema = newSchemaName()
    all = onPostgres
      ? servers.map(({ url }) => `${url}?schema=${schema}`)
      : [0, 1, 2, 3, 4].map((i) => `sqlite:${join(directory, `${i}.db`)}`)
  }, 120_000)
  afterEach(async () => {
    for (const server of servers) await server.stop()
  })

  it(
    'G1, G4: loses nothing, doubles nothing and ends every run, whoever is killed, and grows again',
    async () => {
      const random = randomFrom(seed)
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
      const follower = new Follower()
      const crew = new Crew(all.slice(0, 3))
      let rp = await open({ shards: crew.shards, patience: '60s' })
      let adder: Child | null = null
      let [adderKills, serverKills] = [0, 0]
      const killAdder = async () => {
        await adder?.kill()
        adderKills += 1
      }
      try {
        await crew.ready()
        await begin(rp, 3 * perKill)
        for (const count of [4, 5]) {
          const few = all.slice(0, count - 1)
          const shards = all.slice(0, count)
          const url = shards.at(-1)!
          await crew.flow(1)
          await follower.read(few)
          // It joins, and waits for those that have one fewer.
          adder = new Child('shard-adder', { shards: few, url })
          await said(adder, 'waiting')
          await killAdder()
          await rp.close()
          rp = await open({ shards, patience: '60s' })
          await crew.replaceAll(shards)
          await crew.ready()
          for (let kill = 0; kill < kills; kill++) {
            adder = new Child('shard-adder', { shards, url })
            const beginning = begin(rp, perKill)
            await said(adder, '')
            await crew.flow(1)
            await pause(random.below(300))
            const server = servers[random.below(count)]
            if (server && kill % 3 === 2) {
              await server.kill()
              serverKills += 1
              await pause(random.below(2000))
              if (kill % 2 === 0) await killAdder()
              await server.restart()
            } else if (kill % 3 === 1) {
              await crew.replace(random.below(2))
            }
            await beginning
            await killAdder()
            await follower.read(shards)
          }
          adder = new Child('shard-adder', { shards, url })
          await said(adder, 'DONE')
          expect(adder.lines.at(-1), adder.errors).toContain(`DONE ${count} `)
          await begin(rp, perKill)
          const rows = await rp.shards()
          expect(rows.map(({ isJoining, version }) => [isJoining, version])).toEqual(
            shards.map(() => [false, count - 2]),
          )
          expect(rows.at(-1)!.timelines).toBeGreaterThan(0)
          // With one too few nothing is read as if it were all.
          await expect(open({ shards: few })).rejects.toMatchObject({ code: 'SHARDS_DIFFER' })
          const last = `${rows.at(-1)!.timelines} timelines on the new shard; ${adder.lines.at(-1)}`
          console.log(
            `${count} shards: ${adderKills} movers, ${serverKills} servers and ${crew.kills} workers killed, ${last}`,
          )
        }
        for (let n = 0; n < begun; n++) expect(await (await run(rp, n)).result(), `order-${n}`).toBe(n * 2 + 1)
        await crew.end()
        expect((await rp.verify()).faults).toEqual([])
        await rp.close()
        await follower.finish(all)
        console.log(`${adderKills} movers killed, ${serverKills} servers killed, ${crew.check(begun)}`)
      } finally {
        await crew.end()
        await adder?.kill()
        await rp.close()
      }
    },
    longMs,
  )
})

async function said(child: Child, beginning: string): Promise<void> {
  await child.until(({ lines }) => lines.some((line) => line.startsWith(beginning)))
}
