// Real processes, real SIGKILLs. REPRISE_KILLS=1000 runs the full count; the default is a share that fits into a test run.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, inject, it } from 'vitest'
import { newSchemaName } from '../support/schema.ts'
import { killSweep } from './kill.ts'

const killsWanted = Number(process.env.REPRISE_KILLS ?? 10)
const items = 10_000
const killsPerJob = 25
const cleanups: (() => void)[] = []

afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup()
})

function sqliteUrl(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-kill-store-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return `sqlite:${join(folder, 'kill.db')}`
}

async function sweep(url: () => string, processes: number, shards: number, wanted: number): Promise<void> {
  const concurrency = 8
  let left = wanted
  while (left > 0) {
    const kills = Math.min(killsPerJob, left)
    const namespace = newSchemaName()
    const report = await killSweep({ url: url(), namespace, items, kills, processes, shards, concurrency })
    expect(report.failures).toEqual([])
    expect(report.skipped).toEqual([])
    expect(report.wrong).toBeNull()
    expect(report.afterAcknowledgement).toEqual([])
    expect(report.repeated).toBeLessThanOrEqual(report.kills * concurrency)
    left -= Math.max(1, report.kills)
    if (wanted > 100) console.log(`${wanted - left} of ${wanted} kills, ${report.repeated} repeated by ${report.kills}`)
  }
}

const timeoutMs = 60_000 + killsWanted * 4000

it(
  'G6: a job killed at random repeats at most the items in flight and skips none (SQLite, one process)',
  async () => {
    await sweep(sqliteUrl, 1, 1, Math.ceil(killsWanted / 4))
  },
  timeoutMs,
)

it(
  'G6: several processes on one job, killed at random, skip none and do none after it was acknowledged (SQLite)',
  async () => {
    await sweep(sqliteUrl, 3, 6, Math.ceil(killsWanted / 2))
  },
  timeoutMs,
)

it(
  'G6: several processes on one job, killed at random, skip none and do none after it was acknowledged (PostgreSQL)',
  async () => {
    await sweep(() => inject('postgresUrl'), 3, 6, Math.ceil(killsWanted / 4))
  },
  timeoutMs,
)
