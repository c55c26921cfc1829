// A worker as other processes see it: the one call that hangs while everything else progresses, no entry for an idle server,
// and repeatedly failing checkpoints.

import { expect, it } from 'vitest'
import { reportOf } from '../../src/engine/base/worker.ts'
import { timeline } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { aggregate, sqlProjection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { stuckAfterMs, stuckOn } from '../../src/operations/workers.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore('a worker', (world) => {
  const never = new Promise<never>(() => undefined)

  it('reports the call that hangs while others progress, and no idle timelines', async () => {
    const at = await world()
    const engine = await at.engine({ lease: 600 })
    const sessions = await engine.open(table<number>('sessions'))
    await sessions.set('a', 1)
    const idle = async () =>
      reportOf((await engine.workers()).find((row) => row.id === hostOf(engine).kernel.worker.id)!)
    const beaten = async () => (await engine.workers())[0]!.beatAt
    const first = await beaten()
    await expect.poll(beaten).toBeGreaterThan(first)
    expect((await idle()).underWay).toEqual([])

    let isHanging = true
    const pay = workflow('pay', async (ctx, id: string) => {
      return await ctx.step('charge', () => (id === 'hangs' && isHanging ? never : id))
    })
    await engine.run(pay, 'hangs', { id: 'hangs' })
    const items = job('items', {
      source: ['bad', 'good', 'better'],
      concurrency: 2,
      grace: 1,
      each: (item: string) => (item === 'bad' ? never : item),
    })
    await engine.run(items)
    const schema = migrations('schema', { steps: [{ id: '001-slow', run: () => (isHanging ? never : undefined) }] })
    void (await engine.run(schema))
    for (let n = 0; n < 20; n++) expect(await (await engine.run(pay, `n${n}`)).result()).toBe(`n${n}`)
    await expect
      .poll(async () => (await idle()).underWay.map(({ timeline, what }) => `${timeline} ${what}`).sort())
      .toEqual(['job/items item bad', 'migrate/schema step 001-slow', 'workflow/pay/hangs step charge'])
    const now = hostOf(engine).kernel.worker.now()
    expect(stuckOn(await idle(), now)).toEqual([])
    expect(stuckOn(await idle(), now + stuckAfterMs + 5000)).toHaveLength(3)
    isHanging = false
    // None of them ends by itself: close() waits for its timeout, and no longer.
    await engine.close({ grace: 50 })
  })

  it('reports a hanging model, tool or SQL handler while others progress, and no longer once it is over', async () => {
    const at = await world()
    const engine = await at.engine({ lease: 600 })
    const letGo: (() => void)[] = []
    const hang = () => new Promise<void>((resolve) => letGo.push(resolve))
    const clerk = agent('clerk', {
      async model({ messages }) {
        const last = messages.at(-1)
        if (last?.content === 'hang') await hang()
        if (last?.content === 'use') return { content: '', requests: [{ tool: 'slow', args: {} }] }
        return { content: 'ok' }
      },
      modelCalls: { timeout: '1h' },
      tools: { slow: tool({ kind: 'idempotent', run: hang }) },
    })
    const turns = [
      (await engine.open(clerk, 'a')).turn('hang'),
      (await engine.open(clerk, 'b')).turn('use'),
      (await engine.open(clerk, 'c')).turn('hello'),
    ]
    expect((await turns[2]!).content).toBe('ok')
    const account = aggregate('account', {
      initial: () => 0,
      evolve: { deposited: (s, e: { amount: number }) => s + e.amount },
      decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
    })
    await (await engine.open(account, 'x')).do('deposit', { amount: 1 })
    // On SQLite the user's SQL holds the only writer: no heartbeat is written until it is aborted.
    if (at.kind === 'postgres') {
      await engine.open(sqlProjection('ledger', { from: [account], on: { deposited: hang } }))
      await expect.poll(() => letGo.length).toBe(3)
    }
    const counter = timeline('counter', { initial: () => 0, apply: (s: number) => s })
    const raw = await engine.open(counter, 'r')
    const charging = raw.effects.run('charge', hang)
    const report = async () =>
      reportOf((await engine.workers()).find((row) => row.id === hostOf(engine).kernel.worker.id)!)
    const said = async () => (await report()).underWay.map(({ timeline, what }) => `${timeline} ${what}`).sort()
    const handler = 'projection/ledger@1-1 handler of deposited at events/account/x@1'
    const seen = at.kind === 'postgres' ? [handler] : []
    const calls = ['agent/clerk/a model call', 'agent/clerk/b tool slow', 'counter/r effect charge']
    await expect.poll(said).toEqual([...calls, ...seen])
    expect((await report()).underWay.find(({ what }) => what === 'model call')!.limitMs).toBe(3_600_000)
    const [slow] = stuckOn(await report(), hostOf(engine).kernel.worker.now() + stuckAfterMs + 5000)
    expect(slow).toMatch(/(tool slow|handler of deposited .*|effect charge) without a sign of life for/)
    for (const end of letGo) end()
    await Promise.all([...turns, charging])
    await expect.poll(said).toEqual([])
  })

  it('reports checkpoints that fail in a row, with the reason, until one succeeds', async () => {
    const at = await world()
    const engine = await at.engine({ lease: 600 })
    const state: { total: unknown } = { total: () => 'a function cannot be stored' }
    const counter = timeline('counter', { initial: () => ({ inner: state }), apply: (s: { inner: object }) => s })
    const open = await engine.open(counter, 'c')
    await open.append({ type: 'x' })
    for (let n = 0; n < 2; n++) await expect(open.checkpoint()).rejects.toThrow()
    const failing = async () =>
      reportOf((await engine.workers()).find((row) => row.id === hostOf(engine).kernel.worker.id)!).failing
    await expect.poll(async () => (await failing())[0]?.failures).toBe(2)
    expect((await failing())[0]).toMatchObject({ timeline: 'counter/c' })
    expect((await failing())[0]!.reason).toContain('UNSERIALIZABLE')
    state.total = 1
    await open.checkpoint()
    await expect.poll(failing).toEqual([])
  })
})
