// Real processes killed at random while they write to an aggregate, a table, a projection and a save (G1, G2, G6).
// More rounds: REPRISE_ENTITY_KILLS=100 npx vitest run test/entities/kill.test.ts

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'
import { programPath } from '../support/programs.ts'

const rounds = Number(process.env.REPRISE_ENTITY_KILLS ?? 6)
const program = new URL('../programs/entity-writer.mjs', import.meta.url)

it('G1: everything acknowledged before a SIGKILL exists afterwards, each number once, and state and position agree', {
  timeout: 300_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-kill-'))
  const url = `sqlite:${join(folder, 'x.db')}`
  const acked = { log: 0, row: 0, paged: 0, save: 0 }
  try {
    for (let round = 0; round < rounds; round++) {
      const child = spawn(process.execPath, [programPath('entity-writer'), url], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let isReady = false
      for await (const line of createInterface(child.stdout)) {
        const said = JSON.parse(line) as Record<string, number>
        if (said.ready) {
          isReady = true
          // At the start it prints its state: no acknowledged write may be missing.
          expect(said.last).toBeGreaterThanOrEqual(acked.log)
          expect(said.offset).toBeGreaterThanOrEqual(acked.row)
          expect(said.pagedOffset).toBeGreaterThanOrEqual(acked.paged)
          setTimeout(() => child.kill('SIGKILL'), 50 + Math.random() * 400)
          continue
        }
        for (const kind of ['log', 'row', 'paged', 'save'] as const) {
          if (said[kind] !== undefined) acked[kind] = Math.max(acked[kind], said[kind])
        }
      }
      expect(isReady).toBe(true)
    }
    // The program's own definitions, of the same build as the program.
    const definitions = await import(program.href)
    const built = await import(new URL('../../dist/index.js', import.meta.url).href)
    const rp = await built.open(url)
    const log = await rp.open(definitions.log, 'x')
    const rows = await rp.open(definitions.rows)
    const sums = await rp.open(definitions.sums)
    expect(log.state.last).toBeGreaterThanOrEqual(acked.log)
    const numbers: number[] = []
    for await (const { event } of log.history()) numbers.push(event.n)
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(log.state.sum).toBe(numbers.reduce((sum, n) => sum + n, 0))
    expect(await sums.catchUp()).toEqual({ sum: log.state.sum, count: numbers.length })
    const offset = Number(rows.offset('n'))
    expect(offset).toBeGreaterThanOrEqual(acked.row)
    // A large transaction exists as a whole or not at all.
    const bulk = new Set([...rows.entries({ prefix: 'bulk' })].map(([, n]) => n))
    expect(bulk.size).toBeLessThanOrEqual(1)
    if (bulk.size === 1) expect([...rows.keys({ prefix: 'bulk' })]).toHaveLength(9000)
    const paged = await rp.open(definitions.paged)
    expect(Number(paged.offset('n'))).toBeGreaterThanOrEqual(acked.paged)
    const pagedBulk = new Set<number>()
    let bulkRows = 0
    for await (const [, n] of paged.entries({ prefix: 'bulk' })) {
      pagedBulk.add(n)
      bulkRows += 1
    }
    expect(pagedBulk.size).toBeLessThanOrEqual(1)
    if (pagedBulk.size === 1) expect(bulkRows).toBe(5000)
    if (acked.save > 0) {
      const latest = await (await rp.open(definitions.saves)).latest()
      expect(latest.value.n).toBeGreaterThanOrEqual(acked.save)
    }
    expect((await rp.verify()).faults).toEqual([])
    await rp.close()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
