// Changes that were killed keep the options of their call. A restore is killed at each of its writes: a copy stays a copy
// whichever call continues it, another call is refused, and an abandoned restore leaves the previous identity. An import under
// another id is continued only under that id.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { noteLosses } from '../../src/engine/storage/losses.ts'
import { timeline } from '../../src/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const folder = mkdtempSync(join(tmpdir(), 'reprise-killed-restores-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})
const writes = new Set(['commit', 'blobs.put', 'beat', 'identity'])

/** The keys of a timeline of the backup, and of one that only this store has. */
async function keysOf(rp: Reprise): Promise<string[]> {
  const keys: string[] = []
  for (const id of ['a', 'new']) {
    const c = await rp.open(counter, id, { takeover: true })
    await c.effects.run('pay', ({ key }) => void keys.push(key), { input: { cents: 500 } })
    await c.close()
  }
  return keys
}

async function original(w: World): Promise<{ file: string; exported: string; keys: string[] }> {
  const rp = await w.engine({ namespace: 'original' })
  for (const id of ['a', 'b']) {
    const c = await rp.open(counter, id)
    await c.append({ type: 'added', by: 1 })
    await c.close()
  }
  await noteLosses(hostOf(rp).kernel, [{ timeline: 'counter/b', where: 'log', what: 'its history ends at 1' }])
  const file = join(folder, `${w.kind}.rpb`)
  await rp.backup(file)
  const exported = join(folder, `${w.kind}.reprise`)
  await rp.export({ timeline: 'counter/a', seq: 1 }, exported)
  const keys = await keysOf(rp)
  await rp.close()
  return { file, exported, keys }
}

/** Kills a restore at its n-th write. False: it was over before. */
async function killed(w: World, namespace: string, n: number, restore: (rp: Reprise) => Promise<unknown>) {
  let count = 0
  const port = faultyStore(await w.store(namespace), (method) => {
    if (count >= n && method !== 'close') return 'fail-before'
    if (writes.has(method)) count += 1
    return count === n ? 'fail-after' : 'ok'
  })
  const rp = createEngine({ store: port, namespace, identity: { host: 'here', process: 'dead' } }, { patience: 20 })
  await restore(rp).catch(() => undefined)
  await rp.close().catch(() => undefined)
  return count >= n
}

/** Calls `check` in the store of each restore that was killed and not finished. */
async function sweep(
  w: World,
  title: string,
  restore: (rp: Reprise) => Promise<unknown>,
  check: (rp: Reprise, where: string, before: { id: string; namespace: string }) => Promise<void>,
  unfinishedMin = 5,
): Promise<void> {
  let unfinished = 0
  for (let n = 1, isOver = false; !isOver; n++) {
    const namespace = `${title}-${n}`
    const first = await w.engine({ namespace })
    const { identity } = hostOf(first).kernel
    const before = { id: (await identity.load()).id, namespace: identity.namespace }
    await first.close()
    isOver = !(await killed(w, namespace, n, restore))
    const isGone = ({ process }: { readonly process: string }) => process === 'dead'
    const rp = createEngine({ store: await w.store(namespace), namespace, isGone })
    await hostOf(rp).kernel.deadWorkers.retireGone()
    if ((await rp.changes()).length > 0) {
      unfinished += 1
      await check(rp, `killed at write ${n}`, before)
      expect(await rp.changes()).toEqual([])
    }
    await rp.close()
  }
  expect(unfinished).toBeGreaterThanOrEqual(unfinishedMin)
}

onEveryStore(
  'a restore that was killed',
  (world) => {
    for (const copy of [true, false]) {
      const title = copy ? 'a copy stays a copy' : 'a restore stays a restore'
      it(`${title}, and the other call is refused`, { timeout: 300_000 }, async () => {
        const w = await world()
        const { file, keys } = await original(w)
        let isResume = false
        await sweep(
          w,
          `copy-${copy}`,
          (rp) => rp.restore(file, { copy }),
          async (rp, where) => {
            const other = rp.restore(file, { copy: !copy })
            await expect(other, where).rejects.toMatchObject({ code: 'CHANGE_UNFINISHED' })
            await expect(other, where).rejects.toThrow(copy ? 'it began with copy' : 'it began without options')
            isResume = !isResume
            if (isResume) await rp.resumeChange('restore')
            else await rp.restore(file, { copy })
            const found = await keysOf(rp)
            if (!copy) expect(found, where).toEqual(keys)
            else for (const [i, key] of found.entries()) expect(key, where).not.toBe(keys[i])
          },
        )
      })
    }

    it('an abandoned restore leaves the identity and the losses of before', { timeout: 300_000 }, async () => {
      const w = await world()
      const { file, keys } = await original(w)
      let isCopy = false
      const restore = (rp: Reprise) => {
        isCopy = !isCopy
        return rp.restore(file, { copy: isCopy })
      }
      await sweep(w, 'abandoned', restore, async (rp, where, before) => {
        await rp.abandonChange('restore')
        const { identity } = hostOf(rp).kernel
        expect({ id: (await identity.current()).id, namespace: identity.namespace }, where).toEqual(before)
        expect(await rp.losses(), where).toEqual([])
        const found = await keysOf(rp)
        for (const [i, key] of found.entries()) expect(key, where).not.toBe(keys[i])
      })
    })

    it('an import that began under another id is continued only under that id', { timeout: 300_000 }, async () => {
      const w = await world()
      const { exported } = await original(w)
      await sweep(
        w,
        'import',
        (rp) => rp.import(exported, { as: 'counter/other' }),
        async (rp, where) => {
          for (const options of [{}, { as: 'counter/third' }]) {
            const other = rp.import(exported, options)
            await expect(other, where).rejects.toMatchObject({ code: 'CHANGE_UNFINISHED' })
            await expect(other, where).rejects.toThrow('it began with as counter/other')
          }
          for (const { id } of await rp.changes()) await rp.resumeChange(id)
          const there = await rp.list({ prefix: 'counter/' })
          expect(
            there.map(({ timeline, status }) => [timeline, status === 'importing']),
            where,
          ).toEqual([['counter/other', false]])
        },
        2,
      )
    })

    it('a restore that is abandoned after a resume leaves the identity of before', { timeout: 300_000 }, async () => {
      const w = await world()
      const { file } = await original(w)
      await sweep(
        w,
        'again',
        (rp) => rp.restore(file),
        async (rp, where, before) => {
          const end = new AbortController()
          const again = rp.restore(file, { signal: end.signal, onProgress: () => end.abort() })
          await again.catch((error) => expect(error, where).toMatchObject({ code: 'ABORTED' }))
          for (const { id } of await rp.changes()) await rp.abandonChange(id)
          const { id } = await hostOf(rp).kernel.identity.current()
          if ((await rp.head('counter/b')) === null) expect(id, where).toBe(before.id)
        },
      )
    })
  },
  ['sqlite', 'postgres'],
)
