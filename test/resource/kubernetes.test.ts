// Informers and controllers whose objects an API server holds: our own, and a real kube-apiserver where there is one. The same
// program, the same answers, and the same promises over servers that are killed.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kubernetes } from '../../src/adapters/kubernetes/index.ts'
import { open, type Reprise } from '../../src/index.ts'
import { controller, informer, resource } from '../../src/layers/resource/index.ts'
import { root } from '../cli/support.ts'
import { type Cleanups, placeOn, startServe, tokenIn } from '../server/serving.ts'
import { until } from '../support/fixture.ts'
import { type Cluster, defineKinds, kubeMissing, startCluster, untilServed } from '../support/kube-parts.ts'

interface Site {
  readonly replicas: number
}
interface SiteStatus {
  readonly ready: number
}

const group = 'test.example.com'
const program = `
import { resource } from ${JSON.stringify(pathToFileURL(join(root, 'dist/resources.js')).href)}
export const sites = resource('sites', { api: { group: '${group}' } })
export const parts = resource('parts', { api: { group: '${group}' } })
export const notes = resource('notes', { api: { group: '${group}', namespaced: true } })
`

async function ourServer(cleanups: Cleanups): Promise<Cluster> {
  const place = await placeOn('sqlite', cleanups)
  writeFileSync(join(place.folder, 'resources.mjs'), program)
  const more = ['--module', join(place.folder, 'resources.mjs')]
  let running = await startServe(place, cleanups, more)
  return {
    address: { server: `http://127.0.0.1:${place.port}`, token: tokenIn(place.folder) },
    kill: () => running.kill(),
    async start() {
      running = await startServe(place, cleanups, more)
    },
    stop: () => running.kill(),
  }
}

async function realServer(): Promise<Cluster> {
  const cluster = await startCluster()
  const kinds = [
    { kind: 'Site', plural: 'sites', namespaced: false },
    { kind: 'Part', plural: 'parts', namespaced: false },
    { kind: 'Note', plural: 'notes', namespaced: true },
  ]
  await defineKinds(cluster.address, kinds, group)
  const start = async () => {
    await cluster.start()
    await untilServed(cluster.address, kinds, group)
  }
  return { ...cluster, start }
}

describe.each([['our server', null] as const, ['kube-apiserver', kubeMissing] as const])(
  'with %s',
  (which, missing) => {
    const cleanups: Cleanups = []
    const folder = mkdtempSync(join(tmpdir(), 'reprise-of-kubernetes-'))
    let cluster: Cluster
    const engines: Reprise[] = []
    /** A store of its own for what informers and controllers have done; the objects are elsewhere. */
    const engine = async (name: string) => {
      const rp = await open(`sqlite:${join(folder, `${name}.db`)}`, { housekeeping: false })
      engines.push(rp)
      return rp
    }
    const kinds = () => {
      const from = kubernetes(cluster.address)
      return {
        sites: resource<Site, SiteStatus>('sites', { api: { group }, from }),
        parts: resource<{ n: number }>('parts', { api: { group }, from }),
        notes: resource<{ text: string }>('notes', { api: { group, namespaced: true }, from }),
      }
    }

    beforeAll(async () => {
      if (missing === null) cluster = which === 'our server' ? await ourServer(cleanups) : await realServer()
    })
    afterAll(async () => {
      for (const rp of engines) await rp.close()
      if (missing === null) await cluster.stop()
      for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
      rmSync(folder, { recursive: true, force: true })
    })

    it.skipIf(missing !== null)(
      'objects are written with the revision that was read, and read as they are',
      async () => {
        const rp = await engine('objects')
        const sites = await rp.open(kinds().sites)
        const made = await sites.create({
          name: 'one',
          labels: { a: 'b' },
          finalizers: [`${group}/hold`],
          spec: { replicas: 1 },
        })
        expect(made).toMatchObject({
          name: 'one',
          generation: 1,
          labels: { a: 'b' },
          spec: { replicas: 1 },
          conditions: [],
        })
        await expect(sites.create({ name: 'one', spec: { replicas: 1 } })).rejects.toMatchObject({ code: 'EXISTS' })
        const updated = await sites.update({ name: 'one', revision: made.revision, spec: { replicas: 2 } })
        expect([updated.generation, updated.labels]).toEqual([2, { a: 'b' }])
        const stale = sites.update({ name: 'one', revision: made.revision, spec: { replicas: 9 } })
        await expect(stale).rejects.toMatchObject({ code: 'CONFLICT' })
        // Conflicts are decided again.
        const changes = Array.from({ length: 5 }, () =>
          sites.change('one', ({ spec }) => ({ spec: { replicas: spec.replicas + 1 } })),
        )
        await Promise.all(changes)
        expect((await sites.get('one'))!.spec).toEqual({ replicas: 7 })
        const patched = await sites.patch('one', { merge: { labels: { a: null, c: 'd' } } })
        expect([patched.labels, patched.generation]).toEqual([{ c: 'd' }, 7])

        const condition = { type: 'Ready', status: 'True', reason: 'Fine', message: 'all of them' } as const
        const said = await sites.report({
          name: 'one',
          observedGeneration: 7,
          status: { ready: 7 },
          conditions: [condition],
        })
        expect(said).toMatchObject({
          generation: 7,
          observedGeneration: 7,
          status: { ready: 7 },
          conditions: [condition],
        })
        expect((await sites.get('one'))!.conditions[0]!.changedAt).toBeGreaterThan(0)
        const older = sites.report({ name: 'one', observedGeneration: 6, status: { ready: 6 } })
        await expect(older).rejects.toMatchObject({ code: 'CONFLICT' })
        const beyond = sites.report({ name: 'one', observedGeneration: 8, status: { ready: 8 } })
        await expect(beyond).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })

        const waiting = await sites.delete('one', { uid: made.uid })
        expect(waiting.deletingAt).toBeGreaterThan(0)
        await sites.change('one', () => ({ finalizers: [] }))
        expect(await sites.get('one')).toBeUndefined()
        await expect(sites.delete('one')).rejects.toMatchObject({ code: 'NOT_FOUND' })

        for (const n of [1, 2, 3])
          await sites.create({ name: `page-${n}`, labels: { n: String(n) }, spec: { replicas: n } })
        const first = await sites.list({ limit: 2 })
        expect([first.items.map(({ name }) => name), first.remaining]).toEqual([['page-1', 'page-2'], 1])
        const rest = await sites.list({ limit: 2, continue: first.continue! })
        expect(rest.items.map(({ name }) => name)).toEqual(['page-3'])
        const chosen = await sites.list({ labels: 'n in (1,3)', fields: 'spec.replicas=3' })
        expect(chosen.items.map(({ name }) => name)).toEqual(['page-3'])
        await expect(sites.apply({ name: 'page-1', by: 'me', spec: {} })).rejects.toMatchObject({
          code: 'INVALID_ARGUMENT',
        })
        await expect(sites.checkpoint()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
        for (const n of [1, 2, 3]) await sites.delete(`page-${n}`)

        const here = await rp.open(kinds().notes, 'default')
        expect((await here.create({ name: 'n', spec: { text: 'x' } })).name).toBe('n')
        expect((await here.list()).items).toHaveLength(1)
        if (which !== 'our server') {
          const everywhere = await rp.open(kinds().notes)
          expect((await everywhere.get('default/n'))!.spec).toEqual({ text: 'x' })
          await everywhere.delete('default/n')
        } else await here.delete('n')
        const wrong = resource('nowhere', { api: { group }, from: kubernetes(cluster.address) })
        await expect((await rp.open(wrong)).list()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      },
    )

    it.skipIf(missing !== null)(
      'an informer handles what changed, once, over its own restarts and those of the server',
      async () => {
        const handled: string[] = []
        const letters: string[] = []
        const mirror = () =>
          informer('mirror', {
            of: kinds().parts,
            retry: { attempts: 2, backoff: '1ms' },
            handle({ type, name, object }) {
              if (name === 'bad') throw new Error('no')
              handled.push(`${type} ${name} ${object?.spec.n ?? ''}`)
            },
          })
        let rp = await engine('informer')
        const parts = await rp.open(kinds().parts)
        for (const n of [1, 2, 3]) await parts.create({ name: `p${n}`, spec: { n } })
        await parts.create({ name: 'bad', spec: { n: 0 } })
        let cache = await rp.open(mirror())
        await cache.settled()
        expect(handled.splice(0).sort()).toEqual(['added p1 1', 'added p2 2', 'added p3 3'])
        letters.push(...(await cache.deadLetters()).map(({ key }) => key))
        expect(letters).toEqual(['bad'])
        expect(cache.list().map(({ name }) => name)).toEqual(['bad', 'p1', 'p2', 'p3'])
        await parts.update({ name: 'p1', revision: 'any', spec: { n: 10 } })
        await until(() => handled.length > 0)
        expect(handled.splice(0)).toEqual(['modified p1 10'])
        // The server dies and returns: changes during and after the outage are handled, and nothing else.
        await cluster.kill()
        await cluster.start()
        if (which === 'kube-apiserver') {
          // Its memory is lost: the position of the informer is too old, and it lists again.
          const { api } = kinds().parts
          const at = kubernetes(cluster.address).collection({ name: 'parts', api }, undefined)
          const old = at.watch(1, new AbortController().signal)[Symbol.asyncIterator]()
          await expect(old.next()).rejects.toMatchObject({ code: 'REVISION_GONE' })
        }
        const again = await rp.open(kinds().parts)
        await again.update({ name: 'p2', revision: 'any', spec: { n: 20 } })
        await again.create({ name: 'p4', spec: { n: 4 } })
        await cache.settled()
        expect(handled.splice(0).sort()).toEqual(['added p4 4', 'modified p2 20'])

        // The informer is away while objects change and go.
        await rp.close()
        rp = await engine('writer')
        const writer = await rp.open(kinds().parts)
        await writer.delete('p1')
        await writer.update({ name: 'p3', revision: 'any', spec: { n: 30 } })
        rp = await engine('informer')
        cache = await rp.open(mirror())
        await cache.settled()
        expect(handled.sort()).toEqual(['deleted p1 ', 'modified p3 30'])
        expect((await cache.deadLetters()).map(({ key }) => key)).toEqual(['bad'])
        await writer.delete('bad')
        await rp.close()
      },
    )

    it.skipIf(missing !== null)(
      'a controller makes what is wanted true, and reports on the generation that it saw',
      async () => {
        const { sites, parts } = kinds()
        let held: Promise<void> | null = null
        const started: number[] = []
        const scaler = controller('scaler', {
          watch: [sites, parts],
          retry: { backoff: '1ms', backoffMax: '50ms' },
          async reconcile({ name, object, of, report }) {
            if (!object) return
            started.push(object.generation)
            await held
            const owners = [{ kind: 'sites', name, uid: object.uid, controller: true }]
            const { items } = await of(parts).list({ labels: { site: name } })
            for (let n = items.length; n < object.spec.replicas; n++) {
              await of(parts).create({ name: `${name}-${n}`, labels: { site: name }, owners, spec: { n } })
            }
            await report({ status: { ready: object.spec.replicas }, conditions: [{ type: 'Ready', status: 'True' }] })
          },
        })
        const rp = await engine('controller')
        const handle = await rp.open(sites)
        const owned = await rp.open(parts)
        await handle.create({ name: 'web', spec: { replicas: 2 } })
        const working = await rp.open(scaler)
        await working.settled()
        expect(await handle.get('web')).toMatchObject({ generation: 1, observedGeneration: 1, status: { ready: 2 } })
        expect((await owned.get('web-1'))!.owners).toMatchObject([{ kind: 'sites', name: 'web', controller: true }])
        // Its dependents concern it.
        await owned.delete('web-1')
        await until(async () => (await owned.get('web-1')) !== undefined)
        await working.settled()
        // While it works on one generation, the object changes: its report is about the generation that it saw.
        let go = () => {}
        held = new Promise((resolve) => {
          go = resolve
        })
        await handle.update({ name: 'web', revision: 'any', spec: { replicas: 3 } })
        await until(() => started.includes(2))
        await handle.update({ name: 'web', revision: 'any', spec: { replicas: 4 } })
        const seen: string[] = []
        const watch = handle.watch()
        const watching = (async () => {
          for await (const event of watch) {
            if (event.type === 'bookmark') continue
            const { observedGeneration, status, spec } = event.object
            seen.push(`${observedGeneration}:${status?.ready}`)
            if (observedGeneration === 3) return spec.replicas
          }
          return 0
        })()
        held = null
        go()
        expect(await watching).toBe(4)
        expect(seen).toContain('2:3')
        // A status contains the desired number of its generation.
        const wanted: Record<string, string> = { '1': '2', '2': '3', '3': '4' }
        for (const each of seen) expect(each).toBe(`${each.split(':')[0]}:${wanted[each.split(':')[0]!]}`)

        // Another process takes over: late reports of the previous one are refused.
        const second = await engine('controller')
        const taken = await second.open(scaler, undefined, { takeover: true })
        await taken.led()
        const before = (await handle.get('web'))!
        const late = handle.reportAs(
          { by: 'controller/scaler', epoch: 1 },
          { name: 'web', observedGeneration: 3, status: { ready: -1 } },
        )
        await expect(late).rejects.toMatchObject({ code: 'FENCED' })
        expect((await handle.get('web'))!.status).toEqual(before.status)
        await taken.close()
        await working.close()
      },
    )
  },
)
