// G1, G2: a writing process is killed repeatedly and resumes each time. Acknowledgements are stored here, outside of the store.

import { afterAll, describe, expect, inject, it } from 'vitest'
import { randomFrom } from '../programs/crash-model.mjs'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { type Acks, amount, Child, checkAfterCrash, mergeAcks, newFolder, removeFolder, type Where } from './support.ts'

const ids = ['plain/a', 'ledger/b', 'ledger/c', 'shelf/d']
const seed = amount('REPRISE_CRASH_SEED', 20_250_101)

interface Round {
  /** Appends that each timeline has in progress. */
  readonly lanes: number
  readonly after: 'start' | 'acknowledged'
  readonly count: number
  readonly pauseMs: number
}

async function run(where: Where, { lanes, after, count, pauseMs }: Round): Promise<Acks> {
  const child = new Child('crash-writer', { where, ids, lanes, every: 12, collect: 40, engine: { grace: '5s' } })
  if (after === 'acknowledged') {
    await child.until(({ lines }) => lines.filter((line) => line.startsWith('ACK')).length >= count)
  }
  if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
  await child.kill()
  expect(child.errors).toBe('')
  expect(child.lines.filter((line) => line.startsWith('PROBLEM'))).toEqual([])
  return child.acks
}

async function killRepeatedly(where: Where, rounds: number): Promise<void> {
  const random = randomFrom(seed)
  const acks: Acks = new Map()
  for (let round = 0; round < rounds; round++) {
    // Some are killed while they open and recover, most while they write.
    const isEarly = random.chance(0.2)
    mergeAcks(
      acks,
      await run(where, {
        lanes: random.chance(0.5) ? 1 : 2 + random.below(6),
        after: isEarly ? 'start' : 'acknowledged',
        count: 1 + random.below(160),
        pauseMs: isEarly ? random.below(400) : random.number() * 4,
      }),
    )
    const found = await checkAfterCrash(where, acks, ids)
    // A recovered write is history too: the next crash must not lose it.
    mergeAcks(acks, found)
  }
  const total = [...acks.values()].reduce((sum, n) => sum + n, 0)
  console.log(`${where.kind}: ${rounds} kills, ${total} entries, none lost (REPRISE_CRASH_SEED=${seed})`)
  expect(total).toBeGreaterThan(rounds)
}

describe('SIGKILL at random moments', () => {
  const folder = newFolder()
  afterAll(() => removeFolder(folder))

  it('G1: on SQLite every acknowledged entry exists exactly once, and state equals its fold', async () => {
    await killRepeatedly({ kind: 'sqlite', file: `${folder}/store.db` }, amount('REPRISE_KILLS', 8))
  })

  it('G2, A6.2: with chunks in a directory no checkpoint is ever half there', async () => {
    const where = { kind: 'sqlite', file: `${folder}/other.db`, chunks: `${folder}/chunks` } as const
    await killRepeatedly(where, amount('REPRISE_KILLS', 6))
  })

  it('G1: on PostgreSQL every acknowledged entry exists exactly once, and state equals its fold', async () => {
    const where = { kind: 'postgres', url: inject('postgresUrl'), schema: newSchemaName() } as const
    try {
      await killRepeatedly(where, amount('REPRISE_KILLS', 6))
    } finally {
      await dropSchema(where.url, where.schema)
    }
  })
})
