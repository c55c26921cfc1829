// List and watch: pages of one revision, every change after it in order, and readers whose history is gone.

import { beforeEach, expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { type ResourceHandle, resource, type Watch, type WatchEvent } from '../../src/layers/resource/index.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

interface Pod {
  readonly n: number
}

const pods = resource<Pod>('pods', { retain: { checkpoints: 1, history: 'needed' } })

async function take(watch: Watch<Pod>, count: number): Promise<WatchEvent<Pod>[]> {
  const events: WatchEvent<Pod>[] = []
  while (events.length < count) events.push((await watch.next())!)
  return events
}

onEveryStore('list and watch', (world) => {
  let here: World
  let rp: Reprise
  let a: ResourceHandle<Pod>
  let b: ResourceHandle<Pod>
  /** The revision before the first change. */
  let start: number

  beforeEach(async () => {
    here = await world()
    rp = await here.engine()
    a = await rp.open(pods)
    start = a.revision
    b = await (await here.engine({ worker: 'other' })).open(pods)
  })

  const brief = (events: readonly WatchEvent<Pod>[]) =>
    events.map((event) =>
      event.type === 'bookmark'
        ? `bookmark@${event.revision - start}`
        : `${event.type} ${event.object.name}=${event.object.spec.n}@${event.revision - start}`,
    )

  const fill = async (count: number) => {
    await Promise.all(
      Array.from({ length: count }, (_, i) =>
        a.create({ name: `p${String(i).padStart(3, '0')}`, labels: { even: String(i % 2 === 0) }, spec: { n: i } }),
      ),
    )
  }

  it('a list in pages is of one revision, whatever is written meanwhile, in any process', async () => {
    await fill(25)
    const first = await a.list({ limit: 10 })
    expect(first).toMatchObject({ revision: start + 25, remaining: 15 })
    await b.create({ name: 'p0005', spec: { n: 0 } })
    await b.delete('p012')
    await b.change('p013', () => ({ spec: { n: 1300 } }))
    await b.change('p013', () => ({ spec: { n: 1301 } }))
    await b.delete('p020')
    await b.create({ name: 'p020', spec: { n: 2000 } })
    // The second page is read from the snapshot of the first; in the other process by undoing later changes.
    for (const handle of [a, b]) {
      const second = await handle.list({ limit: 10, continue: first.continue! })
      const third = await handle.list({ limit: 10, continue: second.continue! })
      expect([second.revision, third.revision, third.continue]).toEqual([start + 25, start + 25, null])
      expect([second.remaining, third.remaining]).toEqual([5, 0])
      const all = [...first.items, ...second.items, ...third.items]
      expect(all.map(({ spec, name }) => `${name}=${spec.n}`)).toEqual(
        Array.from({ length: 25 }, (_, i) => `p${String(i).padStart(3, '0')}=${i}`),
      )
      expect(all).toEqual((await handle.list({ revision: start + 25 })).items)
    }
    expect((await b.list()).items).toHaveLength(25)
  })

  it('a list takes selectors of labels, fields and names, page by page', async () => {
    await fill(12)
    const names: string[] = []
    let next: string | null = null
    do {
      const page: Awaited<ReturnType<typeof a.list>> = await a.list({
        labels: 'even=true',
        limit: 2,
        ...(next !== null && { continue: next }),
      })
      names.push(...page.items.map(({ name }) => name))
      next = page.continue
    } while (next !== null)
    expect(names).toEqual(['p000', 'p002', 'p004', 'p006', 'p008', 'p010'])
    expect((await a.list({ fields: 'spec.n=7' })).items.map(({ name }) => name)).toEqual(['p007'])
    expect((await a.list({ prefix: 'p01' })).items.map(({ name }) => name)).toEqual(['p010', 'p011'])
    await expect(a.list({ limit: 0 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(a.list({ continue: 'x' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    for (const revision of [99, start + 99]) {
      await expect(a.list({ revision })).rejects.toMatchObject({ code: 'REVISION_GONE', data: { revision } })
    }
  })

  it('a watch returns every change after a revision, in order, of any writer, and resumes where another stopped', async () => {
    await fill(2)
    const { revision } = await a.list()
    const watch = a.watch({ from: revision })
    await b.create({ name: 'x', spec: { n: 1 } })
    await a.change('x', () => ({ spec: { n: 2 } }))
    await b.delete('p000')
    const seen = await take(watch, 2)
    watch.close()
    const on = b.watch({ from: watch.revision })
    seen.push(...(await take(on, 1)))
    on.close()
    expect(brief(seen)).toEqual(['added x=1@3', 'modified x=2@4', 'deleted p000=0@5'])
    expect(await on.next()).toBeNull()
  })

  it('a watch without a revision starts with the existing objects, and reports their end', async () => {
    await fill(3)
    const watch = b.watch()
    const seen = await take(watch, 4)
    expect(watch.revision).toBe(start + 3)
    await a.create({ name: 'z', spec: { n: 9 } })
    seen.push(...(await take(watch, 1)))
    expect(brief(seen)).toEqual(['added p000=0@1', 'added p001=1@2', 'added p002=2@3', 'bookmark@3', 'added z=9@4'])
    expect(seen[3]).toMatchObject({ isInitialEnd: true })
    watch.close()
  })

  it('to a watch with a selector, an object comes when it begins to match and goes when it ceases to', async () => {
    const watch = a.watch({ from: 0, labels: 'on=yes' })
    await b.create({ name: 'x', spec: { n: 1 } })
    await b.change('x', () => ({ labels: { on: 'yes' } }))
    await b.change('x', () => ({ spec: { n: 2 } }))
    await b.change('x', () => ({ labels: {} }))
    await b.change('x', () => ({ spec: { n: 3 } }))
    await b.change('x', () => ({ labels: { on: 'yes' } }))
    await b.delete('x')
    const seen = ['added x=1@2', 'modified x=2@3', 'deleted x=2@4', 'added x=3@6', 'deleted x=3@7']
    expect(brief(await take(watch, 5))).toEqual(seen)
    watch.close()
    // The same from history, by a process that has seen none of it.
    const late = await (await here.engine({ worker: 'late', limits: { watchedChanges: 1 } })).open(pods)
    const again = late.watch({ from: 0, labels: 'on=yes' })
    expect(brief(await take(again, 5))).toEqual(seen)
    again.close()
  })

  it('a slow reader loses nothing, though the window in memory has long moved on', async () => {
    const small = await here.engine({ worker: 'small', limits: { watchedChanges: 4 } })
    const c = await small.open(pods)
    const slow = c.watch({ from: 0 })
    const quick = c.watch({ from: 0 })
    const got: Promise<WatchEvent<Pod>[]> = take(quick, 300)
    for (let i = 0; i < 6; i++) {
      await Promise.all(Array.from({ length: 50 }, (_, n) => b.create({ name: `${i}-${n}`, spec: { n } })))
    }
    const all = await take(slow, 300)
    expect(all.map(({ revision }) => revision)).toEqual(Array.from({ length: 300 }, (_, i) => start + i + 1))
    expect(await got).toEqual(all)
    slow.close()
    quick.close()
  })

  it('bookmarks report the position although nothing matched', async () => {
    const watch = a.watch({ from: 0, labels: 'none', bookmarks: 1 })
    await b.create({ name: 'x', spec: { n: 1 } })
    let event = await watch.next()
    while (event?.revision === start) event = await watch.next()
    expect(event).toEqual({ type: 'bookmark', revision: start + 1 })
    watch.close()
  })

  it('a revision whose history was trimmed is an error, and list and watch again miss nothing', async () => {
    await fill(30)
    const held = a.watch({ from: start + 5 })
    await a.checkpoint()
    await a.change('p000', () => ({ spec: { n: 100 } }))
    await a.checkpoint()
    await rp.drill()
    await rp.collect()
    const { floor } = (await rp.head(a.timeline))!
    expect(floor).toBeGreaterThan(5)
    const late = await (await here.engine({ worker: 'late' })).open(pods)
    const gone = late.watch({ from: start + 5 })
    await expect(gone.next()).rejects.toMatchObject({ code: 'REVISION_GONE', data: { revision: start + 5 } })
    gone.close()
    await expect(late.list({ revision: start + 5 })).rejects.toMatchObject({ code: 'REVISION_GONE' })
    // A process that has it in memory still continues.
    expect(await held.next()).toMatchObject({ type: 'added', revision: start + 6 })
    held.close()
    const list = await late.list()
    const watch = late.watch({ from: list.revision })
    await b.create({ name: 'new', spec: { n: 1 } })
    expect(brief(await take(watch, 1))).toEqual([`added new=1@${list.revision - start + 1}`])
    watch.close()
  })

  it('a revision that the store does not have yet is of another copy of it', async () => {
    await fill(2)
    for (const from of [9, start + 9]) {
      const watch = b.watch({ from })
      await expect(watch.next()).rejects.toMatchObject({ code: 'REVISION_GONE' })
      watch.close()
    }
    expect(() => a.watch({ from: -1 })).toThrow(RepriseError)
  })

  it('a kind that is deleted and created again is another history for its watchers', async () => {
    await fill(5)
    const watch = b.watch({ from: 0 })
    await take(watch, 5)
    await a.close()
    await rp.delete('resource/pods')
    const again = await rp.open(pods)
    for (let i = 0; i < 7; i++) await again.create({ name: `q${i}`, spec: { n: i } })
    await expect(watch.next()).rejects.toMatchObject({ code: 'REVISION_GONE' })
    watch.close()
  })

  it('ends with its signal, and when the engine closes', async () => {
    const abort = new AbortController()
    const aborted = a.watch({ from: 0, signal: abort.signal }).next()
    const closed = a.watch({ from: 0 }).next()
    abort.abort()
    expect(await aborted).toBeNull()
    await rp.close()
    expect(await closed).toBeNull()
  })
})
