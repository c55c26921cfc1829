// A timeline that an interrupted import or move is bringing here is made by nobody else, whatever the model: the call is refused
// (CHANGE_UNFINISHED) until the change is resumed or abandoned, and leaves nothing behind.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { underNote } from '../../src/engine/storage/store-change.ts'
import { timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[] }),
  apply: ({ texts }, { text }: { type: 'note'; text: string }) => ({ texts: [...texts, text] }),
})
const greet = workflow('greet', async (ctx, name: string) => await ctx.step('greet', () => `Hello ${name}`))
const papers = job('papers', { source: ['a', 'b'], key: (paper) => paper, each: (paper) => paper.toUpperCase() })
const echo = agent('echo', { model: () => ({ content: 'Hello' }) })
const till = aggregate('till', {
  initial: () => 0,
  evolve: { paid: (sum: number, e: { amount: number }) => sum + e.amount },
  decide: { pay: (_: number, c: { amount: number }) => ({ type: 'paid' as const, amount: c.amount }) },
})
const users = table<{ name: string }>('users')

/** What makes a timeline that has not been there, or writes to it by mail. */
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
const coming = ['notes/a', 'workflow/greet/a', 'job/papers', 'agent/echo/a', 'events/till/a', 'table/users']

onEveryStore('a coming timeline', (world) => {
  it('is refused to everybody but the change that brings it', { timeout: 60_000 }, async () => {
    for (const [way, call] of Object.entries(ways)) {
      const w = await world()
      const rp = await w.engine()
      // A process that looked just before does not make one either.
      await rp.open(notes, 'other').append({ type: 'note', text: 'x' })
      const stopped = underNote(hostOf(rp).kernel, { kind: 'import', of: 'x.reprise', coming }, async (note) => {
        note.began()
        throw new Error('killed')
      })
      await expect(stopped).rejects.toThrow('killed')
      const beside = await w.engine({ worker: 'beside' })
      const before = (await beside.list()).map((head) => head.timeline).sort()
      const refused = await call(beside).then(
        () => 'nothing was refused',
        (error) => error.code,
      )
      expect({ way, refused }).toEqual({ way, refused: 'CHANGE_UNFINISHED' })
      const made = (await beside.list()).map((head) => head.timeline).filter((id) => !before.includes(id))
      expect({ way, made: made.filter((id) => id !== 'notes/b') }).toEqual({ way, made: [] })
      // A timeline beside it is no concern of the change.
      await beside.open(notes, 'ab').append({ type: 'note', text: 'x' })
      await beside.abandonChange((await beside.changes())[0]!.id)
      await call(beside)
    }
  })
})
