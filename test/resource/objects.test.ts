// Objects of a kind: the definition of a change, the owners of fields, and the two steps of a deletion; by one process and by
// several.

import { beforeEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { type ResourceHandle, resource } from '../../src/layers/resource/index.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

interface Site {
  readonly url: string
  readonly replicas?: number
}
interface SiteStatus {
  readonly ready: number
}

const sites = resource<Site, SiteStatus>('sites')

onEveryStore('objects', (world) => {
  let here: World
  let rp: Reprise
  let a: ResourceHandle<Site, SiteStatus>
  let b: ResourceHandle<Site, SiteStatus>

  beforeEach(async () => {
    here = await world()
    rp = await here.engine()
    a = await rp.open(sites)
    b = await (await here.engine({ worker: 'other' })).open(sites)
  })

  it('have a uid that no later object gets, also after their kind was deleted and made again', async () => {
    const w = await world()
    const uids: string[] = []
    for (let life = 0; life < 2; life++) {
      const rp = await w.engine()
      uids.push((await (await rp.open(sites)).create({ name: 'web', spec: { url: `${life}`, replicas: 1 } })).uid)
      await rp.close()
      const other = await w.engine()
      await other.delete('resource/sites')
      await other.close()
    }
    expect(new Set(uids).size).toBe(2)
  })

  it('are made once, and are seen by every process at once', async () => {
    const start = a.revision
    const made = await a.create({ name: 'web', labels: { app: 'web' }, spec: { url: 'https://a' } })
    expect(made).toMatchObject({
      name: 'web',
      generation: 1,
      revision: start + 1,
      uid: expect.stringMatching(/^sites@[0-9a-f]{16}$/),
      labels: { app: 'web' },
    })
    expect(await b.get('web')).toEqual(made)
    expect(await b.get('other')).toBeUndefined()
    await expect(b.create({ name: 'web', spec: { url: 'x' } })).rejects.toMatchObject({ code: 'EXISTS' })
  })

  it('change only from the revision that was read: no writer overwrites another', async () => {
    const made = await a.create({ name: 'web', spec: { url: 'https://a' } })
    const second = await b.update({ ...made, spec: { url: 'https://b' } })
    expect(second).toMatchObject({ generation: 2, spec: { url: 'https://b' } })
    await expect(a.update({ ...made, spec: { url: 'https://c' } })).rejects.toMatchObject({
      code: 'CONFLICT',
      data: { revision: second.revision },
    })
    expect((await a.get('web'))?.spec.url).toBe('https://b')
    await expect(a.update({ name: 'web', spec: { url: 'x' } } as never)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await expect(a.update({ name: 'none', revision: 'any', spec: { url: 'x' } })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    })
  })

  it('of many concurrent changes none is lost, on one object and on many', async () => {
    await a.create({ name: 'hot', spec: { url: 'x', replicas: 0 } })
    const more = (handle: typeof a) =>
      handle.change('hot', ({ spec }) => ({ spec: { ...spec, replicas: spec.replicas! + 1 } }))
    await Promise.all([
      ...Array.from({ length: 8 }, (_, i) => more(i % 2 ? a : b)),
      ...Array.from({ length: 20 }, (_, i) => (i % 2 ? a : b).create({ name: `n${i}`, spec: { url: `${i}` } })),
    ])
    expect(await a.get('hot')).toMatchObject({ generation: 9, spec: { replicas: 8 } })
    const { items, revision } = await b.list()
    expect(items).toHaveLength(21)
    expect(new Set(items.map((each) => each.revision)).size).toBe(21)
    expect(Math.max(...items.map((each) => each.revision))).toBe(revision)
    expect(new Set(items.map((each) => each.uid)).size).toBe(21)
  })

  it('count a generation for a change of the desired state, and for nothing else', async () => {
    let web = await a.create({ name: 'web', spec: { url: 'https://a' } })
    web = await a.update({ ...web, labels: { tier: 'front' } })
    expect(web).toMatchObject({ generation: 1, labels: { tier: 'front' } })
    web = await a.report({ name: 'web', observedGeneration: 1, status: { ready: 1 } })
    expect(web).toMatchObject({ generation: 1, observedGeneration: 1, status: { ready: 1 } })
    const same = await a.update({ ...web, spec: { url: 'https://a' } })
    expect(same.revision).toBe(web.revision)
    expect(a.revision).toBe(web.revision)
    web = await a.update({ ...web, spec: { url: 'https://b' } })
    expect(web).toMatchObject({ generation: 2, observedGeneration: 1, labels: { tier: 'front' } })
  })

  it('never take a status of an old generation for one of a newer', async () => {
    const web = await a.create({ name: 'web', spec: { url: 'https://a' } })
    await a.update({ ...web, spec: { url: 'https://b' } })
    await b.report({ name: 'web', observedGeneration: 2, status: { ready: 2 } })
    await expect(a.report({ name: 'web', observedGeneration: 1, status: { ready: 9 } })).rejects.toMatchObject({
      code: 'CONFLICT',
    })
    await expect(a.report({ name: 'web', observedGeneration: 3, status: { ready: 9 } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    expect(await a.get('web')).toMatchObject({ observedGeneration: 2, status: { ready: 2 } })
  })

  it('have conditions that remember when they last changed, and for which generation they hold', async () => {
    const web = await a.create({ name: 'web', spec: { url: 'https://a' } })
    const first = await a.report({
      name: 'web',
      observedGeneration: 1,
      conditions: [{ type: 'Ready', status: 'False', reason: 'Starting' }],
    })
    await a.update({ ...first, spec: { url: 'https://b' } })
    const second = await a.report({
      name: 'web',
      observedGeneration: 2,
      conditions: [{ type: 'Ready', status: 'False', reason: 'StillStarting' }],
    })
    expect(second.conditions).toEqual([
      {
        type: 'Ready',
        status: 'False',
        reason: 'StillStarting',
        observedGeneration: 2,
        changedAt: first.conditions[0]!.changedAt,
      },
    ])
    await expect(
      a.report({ name: web.name, observedGeneration: 2, conditions: [{ type: 'Ready', status: 'yes' as never }] }),
    ).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('are patched in their current state, by either kind of patch', async () => {
    await a.create({ name: 'web', labels: { old: '1' }, spec: { url: 'https://a', replicas: 1 } })
    const merged = await b.patch('web', { merge: { spec: { replicas: 3 }, labels: { old: null, new: '1' } } })
    expect(merged).toMatchObject({ generation: 2, labels: { new: '1' }, spec: { url: 'https://a', replicas: 3 } })
    expect(merged.labels).not.toHaveProperty('old')
    const patched = await a.patch('web', { json: [{ op: 'remove', path: '/spec/replicas' }] })
    expect(patched.spec).toEqual({ url: 'https://a' })
    await expect(a.patch('web', { json: [{ op: 'remove', path: '/spec/none' }] })).rejects.toMatchObject({
      code: 'CONFLICT',
    })
    await expect(a.patch('web', { merge: { generation: 7 } })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(a.patch('web', { merge: { labels: { n: 1 } } })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    for (const wrong of [
      { merge: { spec: null } },
      { merge: { revision: 1, spec: { replicas: 2 } } },
      { merge: { name: 'other' } },
      { json: [{ op: 'remove', path: '' }] },
      { json: [{ op: 'remove', path: '/spec' }] },
      { merge: { spec: { replicas: 1 } }, json: [] },
      {},
    ]) {
      await expect(a.patch('web', wrong as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    expect((await b.patch('web', { merge: { labels: null } })).labels).toEqual({})
    await expect(a.patch('web', { merge: {} }, { revision: 1 })).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('are applied by several parties, each of which owns its fields', async () => {
    const made = await a.apply({
      name: 'web',
      by: 'deployer',
      labels: { app: 'web' },
      spec: { url: 'https://a', replicas: 2 },
    })
    expect(made).toMatchObject({
      generation: 1,
      fieldOwners: { deployer: ['/labels/app', '/spec/replicas', '/spec/url'] },
    })
    await expect(b.apply({ name: 'web', by: 'scaler', spec: { replicas: 5 } })).rejects.toMatchObject({
      code: 'CONFLICT',
      data: { conflicts: [{ owner: 'deployer', field: '/spec/replicas' }] },
    })
    const scaled = await b.apply({ name: 'web', by: 'scaler', force: true, spec: { replicas: 5 } })
    expect(scaled).toMatchObject({ generation: 2, spec: { url: 'https://a', replicas: 5 } })
    const same = await a.apply({ name: 'web', by: 'scaler', spec: { replicas: 5 } })
    expect(same.revision).toBe(scaled.revision)
    // Omitted fields are removed, and no field of another party is.
    const left = await a.apply({ name: 'web', by: 'deployer', spec: { url: 'https://b' } })
    expect(left).toMatchObject({ labels: {}, spec: { url: 'https://b', replicas: 5 } })
    // A field that was changed by an update has no owner.
    const taken = await b.update({ ...left, spec: { ...left.spec, replicas: 9 } })
    expect(taken.fieldOwners).toEqual({ deployer: ['/spec/url'] })
    const leaving = await a.apply({ name: 'web', by: 'scaler', labels: { scaled: 'yes' } })
    expect(leaving).toMatchObject({ spec: { replicas: 9 }, labels: { scaled: 'yes' } })
    expect(await b.get('web')).toEqual(leaving)
    await expect(a.apply({ name: 'new', by: 'x', labels: { a: 'b' } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await expect(a.apply({ name: 'new', by: '', spec: { url: 'x' } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })

  it('that several apply at once have the fields of each of them', async () => {
    const parties = Array.from({ length: 6 }, (_, i) => `p${i}`)
    await Promise.all(
      parties.map((by, i) =>
        (i % 2 ? a : b).apply({ name: 'web', by, labels: { [by]: 'yes' }, spec: { url: 'same' } }),
      ),
    )
    const web = (await a.get('web'))!
    expect(web).toMatchObject({ generation: 1, labels: Object.fromEntries(parties.map((by) => [by, 'yes'])) })
    expect(Object.keys(web.fieldOwners!).sort()).toEqual(parties)
  })

  it('go in two steps: first the wish, and they are gone when the last finalizer is off the list', async () => {
    const web = await a.create({ name: 'web', finalizers: ['disk', 'dns'], spec: { url: 'https://a' } })
    const waiting = await b.delete('web')
    expect(waiting).toMatchObject({ generation: 2, finalizers: ['disk', 'dns'] })
    expect(waiting.deletingAt).toBeTypeOf('number')
    expect((await a.delete('web')).revision).toBe(waiting.revision)
    await expect(a.change('web', ({ finalizers }) => ({ finalizers: [...finalizers, 'late'] }))).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await a.change('web', () => ({ finalizers: ['dns'] }))
    expect(await b.get('web')).toMatchObject({ finalizers: ['dns'] })
    await b.change('web', () => ({ finalizers: [] }))
    expect(await a.get('web')).toBeUndefined()
    const again = await a.create({ name: 'web', spec: { url: 'https://c' } })
    expect(again.uid).not.toBe(web.uid)
    await expect(b.delete('web', { uid: web.uid })).rejects.toMatchObject({ code: 'CONFLICT' })
    await expect(b.delete('web', { revision: web.revision })).rejects.toMatchObject({ code: 'CONFLICT' })
    await b.delete('web', { uid: again.uid })
    await expect(b.delete('web')).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('that were given out cannot be changed behind the back of the history', async () => {
    const spec = { url: 'https://a', replicas: 1 }
    const web = await a.create({ name: 'web', spec })
    spec.replicas = 7
    expect(() => Object.assign(web.spec, { replicas: 9 })).toThrow(TypeError)
    const read = await a.get('web')
    expect(() => Object.assign(read!.labels, { a: 'b' })).toThrow(TypeError)
    expect((await b.get('web'))?.spec.replicas).toBe(1)
  })

  it('are checked by their schema, and refused with the reason', async () => {
    const url = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) =>
          typeof (value as Site)?.url === 'string'
            ? { value: value as Site }
            : { issues: [{ message: 'must be a text', path: ['url'] }] },
      },
    }
    const strict = await rp.open(resource<Site>('strict', { schema: url }))
    await expect(strict.create({ name: 'x', spec: {} as never })).rejects.toThrow(/url: must be a text/)
    const made = await strict.create({ name: 'x', spec: { url: 'a' } })
    await expect(strict.patch('x', { merge: { spec: { url: 1 } } })).rejects.toThrow(/url: must be a text/)
    await expect(strict.update({ ...made, spec: { url: 1 } as never })).rejects.toThrow(/must be a text/)
    await expect(strict.create({ name: 'a\nb', spec: { url: 'a' } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })

  it('are restored after a restart, from a checkpoint and from history', async () => {
    await a.create({ name: 'web', labels: { app: 'x' }, spec: { url: 'https://a' } })
    await a.checkpoint()
    await a.create({ name: 'api', spec: { url: 'https://b' } })
    await a.report({ name: 'api', observedGeneration: 1, status: { ready: 1 } })
    const before = await a.list()
    await rp.close()
    const again = await (await here.engine()).open(sites)
    expect(await again.list()).toEqual(before)
    expect((await b.list()).items).toEqual(before.items)
  })
})
