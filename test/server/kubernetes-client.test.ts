// The real client library of Kubernetes for JavaScript against our server: its informer, which lists and watches, and its calls
// for objects. The server is killed and started again under it: the informer sees no gap and no duplicate.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  CustomObjectsApi,
  KubeConfig,
  type KubernetesListObject,
  type KubernetesObject,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
} from '@kubernetes/client-node'
import { afterEach, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import { root } from '../cli/support.ts'
import { until } from '../support/fixture.ts'
import { type Cleanups, type Place, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Site extends KubernetesObject {
  spec: { n: number }
  status?: { ready?: number; observedGeneration?: number }
}

const at = { group: 'resources.reprise', version: 'v1', plural: 'sites' }
const path = `/apis/${at.group}/${at.version}/${at.plural}`
const merging = setHeaderOptions('Content-Type', PatchStrategy.MergePatch)

/** History is kept no longer than needed, so that a revision can be too old. */
const program = `
import { resource } from ${JSON.stringify(pathToFileURL(join(root, 'dist/resources.js')).href)}
export const sites = resource('sites', { retain: { checkpoints: 1, history: 'needed' } })
export const notes = resource('notes', { api: { namespaced: true } })
`

async function place(): Promise<Place & { readonly more: readonly string[] }> {
  const made = await placeOn('sqlite', cleanups)
  const module = join(made.folder, 'resources.mjs')
  writeFileSync(module, program)
  return { ...made, more: ['--module', module] }
}

/** As in a kubeconfig. */
function clientOf({ folder, port }: Place): { readonly config: KubeConfig; readonly api: CustomObjectsApi } {
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: 'here', server: `http://127.0.0.1:${port}`, skipTLSVerify: true },
    { name: 'me', token: tokenIn(folder) },
  )
  return { config, api: config.makeApiClient(CustomObjectsApi) }
}

const site = (name: string, n: number) => ({
  apiVersion: 'resources.reprise/v1',
  kind: 'Site',
  metadata: { name },
  spec: { n },
})

it('creates, reads, replaces, patches, reports on and deletes objects', async () => {
  const here = await place()
  await startServe(here, cleanups, here.more)
  const { api } = clientOf(here)
  const made: Site = await api.createClusterCustomObject({ ...at, body: site('one', 1) })
  expect(made).toMatchObject({ ...site('one', 1), metadata: { generation: 1 } })
  const replaced: Site = await api.replaceClusterCustomObject({ ...at, name: 'one', body: { ...made, spec: { n: 2 } } })
  expect(replaced.metadata!.generation).toBe(2)
  await expect(api.replaceClusterCustomObject({ ...at, name: 'one', body: made })).rejects.toMatchObject({ code: 409 })
  const patched: Site = await api.patchClusterCustomObject({ ...at, name: 'one', body: { spec: { n: 3 } } }, merging)
  expect(patched.spec).toEqual({ n: 3 })
  const operations = [{ op: 'replace', path: '/spec/n', value: 4 }]
  const jsonPatching = setHeaderOptions('Content-Type', PatchStrategy.JsonPatch)
  const again: Site = await api.patchClusterCustomObject({ ...at, name: 'one', body: operations }, jsonPatching)
  expect(again.spec).toEqual({ n: 4 })
  const status = { ready: 1, observedGeneration: again.metadata!.generation! }
  const reported: Site = await api.replaceClusterCustomObjectStatus({ ...at, name: 'one', body: { ...again, status } })
  expect(reported).toMatchObject({ status, metadata: { generation: status.observedGeneration } })
  await api.createNamespacedCustomObject({
    ...at,
    plural: 'notes',
    namespace: 'team-a',
    body: { metadata: { name: 'x' }, spec: {} },
  })
  const notes = await api.listNamespacedCustomObject({ ...at, plural: 'notes', namespace: 'team-a', limit: 10 })
  expect(notes).toMatchObject({ kind: 'NoteList', items: [{ metadata: { name: 'x', namespace: 'team-a' } }] })
  await api.deleteClusterCustomObject({ ...at, name: 'one' })
  await expect(api.getClusterCustomObject({ ...at, name: 'one' })).rejects.toMatchObject({ code: 404 })
})

it('its informer continues after a kill of the server, and lists again when its revision is too old', async () => {
  const here = await place()
  let server = await startServe(here, cleanups, here.more)
  const { config, api } = clientOf(here)
  const seen: { readonly verb: string; readonly name: string; readonly revision: number }[] = []
  let isStopped = false
  const informer = makeInformer<Site>(
    config,
    path,
    () => api.listClusterCustomObject(at) as Promise<KubernetesListObject<Site>>,
  )
  for (const verb of ['add', 'update', 'delete'] as const) {
    informer.on(verb, ({ metadata }) => {
      seen.push({ verb, name: metadata!.name!, revision: Number(metadata!.resourceVersion) })
    })
  }
  // According to its documentation, it does not reconnect by itself.
  const failures: unknown[] = []
  informer.on('error', (error) => {
    failures.push(error)
    setTimeout(() => !isStopped && void informer.start(), 20)
  })
  cleanups.push(async () => {
    isStopped = true
    await informer.stop()
  })
  await informer.start()

  let acknowledged = 0
  let isOver = false
  /** Each is a create or an update that may have been done although its answer was lost. */
  const writing = (async () => {
    for (let n = 1; !isOver; n++) {
      const name = `s${n % 7}`
      for (let isDone = false; !isDone; ) {
        isDone = await (n <= 7
          ? api.createClusterCustomObject({ ...at, body: site(name, n) })
          : api.patchClusterCustomObject({ ...at, name, body: { spec: { n } } }, merging)
        ).then(
          () => true,
          (error: { code?: number }) =>
            error.code === 409 || new Promise((resolve) => setTimeout(() => resolve(false), 20)),
        )
      }
      acknowledged += 1
    }
  })()
  const enough = (count: number) => until(() => acknowledged >= count && seen.length >= count)
  await enough(20)
  await server.kill()
  server = await startServe(here, cleanups, here.more)
  await enough(60)
  isOver = true
  await writing
  const newest = await api.listClusterCustomObject(at)
  const last = Number(newest.metadata.resourceVersion)
  await until(() => seen.at(-1)?.revision === last)
  // Every revision is one change of one object: each was seen, once and in order.
  const [first] = seen
  expect(first).toMatchObject({ verb: 'add', name: 's1' })
  expect(seen.map(({ revision }) => revision - first!.revision)).toEqual(seen.map((_, i) => i))

  // While the server is down, an object is deleted, and the history of the deletion is trimmed.
  await server.kill()
  const rp = await open(here.url, { housekeeping: false })
  const sites = await rp.open(resource('sites', { retain: { checkpoints: 1, history: 'needed' } }))
  const { seq } = (await rp.head(sites.timeline))!
  await sites.delete('s3')
  await sites.checkpoint()
  await sites.update({ name: 's4', revision: 'any', spec: { n: -4 } })
  await sites.checkpoint()
  await rp.drill()
  await rp.collect()
  expect((await rp.head(sites.timeline))!.floor).toBeGreaterThan(seq)
  await rp.close()
  seen.length = 0
  await startServe(here, cleanups, here.more)
  await until(() => seen.length >= 2)
  expect(seen.map(({ verb, name }) => `${verb} ${name}`)).toEqual(['delete s3', 'update s4'])
  await api.createClusterCustomObject({ ...at, body: site('after', 1) })
  await until(() => seen.some(({ name }) => name === 'after'))
  const names = informer.list().map(({ metadata }) => metadata!.name)
  expect(names.sort()).toEqual(['after', 's0', 's1', 's2', 's4', 's5', 's6'])
  expect(failures.length).toBeGreaterThan(0)
})
