// Examples of `reprise/resources`.

import assert from 'node:assert/strict'
import { garbageCollector, jsonPatch, mergePatch, resource } from 'reprise/resources'
import { example } from './example.ts'

export default [
  example(
    [
      'resource',
      'ResourceHandle.create',
      'ResourceHandle.get',
      'ResourceHandle.update',
      'ResourceHandle.report',
      'ResourceHandle.checkpoint',
      'ResourceHandle.close',
    ],
    async (rp) => {
      const sites = await rp.open(resource<{ url: string }, { ready: boolean }>('sites'))
      const made = await sites.create({ name: 'shop', labels: { tier: 'front' }, spec: { url: 'https://a.example' } })
      const moved = await sites.update({ ...made, spec: { url: 'https://b.example' } })
      assert.equal(moved.generation, 2)
      await assert.rejects(sites.update({ ...made, spec: { url: 'https://c.example' } }), { code: 'CONFLICT' })
      await sites.report({ name: 'shop', observedGeneration: moved.generation, status: { ready: true } })
      assert.equal((await sites.get('shop'))?.status?.ready, true)
      await sites.checkpoint()
      await sites.close()
    },
  ),
  example(['ResourceHandle.change', 'ResourceHandle.patch', 'ResourceHandle.delete'], async (rp) => {
    const sites = await rp.open(resource<{ replicas: number }>('sites'))
    await sites.create({ name: 'shop', finalizers: ['dns'], spec: { replicas: 1 } })
    await sites.change('shop', ({ spec }) => ({ spec: { replicas: spec.replicas + 1 } }))
    const patched = await sites.patch('shop', { merge: { spec: { replicas: 3 } } })
    assert.equal(patched.generation, 3)
    await sites.delete('shop')
    await sites.change('shop', () => ({ finalizers: [] }))
    assert.equal(await sites.get('shop'), undefined)
  }),
  example(['ResourceHandle.list', 'ResourceHandle.watch', 'Watch.next', 'Watch.close'], async (rp) => {
    const sites = await rp.open(resource<{ url: string }>('sites'))
    await sites.create({ name: 'shop', labels: { tier: 'front' }, spec: { url: 'https://a.example' } })
    const list = await sites.list({ labels: 'tier in (front,back)', limit: 100 })
    const watch = sites.watch({ from: list.revision })
    await sites.delete('shop')
    assert.equal((await watch.next())?.type, 'deleted')
    watch.close()
  }),
  example(['garbageCollector'], async (rp) => {
    const sites = await rp.open(resource('sites'))
    const pages = await rp.open(resource('pages'))
    await using _garbage = garbageCollector([sites, pages])
    const { name, uid } = await sites.create({ name: 'shop', spec: {} })
    await pages.create({ name: 'home', owners: [{ kind: sites.kind, name, uid }], spec: {} })
    const watch = pages.watch({ from: pages.revision })
    await sites.delete('shop')
    assert.equal((await watch.next())?.type, 'deleted')
    watch.close()
  }),
  example(['mergePatch', 'jsonPatch'], async () => {
    assert.deepEqual(mergePatch({ a: 1, b: 2 }, { b: null, c: 3 }), { a: 1, c: 3 })
    assert.deepEqual(jsonPatch({ a: [1] }, [{ op: 'add', path: '/a/-', value: 2 }]), { a: [1, 2] })
  }),
]
