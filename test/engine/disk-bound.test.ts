// Disk usage is bounded by default: saves of random bytes, the last two kept, no explicit collection. Usage is measured by the
// file system and the server.

import { randomFillSync } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'

const saveBytes = 5 * 1024 * 1024
const saves = 12
const weights = save<Uint8Array>('weights', { keep: 2 })

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-disk-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}

/** The most that lay on disk at any time, in saves. */
async function fill(url: string, options: Parameters<typeof open>[1], size: () => Promise<number>): Promise<number> {
  let most = 0
  const rp = await open(url, options)
  const series = await rp.open(weights)
  for (let n = 0; n < saves; n++) {
    await series.put(randomFillSync(new Uint8Array(saveBytes)))
    most = Math.max(most, await size())
  }
  const newest = (await series.latest()).value as Uint8Array
  expect(newest.length).toBe(saveBytes)
  await rp.close()
  const again = await open(url, { ...options, housekeeping: false })
  expect((await again.verify()).faults).toEqual([])
  await again.close()
  return most / saveBytes
}

describe('disk', () => {
  it('A4.5: a SQLite file with two saves kept holds about four, not twelve', async () => {
    const folder = newFolder()
    expect(await fill(`sqlite:${join(folder, 'a.db')}`, {}, async () => sizeOf(folder))).toBeLessThan(8)
    expect(sizeOf(folder) / saveBytes).toBeLessThan(5)
  })

  it('A4.5: a folder of chunks holds no more either', async () => {
    const folder = newFolder()
    const blobs = `file:${join(folder, 'chunks')}`
    expect(await fill(`sqlite:${join(folder, 'a.db')}`, { blobs }, async () => sizeOf(folder))).toBeLessThan(8)
    expect(sizeOf(folder) / saveBytes).toBeLessThan(5)
  })

  it('A4.5: neither does PostgreSQL', async () => {
    const url = inject('postgresUrl')
    const schema = newSchemaName()
    cleanups.push(() => dropSchema(url, schema))
    const at = new URL(url)
    at.searchParams.set('schema', schema)
    const size = async () => {
      const [row] = await query(url, `SELECT pg_total_relation_size('"${schema}".chunk') AS bytes`)
      return Number((row as { bytes: unknown }).bytes)
    }
    expect(await fill(at.href, {}, size)).toBeLessThan(8)
  })
})
