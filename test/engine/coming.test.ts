// A timeline that an interrupted import or move is bringing here is created by no other call, in any model: the call is refused
// (CHANGE_UNFINISHED) until the change is resumed or abandoned, and leaves nothing behind. Mail in the commit of another
// timeline waits for it.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { underNote } from '../../src/engine/storage/store-change.ts'
import { timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, commandTo, processManager } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { schedule, workflow } from '../../src/layers/workflow/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { until } from '../support/until.ts'
import { onEveryStore } from '../support/worlds.ts'

const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[] }),
  apply: ({ texts }, { text }: { type: 'note'; text: string }) => ({ texts: [...texts, text] }),
})
const greet = workflow('greet', async (ctx, name: string) => await ctx.step('greet', () => `Hello ${name}`))
const papers = job('papers', { source: ['a', 'b'], key: (paper) => paper, each: (paper) => paper.toUpperCase() })
const echo = agent('echo', { model: () => ({ content: 'Hello' }) })
const scheduled = workflow('scheduled', async (ctx) => await ctx.step('one', () => 1))
const counted = {
  initial: () => 0,
  evolve: { paid: (sum: number, e: { amount: number }) => sum + e.amount },
  decide: { pay: (_: number, c: { amount: number }) => ({ type: 'paid' as const, amount: c.amount }) },
}
const till = aggregate('till', counted)
const source = aggregate('source', counted)
const users = table<{ name: string }>('users')

/** Calls that create a missing timeline, or send mail to it. */
const ways: Readonly<Record<string, (rp: Reprise) => Promise<unknown>>> = {
  open: (rp) => rp.open(notes, 'a'),
  'open shared': async (rp) => (await rp.open(notes, 'a', { shared: true })).append({ type: 'note', text: 'x' }),
  append: async (rp) => await rp.open(notes, 'a').append({ type: 'note', text: 'x' }),
  send: (rp) => rp.send('notes/a', 'note', 'x'),
  'run a workflow': (rp) => rp.run(greet, 'ann', { id: 'a' }).result(),
  'start a workflow': (rp) => rp.run(greet, 'ann', { id: 'a' }).started(),
  'run a job': (rp) => rp.run(papers).result(),
  'ask an agent': async (rp) => (await rp.open(echo, 'a')).turn('hi'),
  'execute a command': async (rp) => (await rp.open(till, 'a')).do('pay', { amount: 1 }),
  'write a table': async (rp) => (await rp.open(users)).set('ann', { name: 'Ann' }),
  fork: async (rp) => {
    await (await rp.open(notes, 'b')).append({ type: 'note', text: 'x' })
    return await rp.fork({ timeline: 'notes/b', seq: 1 }, 'notes/a')
  },
}
const coming = [
  'notes/a',
  'workflow/greet/a',
  'workflow/scheduled/',
  'job/papers',
  'agent/echo/a',
  'events/till/a',
  'table/users',
]

/** Starts something that makes a timeline of its own accord. The function that it returns: whether that is done. */
const starters: Readonly<Record<string, (rp: Reprise) => Promise<() => Promise<boolean>>>> = {
  'a run that starts a child': async (rp) => {
    const parent = workflow('parent', async (ctx) => await ctx.child(greet, 'ann', { id: 'a' }))
    const run = await rp.run(parent, { id: 'p' })
    return async () => (await run.status()).status === 'completed' && (await run.result()) === 'Hello ann'
  },
  'a run that starts another one': async (rp) => {
    const parent = workflow('parent', async (ctx) => await ctx.start(greet, 'ann', { id: 'a' }))
    const run = await rp.run(parent, { id: 'p' })
    return async () => (await run.status()).status === 'completed' && (await run.result()) === 'a'
  },
  'a schedule': async (rp) => {
    rp.work([schedule('often', { workflow: scheduled, every: '1s', overlap: 'allow' })])
    return async () => (await rp.list({ prefix: 'workflow/scheduled/', status: 'completed' })).length > 0
  },
  'a process manager': async (rp) => {
    rp.work([
      till,
      processManager('doubles', {
        from: [source],
        on: { paid: ({ amount }) => commandTo(till, 'a', 'pay', { amount }) },
      }),
    ])
    await (await rp.open(source, 'x')).do('pay', { amount: 2 })
    return async () => (await rp.head('events/till/a'))?.seq === 1
  },
}

/** An import of all of them, whose process died. */
async function interrupted(rp: Reprise): Promise<void> {
  const stopped = underNote(hostOf(rp).kernel, { kind: 'import', of: 'x.reprise', coming }, async (note) => {
    note.began()
    throw new Error('killed')
  })
  await expect(stopped).rejects.toThrow('killed')
}

onEveryStore('a coming timeline', (world) => {
  it('is refused to every caller except the change that brings it', { timeout: 60_000 }, async () => {
    for (const [way, call] of Object.entries(ways)) {
      const w = await world()
      const rp = await w.engine()
      // A process that looked just before does not make one either.
      await rp.open(notes, 'other').append({ type: 'note', text: 'x' })
      await interrupted(rp)
      const beside = await w.engine({ worker: 'beside' })
      const before = (await beside.list()).map((head) => head.timeline).sort()
      const refused = await call(beside).then(
        () => 'nothing was refused',
        (error) => error.code,
      )
      expect({ way, refused }).toEqual({ way, refused: 'CHANGE_UNFINISHED' })
      const made = (await beside.list()).map((head) => head.timeline).filter((id) => !before.includes(id))
      expect({ way, made: made.filter((id) => id !== 'notes/b') }).toEqual({ way, made: [] })
      // The change does not concern a timeline beside it.
      await beside.open(notes, 'ab').append({ type: 'note', text: 'x' })
      await beside.abandonChange((await beside.changes())[0]!.id)
      await call(beside)
    }
  })

  it.each(Object.entries(starters))(
    'is waited for by %s, which then continues',
    { timeout: 60_000 },
    async (_, starter) => {
      const w = await world()
      await interrupted(await w.engine())
      const rp = await w.engine({ worker: 'beside' })
      const refused: string[] = []
      rp.events.on('problem', ({ error }) => refused.push((error as { code?: string }).code ?? String(error)))
      const isDone = await starter(rp)
      await until(() => refused.length > 1)
      expect(new Set(refused)).toEqual(new Set(['CHANGE_UNFINISHED']))
      expect(await isDone()).toBe(false)
      await rp.abandonChange((await rp.changes())[0]!.id)
      await until(isDone)
    },
  )

  it('gets the mail that other timelines sent meanwhile, once, however the change ends', {
    timeout: 120_000,
  }, async () => {
    const w = await world()
    const origin = await w.engine({ namespace: 'origin' })
    await (await origin.open(echo, 'a')).turn('hi')
    const file = join(folder, `${w.kind}.reprise`)
    await origin.export({ timeline: 'agent/echo/a', seq: (await origin.head('agent/echo/a'))!.seq }, file)
    let unfinished = 0
    for (let n = 1, isOver = false; !isOver; n++) {
      const namespace = `n${n}`
      isOver = !(await importKilled(await w.store(namespace), namespace, file, n))
      const isGone = ({ process }: { readonly process: string }) => process === 'dead'
      const rp = createEngine({ store: await w.store(namespace), namespace, isGone }, { worker: 'next' })
      await hostOf(rp).kernel.deadWorkers.retireGone()
      const [change] = await rp.changes()
      await (await rp.open(echo, 'b')).send('a', `mail ${n}`)
      if (change) {
        unfinished += 1
        if (n % 2 === 0) await rp.abandonChange(change.id)
        else await rp.resumeChange(change.id)
      }
      await rp.import(file, { orSame: true })
      const received = (await (await rp.open(echo, 'a')).receive()).map(({ content }) => content)
      expect({ n, received }).toEqual({ n, received: [`mail ${n}`] })
      await rp.close()
    }
    expect(unfinished).toBeGreaterThan(3)
  })
})

const folder = temporaryFolder('coming')

/** Imports the file in a process that dies at its n-th write. False: the import was over before. */
async function importKilled(store: Store, namespace: string, file: string, n: number): Promise<boolean> {
  let count = 0
  const dying = faultyStore(store, (method) => {
    if (count >= n && method !== 'close') return 'fail-before'
    if (method === 'commit' || method === 'blobs.put') count += 1
    return count === n ? 'fail-after' : 'ok'
  })
  const rp = createEngine({ store: dying, namespace, identity: { host: 'here', process: 'dead' } }, { patience: 20 })
  await rp.import(file).catch(() => undefined)
  await rp.close().catch(() => undefined)
  return count >= n
}
