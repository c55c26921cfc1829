// A timeline is deleted, or deleted and created again, between the read of its head and the read of its history. The result is
// not damage: the timeline does not exist, or it is another one, which is read from its start.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const folder = temporaryFolder('deleted')

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})

async function fill(rp: Reprise, by: number, entries: number): Promise<void> {
  const c = await rp.open(counter, 'a')
  for (let i = 0; i < entries; i++) await c.append({ type: 'added', by })
  await c.close()
}

/** An engine whose first read of history runs after `meanwhile`. */
async function racing(world: World, meanwhile: () => Promise<void>): Promise<Reprise> {
  const store = await world.store()
  let isOver = false
  const port = forwardStore(store, {
    async read(id, after, bytesMax) {
      if (id === 'counter/a' && !isOver) {
        isOver = true
        await meanwhile()
      }
      return await store.read(id, after, bytesMax)
    },
  })
  return createEngine({ store: port }, { worker: 'reader' })
}

const readers: Record<string, (rp: Reprise) => Promise<unknown>> = {
  at: async (rp) => (await rp.at(counter, 'a', { seq: 2 })).state,
  export: (rp) => rp.export({ timeline: 'counter/a', seq: 2 }, join(folder, 'x.reprise')),
  follow: async (rp) => {
    const replica = await rp.follow(counter, 'a')
    const { state } = replica
    await replica.close()
    return state
  },
  history: async (rp) => {
    for await (const _ of entriesAfter(rp, (await rp.head('counter/a'))!, 0)) void _
  },
  open: async (rp) => (await rp.open(counter, 'a')).state,
}

onEveryStore('a timeline that is deleted while it is read', (world) => {
  for (const [verb, read] of Object.entries(readers)) {
    it(`G8: ${verb} finds it deleted, not damaged`, async () => {
      const w = await world()
      const writer = await w.engine()
      await fill(writer, 1, 3)
      const rp = await racing(w, async () => void (await writer.delete('counter/a')))
      if (verb === 'open') {
        // The opened one is owned, so it cannot be deleted.
        await expect(read(rp)).rejects.toMatchObject({ code: 'OWNED' })
      } else await expect(read(rp)).rejects.toMatchObject({ code: 'NOT_FOUND' })
      await rp.close()
    })

    it(`G8: ${verb} does not take the next life for damage`, async () => {
      const w = await world()
      const writer = await w.engine()
      await fill(writer, 1, 3)
      const rp = await racing(w, async () => {
        await writer.delete('counter/a')
        await fill(writer, 10, 2)
      })
      const code = await read(rp).then(
        (result) => (verb === 'at' || verb === 'follow' ? (result as { total: number }).total : 20),
        (error: { code?: string }) => error.code,
      )
      expect(verb === 'open' ? ['OWNED'] : verb === 'at' ? [20] : ['NOT_FOUND', 20]).toContain(code)
      await rp.close()
    })
  }

  it('a delete that another write overtook looks again, and deletes no next life', async () => {
    const w = await world()
    const writer = await w.engine()
    await fill(writer, 1, 3)
    let meanwhile: () => Promise<void> = () => fill(writer, 1, 1)
    const store = await w.store()
    const port = forwardStore(store, {
      async commit(commits) {
        const isForget = commits.some(({ forget }) => forget !== undefined)
        if (isForget) await meanwhile()
        if (isForget) meanwhile = async () => undefined
        return await store.commit(commits)
      },
    })
    const rp = createEngine({ store: port }, { worker: 'deleter' })
    expect((await rp.delete('counter/a')).timelines).toMatchObject([{ timeline: 'counter/a', entries: 4 }])
    expect(await rp.head('counter/a')).toBeNull()
    await fill(writer, 1, 3)
    meanwhile = async () => {
      await writer.delete('counter/a')
      await fill(writer, 10, 2)
    }
    // The timeline is gone, deleted by this call or by the other.
    await rp.delete('counter/a').catch((error) => expect(error.code).toBe('NOT_FOUND'))
    expect((await writer.at(counter, 'a', { seq: 2 })).state).toEqual({ total: 20 })
    await rp.close()
  })

  it('G8: verify does not report it', async () => {
    const w = await world()
    const writer = await w.engine()
    await fill(writer, 1, 3)
    const rp = await racing(w, async () => void (await writer.delete('counter/a')))
    expect(await rp.verify()).toMatchObject({ ok: true, faults: [] })
    await rp.close()
  })
})
