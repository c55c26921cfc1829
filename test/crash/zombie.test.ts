// G3: an owner is stopped (SIGSTOP) past its lease, another takes over, and the first continues (SIGCONT). None of its writes
// may be accepted, whatever its clock shows. Real processes; their recorded operations are compared with the final history:
// epochs never decrease, sequences never fork.

import { afterAll, describe, expect, inject, it } from 'vitest'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../src/engine/history/history.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { amount, Child, newFolder, openEngine, removeFolder, type Where } from './support.ts'

interface Operation {
  readonly by: string
  readonly op: string
  readonly ok?: boolean
  readonly code?: string
  readonly seq?: number
  readonly epoch?: number
  readonly worker?: string
}

interface Trial {
  /** How far the clocks of the two are off. */
  readonly skewsMs: readonly [number, number]
  /** The new owner declares the old worker dead instead of only waiting for its lease. */
  readonly retires: boolean
}

const id = 'plain/z'
const leaseMs = 300
const operationsOf = (child: Child) => child.lines.map((line) => JSON.parse(line) as Operation)
const countOf = (child: Child, op: string) => operationsOf(child).filter((each) => each.op === op).length

async function haunt(where: Where, { skewsMs, retires }: Trial): Promise<void> {
  // In SQLite the clock of leases is the process's own: with one that is off, the second cannot wait for it to run out.
  const takeover = where.kind === 'sqlite' && skewsMs[0] !== skewsMs[1]
  const first = new Child('crash-zombie', { where, name: 'first', id, leaseMs, skewMs: skewsMs[0] })
  let second: Child | undefined
  try {
    await first.until((child) => countOf(child, 'append') >= 8)
    first.signal('SIGSTOP')
    const worker = operationsOf(first).find(({ op }) => op === 'own')!.worker
    const options = {
      where,
      name: 'second',
      id,
      leaseMs,
      skewMs: skewsMs[1],
      takeover,
      ...(retires && { retires: worker }),
    }
    second = new Child('crash-zombie', options)
    await takeOver(first, second)
    await second.until((child) => countOf(child, 'append') >= 8)
    first.signal('SIGCONT')
    await first.until((child) => countOf(child, 'done') === 1)
    const seen = countOf(second, 'append')
    await second.until((child) => countOf(child, 'append') >= seen + 5)
  } finally {
    first.signal('SIGCONT')
    await Promise.all([first.kill(), second?.kill()])
  }
  expect(first.errors + second.errors).toBe('')
  const zombie = operationsOf(first)
  const attempts = zombie.filter(({ op }) => op.startsWith('zombie'))
  expect(attempts.length).toBe(15)
  expect(attempts.filter(({ ok }) => ok)).toEqual([])
  expect(attempts.filter(({ op, code }) => code !== 'FENCED' && !op.startsWith('zombie handle'))).toEqual([])
  // A heartbeat is a worker's own: refused when it was declared dead, harmless when it only lost this timeline.
  expect(zombie.find(({ op }) => op === 'beat')!.ok).toBe(!retires)
  await checkHistory(where, [...zombie, ...operationsOf(second)])
}

/** A process that is stopped inside a transaction holds the write lock of the file: then it gets another moment. */
async function takeOver(first: Child, second: Child): Promise<void> {
  for (;;) {
    const owned = second.until((child) => countOf(child, 'own') === 1)
    await Promise.race([owned, pause(2000)])
    if (countOf(second, 'own') === 1) return
    if (second.isOver) throw new Error(`the second owner ended: ${second.errors}`)
    const seen = countOf(first, 'append')
    first.signal('SIGCONT')
    await first.until((child) => countOf(child, 'append') > seen)
    first.signal('SIGSTOP')
  }
}

async function checkHistory(where: Where, operations: readonly Operation[]): Promise<void> {
  const rp = await openEngine(where)
  try {
    const head = (await rp.head(id))!
    const lineage = await lineageOf(hostOf(rp).kernel, head)
    const entries: { seq: number; epoch: number; by: string }[] = []
    for await (const run of readHistory(hostOf(rp).kernel, lineage, floorOf(lineage), head.seq)) {
      for (const { seq, epoch, data } of entriesOf(hostOf(rp).kernel, run))
        entries.push({ seq, epoch, by: (data as { by: string }).by })
    }
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, i) => i + 1))
    for (let i = 1; i < entries.length; i++) expect(entries[i]!.epoch).toBeGreaterThanOrEqual(entries[i - 1]!.epoch)
    // Every acknowledged append is in history, at its sequence, under its epoch, by its writer: no sequence was assigned twice.
    const acknowledged = operations.filter(({ op, ok }) => op === 'append' && ok)
    expect(new Set(acknowledged.map(({ seq }) => seq)).size).toBe(acknowledged.length)
    for (const { seq, epoch, by } of acknowledged) expect(entries[seq! - 1]).toEqual({ seq, epoch, by })
    // No write of the zombie is visible.
    expect(head).toMatchObject({ status: '', queue: null, wakeup: null, mail: 0, attributes: {}, floor: 0 })
    expect((await rp.checkpoints(id)).filter(({ invalid, isPinned }) => invalid || isPinned)).toEqual([])
    expect((await rp.checkpoints(id)).map((record) => record.id).filter((each) => each.startsWith('zombie'))).toEqual(
      [],
    )
    expect(await hostOf(rp).kernel.store.cursors()).toEqual([])
    expect((await rp.verify()).faults).toEqual([])
  } finally {
    await rp.close()
  }
}

const trials: readonly Trial[] = [
  { skewsMs: [0, 0], retires: false },
  { skewsMs: [300_000, -300_000], retires: false },
  { skewsMs: [-300_000, 300_000], retires: true },
]
const rounds = amount('REPRISE_ZOMBIES', 1)

describe('a stopped owner that wakes after a takeover', () => {
  const folder = newFolder()
  afterAll(() => removeFolder(folder))

  it.each(trials)('G3: changes nothing on SQLite, clocks off by $skewsMs ms', async (trial) => {
    for (let round = 0; round < rounds; round++) {
      await haunt({ kind: 'sqlite', file: `${folder}/${trials.indexOf(trial)}-${round}.db` }, trial)
    }
  })

  it.each(trials)('G3: changes nothing on PostgreSQL, clocks off by $skewsMs ms', async (trial) => {
    for (let round = 0; round < rounds; round++) {
      const where = { kind: 'postgres', url: inject('postgresUrl'), schema: newSchemaName() } as const
      try {
        await haunt(where, trial)
      } finally {
        await dropSchema(where.url, where.schema)
      }
    }
  })
})
