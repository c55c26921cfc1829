// Examples of `reprise/resources`.

import assert from 'node:assert/strict'
import { config, controller, garbageCollector, informer, jsonPatch, mergePatch, resource } from 'reprise/resources'
import { example } from './example.ts'

const routes = config<{ upstream: string }>('routes', { forgetAfter: '1h' })

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
  example(
    [
      'informer',
      'InformerHandle.get',
      'InformerHandle.list',
      'InformerHandle.by',
      'FollowerHandle.settled',
      'FollowerHandle.led',
      'FollowerHandle.deadLetters',
      'FollowerHandle.redrive',
      'FollowerHandle.discard',
      'InformerHandle.close',
    ],
    async (rp) => {
      const sites = resource<{ region: string }>('sites')
      const handle = await rp.open(sites)
      const down = new Set(['shop'])
      const cache = await rp.open(
        informer('mirror', {
          of: sites,
          indexes: { region: ({ spec }) => spec.region },
          retry: { attempts: 1 },
          handle({ name }) {
            if (down.has(name)) throw new Error('not now')
          },
        }),
      )
      await cache.led()
      await handle.create({ name: 'shop', spec: { region: 'eu' } })
      await cache.settled()
      assert.equal(cache.get('shop')?.spec.region, 'eu')
      assert.equal(cache.by('region', 'eu').length, cache.list().length)
      assert.equal((await cache.deadLetters())[0]?.key, 'shop')
      down.clear()
      await cache.redrive(['shop'])
      await cache.settled()
      assert.equal(await cache.discard(), 0)
      await cache.close()
    },
  ),
  example(
    [
      'controller',
      'ControllerHandle.events',
      'ReconcileContext.report',
      'ReconcileContext.effect',
      'ReconcileContext.event',
    ],
    async (rp) => {
      const sites = resource<{ url: string }, { address: string }>('sites')
      const handle = await rp.open(sites)
      await handle.create({ name: 'shop', spec: { url: 'https://shop.example' } })
      const dns = await rp.open(
        controller('dns', {
          watch: [sites],
          async reconcile({ object, effect, report, event }) {
            if (!object) return
            const address = await effect('register', ({ key }) => `10.0.0.1 (${key.length > 0})`)
            await event('Registered', object.spec.url)
            await report({ status: { address }, conditions: [{ type: 'Ready', status: 'True' }] })
          },
        }),
      )
      await dns.led()
      await dns.settled()
      const shop = await handle.get('shop')
      assert.equal(shop?.observedGeneration, shop?.generation)
      assert.equal(dns.events('shop')[0]?.reason, 'Registered')
      assert.deepEqual(await dns.deadLetters(), [])
      await dns.redrive()
      await dns.close()
    },
  ),
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
  example(['ResourceHandle.apply'], async (rp) => {
    const sites = await rp.open(resource<{ replicas: number; image: string }>('sites'))
    await sites.apply({ name: 'shop', by: 'deployer', spec: { replicas: 1, image: 'v1' } })
    const refused = await sites.apply({ name: 'shop', by: 'scaler', spec: { replicas: 4 } }).catch((error) => error)
    assert.equal(refused.code, 'CONFLICT')
    const forced = await sites.apply({ name: 'shop', by: 'scaler', force: true, spec: { replicas: 4 } })
    assert.deepEqual(forced.fieldOwners, { deployer: ['/spec/image'], scaler: ['/spec/replicas'] })
    await sites.close()
  }),
  example(['mergePatch', 'jsonPatch'], async () => {
    assert.deepEqual(mergePatch({ a: 1, b: 2 }, { b: null, c: 3 }), { a: 1, c: 3 })
    assert.deepEqual(jsonPatch({ a: [1] }, [{ op: 'add', path: '/a/-', value: 2 }]), { a: [1, 2] })
  }),
  example(
    [
      'config',
      'ConfigHandle.set',
      'ConfigHandle.client',
      'ConfigHandle.reached',
      'ClientStream.next',
      'ClientStream.ack',
    ],
    async (rp) => {
      const push = await rp.open(routes)
      const version = await push.set({ upstream: 'http://blue' })
      const stream = await push.client('edge-1')
      const offer = await stream.next()
      assert.equal(offer!.value.upstream, 'http://blue')
      await stream.ack(offer!.nonce)
      assert.deepEqual((await push.reached(version, { share: 0.95, timeout: '1m' })).acked, 1)
    },
  ),
  example(
    ['ConfigHandle.status', 'ConfigHandle.clients', 'ConfigHandle.close', 'ClientStream.nack', 'ClientStream.close'],
    async (rp) => {
      const push = await rp.open(routes)
      await push.set({ upstream: 'nowhere' })
      const stream = await push.client('edge-1')
      await stream.nack((await stream.next())!.nonce, 'there is no upstream nowhere')
      assert.equal((await push.status()).refused[0]!.refused!.reason, 'there is no upstream nowhere')
      assert.equal((await push.clients())[0]!.inForce, null)
      await stream.close()
      await push.close()
    },
  ),
  example(
    ['ConfigHandle.latest', 'ConfigHandle.target', 'ConfigHandle.ack', 'ConfigHandle.nack', 'ClientStream.detach'],
    async (rp) => {
      const push = await rp.open(routes)
      await push.set({ upstream: 'http://blue' })
      assert.deepEqual(await push.latest(), await push.target('edge-1'))
      const here = await push.client('edge-1')
      const offer = await here.next()
      here.detach()
      // Another process continues the stream, and a third one receives the reply.
      const there = await push.client('edge-1', { stream: here.stream })
      assert.deepEqual(await there.next(), offer)
      assert.deepEqual(await push.ack('edge-1', offer!.nonce), { isTaken: true, why: null })
      assert.equal((await push.nack('edge-1', offer!.nonce, 'too late')).isTaken, false)
    },
  ),
  example(
    [
      'ConfigHandle.rollout',
      'ConfigHandle.ended',
      'ConfigHandle.pause',
      'ConfigHandle.resume',
      'ConfigHandle.withdraw',
    ],
    async (rp) => {
      const push = await rp.open(routes)
      rp.work([routes])
      const version = await push.rollout({ upstream: 'http://green' }, { stages: [0.05, 0.5], hold: '10m' })
      await push.pause(version)
      await push.resume(version)
      await push.withdraw(version)
      assert.equal((await push.ended(version)).status, 'withdrawn')
    },
  ),
]
