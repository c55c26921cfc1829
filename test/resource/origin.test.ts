// Random changes of objects that another server holds: it changes them, forgets its history, cuts connections and lists them
// again. A watcher of the cache gets every state that counts: in order, nothing twice, nothing missing at the end.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { open } from '../../src/index.ts'
import {
  type OriginCollection,
  type OriginEvent,
  type OriginObject,
  type ResourceOrigin,
  resource,
  type WatchEvent,
} from '../../src/layers/resource/index.ts'
import type { Draft, ResourceObject } from '../../src/layers/resource/rules/object.ts'
import { until } from '../support/fixture.ts'
import { seeded } from '../support/seeded.ts'

/** A small server: objects, the changes since a revision, and its followers. */
class Server implements OriginCollection {
  readonly where = 'a server in a test'
  readonly objects = new Map<string, ResourceObject>()
  /** The number of events each follower gets before it is cut off. Default: all. */
  cut: () => number = () => Number.POSITIVE_INFINITY
  revision = 10
  #log: { readonly revision: number; readonly event: OriginEvent }[] = []
  #from = 10
  #waiters = new Set<() => void>()

  put(name: string, n: number, isNew = false): void {
    this.revision += 1
    const known = isNew ? undefined : this.objects.get(name)
    const object: ResourceObject = {
      ...{ name, uid: known?.uid ?? `u${this.revision}`, revision: this.revision, generation: 1, createdAt: 0 },
      ...{ labels: {}, annotations: {}, owners: [], finalizers: [], conditions: [], spec: { n } },
    }
    this.objects.set(name, object)
    this.#tell({ type: 'put', object })
  }

  drop(name: string): void {
    const object = this.objects.get(name)
    if (!object) return
    this.revision += 1
    this.objects.delete(name)
    this.#tell({ type: 'gone', object: { ...object, revision: this.revision } })
  }

  /** As a server does that keeps only this many changes. */
  forget(): void {
    this.#log = []
    this.#from = this.revision
  }

  async list() {
    const items = [...this.objects.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
    return { revision: this.revision, items, continue: null, remaining: null }
  }

  async *watch(from: number, signal: AbortSignal): AsyncGenerator<OriginEvent> {
    let left = this.cut()
    for (let at = from; !signal.aborted; ) {
      if (at < this.#from) throw new RepriseError('REVISION_GONE', 'too old', {})
      const next = this.#log.find(({ revision }) => revision > at)
      if (next) {
        if (left-- <= 0) throw new RepriseError('STORE_UNREACHABLE', 'cut', {})
        at = next.revision
        yield next.event
      } else await this.#news(signal)
    }
  }

  async read(name: string): Promise<OriginObject | undefined> {
    const object = this.objects.get(name)
    return object && { object, raw: object }
  }

  create = (_: Draft) => this.#never()
  replace = () => this.#never()
  report = () => this.#never()
  delete = () => this.#never()

  async #never(): Promise<never> {
    throw new Error('nothing is written here')
  }

  #tell(event: OriginEvent): void {
    this.#log.push({ revision: this.revision, event })
    for (const wake of this.#waiters) wake()
    this.#waiters.clear()
  }

  #news(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.add(resolve)
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }
}

/** REPRISE_SEED=7 repeats one of them. */
const only = process.env.REPRISE_SEED
const seeds = only === undefined ? Array.from({ length: 12 }, (_, i) => i + 1) : [Number(only)]

it.each(seeds)('a watch of the cache has no gap and nothing twice (seed %s)', async (seed) => {
  const chanceOf = seeded(seed)
  const integer = (from: number, to: number) => from + Math.floor(chanceOf() * (to - from + 1))
  const server = new Server()
  for (let n = 0; n < 5; n++) server.put(`o${n}`, n)
  server.forget()
  server.cut = () => integer(0, 4)
  const from: ResourceOrigin = { declare: () => undefined, collection: () => server }
  const rp = await open('memory:', { housekeeping: false })
  const handle = await rp.open(resource<{ n: number }>('things', { from }))
  const seen: Exclude<WatchEvent, { type: 'bookmark' }>[] = []
  const watch = handle.watch()
  let isListed = false
  const watching = (async () => {
    for await (const event of watch) {
      if (event.type === 'bookmark') isListed ||= event.isInitialEnd === true
      else seen.push(event)
    }
  })()
  await until(() => isListed)
  const initial = seen.length
  for (let step = 0; step < 60; step++) {
    const name = `o${integer(0, 6)}`
    const chance = integer(0, 9)
    if (chance < 5) server.put(name, step)
    else if (chance < 7) server.drop(name)
    else if (chance === 7) {
      server.drop(name)
      server.put(name, step, true)
    } else if (chance === 8) server.forget()
    else await new Promise((resolve) => setTimeout(resolve, integer(0, 6)))
  }
  server.cut = () => Number.POSITIVE_INFINITY
  server.put('last', 1)
  await until(() => seen.some(({ object }) => object.name === 'last'))
  watch.close()
  await watching
  await rp.close()

  const revisions = seen.slice(initial).map(({ revision }) => revision)
  expect(revisions).toEqual([...new Set(revisions)].sort((a, b) => a - b))
  // The events produce the final state, and each follows from the previous one.
  const told = new Map<string, { readonly uid: string; readonly revision: number }>()
  for (const { type, object } of seen) {
    const { name, uid, revision } = object
    expect([type, name, told.has(name)]).toEqual([type, name, type !== 'added'])
    if (type === 'modified') expect(uid).toBe(told.get(name)!.uid)
    if (type === 'deleted') told.delete(name)
    else told.set(name, { uid, revision })
  }
  const there = [...server.objects.values()].map(({ name, uid, revision }) => [name, { uid, revision }] as const)
  expect(told).toEqual(new Map(there))
})
