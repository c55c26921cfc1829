// G1, G4: the PostgreSQL server is killed (SIGKILL to all of its processes) and restarted under load, repeatedly, while several
// client processes write. No acknowledged entry is lost, none is doubled, and every caller gets an answer: commits in flight
// are repeated with their operation id.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { randomFrom } from '../programs/crash-model.mjs'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { newSchemaName } from '../support/schema.ts'
import { type Acks, amount, Child, checkAfterCrash, mergeAcks } from './support.ts'

const given = process.env.REPRISE_TEST_POSTGRES
if (given) console.log('PostgreSQL killed under load: skipped, the server was given by REPRISE_TEST_POSTGRES')
const seed = amount('REPRISE_CRASH_SEED', 3)
const kills = amount('REPRISE_SERVER_KILLS', 4)

describe.skipIf(given)('PostgreSQL that is killed and restarted under load', () => {
  let server: TestPostgres
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(() => server.stop())

  it('G1, G4: loses nothing acknowledged and doubles nothing', async () => {
    const random = randomFrom(seed)
    const where = { kind: 'postgres', url: server.url, schema: newSchemaName() } as const
    const clients = [1, 2, 3].map((client) => ({
      ids: [`plain/${client}`, `ledger/${client}`, `shelf/${client}`],
      lanes: client,
    }))
    const children = clients.map(
      ({ ids, lanes }) => new Child('crash-writer', { where, ids, lanes, engine: { patience: '60s', lease: '60s' } }),
    )
    const acknowledged = (child: Child) => [...child.acks.values()].reduce((sum, n) => sum + n, 0)
    const moveOn = async (count: number) => {
      const before = children.map(acknowledged)
      await Promise.all(children.map((child, i) => child.until(() => acknowledged(child) >= before[i]! + count)))
    }
    try {
      await moveOn(20)
      for (let kill = 0; kill < kills; kill++) {
        await new Promise((resolve) => setTimeout(resolve, random.below(60)))
        await server.kill()
        await new Promise((resolve) => setTimeout(resolve, random.below(300)))
        await server.restart()
        // Every client continues by itself.
        await moveOn(20)
        expect(children.map(({ errors, isOver }) => errors || isOver)).toEqual([false, false, false])
      }
    } finally {
      await Promise.all(children.map((child) => child.kill()))
    }
    const retries = children.flatMap(({ lines }) => lines.filter((line) => line === 'RETRY')).length
    const acks: Acks = new Map()
    for (const child of children) {
      expect(child.errors).toBe('')
      mergeAcks(acks, child.acks)
    }
    await checkAfterCrash(
      where,
      acks,
      clients.flatMap(({ ids }) => ids),
    )
    const total = [...acks.values()].reduce((sum, n) => sum + n, 0)
    console.log(
      `${kills} kills of the server, ${total} entries, ${retries} commits asked for again, none lost, none doubled`,
    )
    expect(retries).toBeGreaterThan(0)
  }, 300_000)
})
