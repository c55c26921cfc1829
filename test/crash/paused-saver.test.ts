// A process is stopped (SIGSTOP) between putting the chunks of a save and publishing it, for longer than its lease, while
// another process collects all unreferenced chunks. After SIGCONT, every save that it acknowledges must be whole.

import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { isReprise, type Reprise } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { amount, Child, newFolder, openEngine, removeFolder, type Where } from './support.ts'

const leaseMs = 600
const trials = amount('REPRISE_PAUSES', 3)
const series = save<{ n: number; bytes: Uint8Array }>('noise', { keep: 20 })

async function collectBeside(collector: Reprise): Promise<number> {
  try {
    await hostOf(collector).kernel.worker.beatNow()
    return (await collector.collect()).chunks.swept
  } catch (error) {
    if (isReprise(error, 'STORE_BUSY')) return 0
    throw error
  }
}

/** How many acknowledged saves do not come back. */
async function lostOf(where: Where, planted?: string): Promise<number> {
  const collector = await openEngine(where)
  const saver = new Child('paused-saver', { where, leaseMs, count: trials, planted })
  let swept = 0
  try {
    for (let n = 1; n <= trials; n++) {
      await saver.until(({ lines }) => lines.includes(`PUT ${n}`))
      saver.signal('SIGSTOP')
      await pause(2 * leaseMs)
      // One that is stopped inside a heartbeat holds the write lock of a SQLite file: then there is nothing to collect.
      swept += await collectBeside(collector)
      saver.signal('SIGCONT')
      await saver.until(({ lines }) => lines.some((line) => line.startsWith(`SAVED ${n} `)))
    }
    await saver.ended
    expect(saver.errors).toBe('')
    expect(swept).toBeGreaterThan(0)
    let lost = 0
    const saved = saver.lines.filter((line) => line.startsWith('SAVED')).map((line) => line.split(' '))
    expect(saved).toHaveLength(trials)
    for (const [, n, id] of saved) {
      const loaded = await series
        .read(collector)
        .load(id!)
        .catch(() => null)
      if (loaded?.value?.n !== Number(n)) lost += 1
    }
    return lost
  } finally {
    saver.signal('SIGCONT')
    await saver.kill()
    await collector.close()
  }
}

describe('A4.5: a save whose chunks were collected while its process was stopped is whole once it is acknowledged', () => {
  const folder = newFolder()
  const schema = newSchemaName()
  const url = inject('postgresUrl')
  afterAll(async () => {
    removeFolder(folder)
    await dropSchema(url, schema)
  })

  it('in a SQLite file', async () => {
    expect(await lostOf({ kind: 'sqlite', file: join(folder, 'a.db') })).toBe(0)
  })

  it('in a folder of chunks', async () => {
    expect(await lostOf({ kind: 'sqlite', file: join(folder, 'b.db'), chunks: join(folder, 'chunks') })).toBe(0)
  })

  it('in PostgreSQL', async () => {
    expect(await lostOf({ kind: 'postgres', url, schema })).toBe(0)
  })

  it('and this trial finds a publication that is not checked', async () => {
    expect(await lostOf({ kind: 'sqlite', file: join(folder, 'c.db') }, 'publish-unchecked')).toBeGreaterThan(0)
  })
})
