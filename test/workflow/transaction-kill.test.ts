// kill -9 around the commit of ctx.transaction, on real files and a real server: the payment is made once, and the run
// continues with the result of the SQL, whether the process died before the commit, after it, or after the code got the result
// (G5).

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { Codec } from '../../src/core/codec/codec.ts'
import { timelineId } from '../../src/core/coordinate.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../src/engine/history/history.ts'
import { openRow, rowName } from '../../src/engine/storage/seal/sealed-row.ts'
import { open, type Reprise } from '../../src/index.ts'
import { workflowFold } from '../../src/layers/workflow/history/fold.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { workflowKind } from '../../src/layers/workflow/model.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { programPath } from '../support/programs.ts'

const program = programPath('workflow-transaction')
const pay = workflow<string, number>('pay', async () => 0)

let folder: string
let children: ChildProcess[]
beforeEach(() => {
  folder = temporaryFolder('transaction')
  children = []
})
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
})

describe('a process killed around the commit of a transaction', () => {
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
        const ledger = await hostOf(rp).openTimeline(timelineId('ledger/one'), workflowFold)
        const sql = async (text: string) =>
          (await ledger.write([], { userSql: (db) => db.all(text) })).sqlResult as Record<string, unknown>[]
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
        expect(await run.result({ timeout: '4m' })).toBe(paidBy)
        const paid = await sql(`SELECT payment, process FROM ${table}`)
        expect(paid.map((row) => [row.payment, Number(row.process)])).toEqual([
          [expect.stringMatching(/^pay-[0-9a-f]{32}$/), paidBy],
        ])
        // The result of the SQL is in history now, and its row is gone. (The server's table is shared with other tests.)
        if (kind === 'sqlite') expect(await sql('SELECT ride FROM workflow_results')).toEqual([])
        await sql(`DROP TABLE ${table}`)
        second.send('end')
        await once(second, 'exit')
      } finally {
        await rp.close()
      }
    })
  }

  it('keeps the result sealed with a secret in history, and continues with a plain row of an older release', async () => {
    const url = `sqlite:${join(folder, 'test.db')}`
    const rp = await open(url, { namespace: 'one' })
    const stranger = await open(url, { namespace: 'two' })
    const codec = new Codec()
    try {
      const sqlOf = async (engine: Reprise) => {
        const ledger = await hostOf(engine).openTimeline(timelineId('ledger/one'), workflowFold)
        return async (text: string, ...values: unknown[]) =>
          (await ledger.write([], { userSql: (db) => db.all(text, ...values) })).sqlResult as Record<string, unknown>[]
      }
      const sql = await sqlOf(rp)
      await sql('CREATE TABLE payment (payment TEXT, process INTEGER)')
      const run = await rp.run(pay, 'payment', { id: 'p', here: false })
      const first = fork(program, [url, 'one', 'committed'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
      children.push(first)
      const [{ pid }] = await once(first, 'message')
      await once(first, 'exit')
      // Another namespace of the same file sees a row, but not its content.
      const [seen] = await (await sqlOf(stranger))('SELECT ride, value FROM workflow_results')
      const result = codec.encode(pid)
      expect(Buffer.from(seen!.value as Uint8Array).includes(Buffer.from(result))).toBe(false)
      const rode = await secretOf(rp)
      expect(seen!.ride).toBe(rowName(rode))
      expect(codec.decode(openRow(rode, new Uint8Array(seen!.value as Uint8Array)))).toBe(pid)
      expect(() => openRow(`${rode}0`, new Uint8Array(seen!.value as Uint8Array))).toThrow()
      await sql('UPDATE workflow_results SET ride = ?, value = ?', rode, result)

      const second = fork(program, [url, 'one', 'never'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
      children.push(second)
      expect(await run.result({ timeout: '4m' })).toBe(pid)
      expect(await sql('SELECT ride FROM workflow_results')).toEqual([])
      second.send('end')
      await once(second, 'exit')
      // A rekey seals what an older release left.
      await sql('INSERT INTO workflow_results (ride, value) VALUES (?, ?)', '0123456789abcdef', result)
      const keys = { current: 'k', keys: { k: new Uint8Array(32).fill(1) } }
      const sealing = await open(url, { namespace: 'one', keys, housekeeping: false })
      sealing.declare(workflowKind)
      expect((await sealing.rekey()).changed.rows).toBe(1)
      await sealing.close()
      const [sealed] = await sql('SELECT ride, value FROM workflow_results')
      expect(sealed!.ride).toBe(rowName('0123456789abcdef'))
      expect(codec.decode(openRow('0123456789abcdef', new Uint8Array(sealed!.value as Uint8Array)))).toBe(pid)
    } finally {
      await stranger.close()
      await rp.close()
    }
  })
})

async function secretOf(rp: Reprise): Promise<string> {
  const head = (await rp.head('workflow/pay/p'))!
  const lineage = await lineageOf(hostOf(rp).kernel, head)
  for await (const run of readHistory(hostOf(rp).kernel, lineage, floorOf(lineage), head.seq)) {
    for (const { data } of entriesOf(hostOf(rp).kernel, run)) {
      const { rode } = (data ?? {}) as { rode?: string }
      if (rode) return rode
    }
  }
  throw new Error('no entry holds a secret')
}
