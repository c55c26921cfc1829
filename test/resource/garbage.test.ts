// The dependents of an object are deleted with it: over kinds, in chains, after a restart, and never for an existing owner.

import { beforeEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import {
  garbageCollector,
  type ResourceHandle,
  type ResourceObject,
  resource,
} from '../../src/layers/resource/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const kinds = { deployments: resource('deployments'), sets: resource('sets'), pods: resource('pods') }

const ownerOf = (handle: ResourceHandle, { name, uid }: ResourceObject) => ({ kind: handle.kind, name, uid })

onEveryStore('garbage', (world) => {
  let here: World
  let rp: Reprise
  let deployments: ResourceHandle
  let sets: ResourceHandle
  let pods: ResourceHandle

  beforeEach(async () => {
    here = await world()
    rp = await here.engine()
    deployments = await rp.open(kinds.deployments)
    sets = await rp.open(kinds.sets)
    pods = await rp.open(kinds.pods)
  })

  it('deletes objects whose owners are all gone, down the chain; objects with a remaining owner stay', async () => {
    const web = await deployments.create({ name: 'web', spec: 1 })
    const api = await deployments.create({ name: 'api', spec: 1 })
    const set = await sets.create({ name: 'web-1', owners: [ownerOf(deployments, web)], spec: 1 })
    await pods.create({ name: 'web-1-a', owners: [ownerOf(sets, set)], spec: 1 })
    const both = [ownerOf(deployments, web), ownerOf(deployments, api)]
    await pods.create({ name: 'shared', owners: both, spec: 1 })
    await pods.create({ name: 'foreign', owners: [{ kind: 'elsewhere', name: 'x', uid: 'y' }], spec: 1 })
    await pods.create({ name: 'free', spec: 1 })
    await using _garbage = garbageCollector([deployments, sets, pods])
    await deployments.delete('web')
    await until(async () => (await pods.get('web-1-a')) === undefined)
    expect(await sets.get('web-1')).toBeUndefined()
    expect((await pods.list()).items.map(({ name }) => name)).toEqual(['foreign', 'free', 'shared'])
    await deployments.delete('api')
    await until(async () => (await pods.get('shared')) === undefined)
    expect((await pods.list()).items).toHaveLength(2)
  })

  it('is found by a collector that starts later, and by one that sees the owner go in another process', async () => {
    const web = await deployments.create({ name: 'web', spec: 1 })
    await pods.create({ name: 'old', owners: [ownerOf(deployments, web)], spec: 1 })
    await deployments.delete('web')
    const again = await deployments.create({ name: 'web', spec: 2 })
    await pods.create({ name: 'new', owners: [ownerOf(deployments, again)], spec: 1 })
    await using _garbage = garbageCollector([deployments, pods])
    await until(async () => (await pods.get('old')) === undefined)
    expect(await pods.get('new')).toBeDefined()
    const other = await (await here.engine({ worker: 'other' })).open(kinds.deployments)
    await other.delete('web')
    // It is made after its owner has gone.
    await pods.create({ name: 'late', owners: [ownerOf(deployments, again)], spec: 1 })
    await until(async () => (await pods.list()).items.length === 0)
  })

  it('waits for the finalizers of the owner, and of its dependents', async () => {
    const web = await deployments.create({ name: 'web', finalizers: ['disk'], spec: 1 })
    await pods.create({ name: 'a', owners: [ownerOf(deployments, web)], finalizers: ['drain'], spec: 1 })
    await using _garbage = garbageCollector([deployments, pods])
    await deployments.delete('web')
    expect((await pods.get('a'))?.deletingAt).toBeUndefined()
    await deployments.change('web', () => ({ finalizers: [] }))
    await until(async () => (await pods.get('a'))?.deletingAt !== undefined)
    await pods.change('a', () => ({ finalizers: [] }))
    expect(await pods.get('a')).toBeUndefined()
  })
})
