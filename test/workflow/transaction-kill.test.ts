// kill -9 around the commit of ctx.transaction, on real files and a real server: the payment is made once, and the run goes on
// with what the SQL gave, whether the process died before the commit, after it, or after the code was told (G5).

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { open } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { workflowFold } from '../../src/layers/workflow/state.ts'

const program = fileURLToPath(new URL('../programs/workflow-transaction.mjs', import.meta.url))
const isBuilt = existsSync(fileURLToPath(new URL('../../dist/layers/workflow/index.js', import.meta.url)))
const pay = workflow<string, number>('pay', async () => 0)

let folder: string
let children: ChildProcess[]
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reprise-transaction-'))
  children = []
})
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

describe.skipIf(!isBuilt)('a process killed around the commit of a transaction', () => {
  const stores: [string, () => string][] = [
    ['sqlite', () => `sqlite:${join(folder, 'test.db')}`],
    ['postgres', () => inject('postgresUrl')],
  ]
  const places: ['in' | 'committed' | 'told', 'first' | 'second'][] = [
    ['in', 'second'],
    ['committed', 'first'],
    ['told', 'first'],
  ]
  for (const [kind, urlOf] of stores) {
    it.each(places)(`pays once and knows it: killed %s, so the %s process paid (${kind})`, async (where, payer) => {
      const url = urlOf()
      const namespace = `transaction-${process.pid}-${Date.now()}`
      const table = `payment_${process.pid}_${Date.now()}`
      const rp = await open(url, { namespace })
      try {
        const ledger = await rp.openTimeline(timelineId('ledger/one'), workflowFold)
        const sql = async (text: string) =>
          (await ledger.write([], { ride: (db) => db.all(text) })).ridden as Record<string, unknown>[]
        await sql(`CREATE TABLE ${table} (payment TEXT, process INTEGER)`)
        const run = await rp.run(pay, table, { id: 'p', here: false })

        const first = fork(program, [url, namespace, where], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
        children.push(first)
        const [{ pid: firstPid }] = await once(first, 'message')
        const [, signal] = await once(first, 'exit')
        expect(signal).toBe('SIGKILL')
        const rows = await sql(`SELECT * FROM ${table}`)
        expect(rows.length).toBe(payer === 'first' ? 1 : 0)

        const second = fork(program, [url, namespace, 'never'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
        children.push(second)
        const [{ pid: secondPid }] = await once(second, 'message')
        const paidBy = payer === 'first' ? firstPid : secondPid
        expect(await run.result({ timeout: '50s' })).toBe(paidBy)
        const paid = await sql(`SELECT payment, process FROM ${table}`)
        expect(paid.map((row) => [row.payment, Number(row.process)])).toEqual([['workflow/pay/p:pay', paidBy]])
        // What the SQL gave is in history now, and its row is gone. (The server's table is shared with other tests.)
        if (kind === 'sqlite') expect(await sql('SELECT ride FROM workflow_results')).toEqual([])
        await sql(`DROP TABLE ${table}`)
        second.send('end')
        await once(second, 'exit')
      } finally {
        await rp.close()
      }
    })
  }
})
