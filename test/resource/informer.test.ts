// Informers: the calls of a handler, over restarts, crashes and trimmed history, and objects whose handler throws.

import { expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { type InformerEvent, informer, resource } from '../../src/layers/resource/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { discard, lettersOf, withLetters } from '../../src/operations/letters.ts'
import { act } from '../../src/operations/run-verb.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { mortal } from '../entities/support.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Pod {
  readonly node: string
}

const pods = resource<Pod>('pods', { retain: { checkpoints: 1, history: 'needed' } })
const noPause = { backoff: 1, jitter: 0 }

/** An informer that records its calls. */
function noting(seen: string[], fails: (event: InformerEvent<Pod>) => boolean = () => false) {
  return informer('cache', {
    of: pods,
    indexes: { node: ({ spec }) => spec.node },
    retry: noPause,
    handle(event) {
      if (fails(event)) throw new Error(`${event.name} fails`)
      seen.push(`${event.type} ${event.name}${event.object ? `=${event.object.spec.node}` : ''}`)
    },
  })
}

onEveryStore('informers', (world) => {
  it('are called for existing objects and for events, and after a restart for changes made meanwhile', async () => {
    const here = await world()
    const rp = await here.engine()
    const handle = await rp.open(pods)
    await handle.create({ name: 'a', spec: { node: 'n1' } })
    await handle.create({ name: 'b', spec: { node: 'n1' } })
    const first: string[] = []
    const cache = await rp.open(noting(first))
    await cache.settled()
    await handle.change('a', () => ({ spec: { node: 'n2' } }))
    await cache.settled()
    expect(first).toEqual(['added a=n1', 'added b=n1', 'modified a=n2'])
    expect(cache.by('node', 'n1').map(({ name }) => name)).toEqual(['b'])
    await handle.change('b', () => ({ spec: { node: 'n2' } }))
    expect(cache.by('node', 'n2').map(({ name }) => name)).toEqual(['a', 'b'])
    expect(cache.get('b')?.spec.node).toBe('n2')
    expect(cache.list({ fields: 'spec.node=n2' })).toHaveLength(2)
    expect(() => cache.by('none', 'x')).toThrow(/no index none/)
    await cache.settled()
    await cache.close()
    // The informer is down, and history is trimmed above its last handled revision.
    await handle.delete('a')
    await handle.create({ name: 'c', spec: { node: 'n1' } })
    for (const node of ['n3', 'n4', 'n5']) await handle.change('c', () => ({ spec: { node } }))
    await handle.checkpoint()
    await handle.change('c', () => ({ spec: { node: 'n6' } }))
    await handle.checkpoint()
    await rp.drill()
    await rp.collect()
    const second: string[] = []
    const other = await here.engine({ worker: 'other' })
    const again = await other.open(noting(second))
    await again.settled()
    expect(second.sort()).toEqual(['added c=n6', 'deleted a'])
    // Another one of the same name is another object.
    await handle.delete('c')
    await handle.create({ name: 'c', spec: { node: 'n7' } })
    await again.settled()
    expect(second.slice(2)).toEqual(expect.arrayContaining(['added c=n7']))
    expect(second.filter((each) => each.startsWith('modified'))).toEqual([])
  })

  it('retry a throwing handler, set its object aside, and handle it again when it is redriven or changes', async () => {
    const rp = await (await world()).engine()
    await declareKinds(rp)
    const handle = await rp.open(pods)
    const bad = new Set(['a', 'b'])
    const tried: string[] = []
    const seen: string[] = []
    const fails = (event: InformerEvent<Pod>) => {
      if (bad.has(event.name)) tried.push(`${event.name}#${event.attempt}`)
      return bad.has(event.name)
    }
    const cache = await rp.open(noting(seen, fails))
    for (const name of ['a', 'b', 'c', 'd']) await handle.create({ name, spec: { node: 'n1' } })
    await cache.settled()
    expect(tried.filter((each) => each.startsWith('a'))).toEqual(['a#1', 'a#2', 'a#3'])
    expect(seen.sort()).toEqual(['added c=n1', 'added d=n1'])
    // The verbs that all dead letters have.
    const [head] = await withLetters(rp)
    expect(head).toMatchObject({ timeline: 'informer/cache', attributes: { dead: 2 } })
    expect(await lettersOf(rp, [head!])).toMatchObject([
      { key: 'a', attempts: 3, error: { message: 'a fails' }, item: { name: 'a' } },
      { key: 'b', attempts: 3, error: { message: 'b fails' } },
    ])
    bad.delete('a')
    const sent = await act(rp, head!, 'redrive', { keys: ['a', 'x'] })
    expect(sent.facts).toEqual({ redriven: ['a'], missing: ['x'] })
    await until(() => seen.includes('added a=n1'))
    await expect(cache.redrive(['x'])).rejects.toMatchObject({ code: 'NOT_FOUND', data: { missing: ['x'] } })
    expect(await cache.redrive(['b', 'x'])).toBe(1)
    await until(() => tried.filter((each) => each === 'b#3').length === 2)
    await cache.settled()
    bad.delete('b')
    await handle.change('b', () => ({ spec: { node: 'n2' } }))
    await cache.settled()
    expect(seen).toContain('added b=n2')
    expect(await cache.deadLetters()).toEqual([])
    bad.add('c')
    await handle.change('c', () => ({ spec: { node: 'n3' } }))
    await cache.settled()
    await discard(rp, [(await rp.head('informer/cache'))!], ['c'])
    await until(async () => (await cache.deadLetters()).length === 0)
    expect(await cache.redrive()).toBe(0)
    expect(seen).not.toContain('modified c=n3')
  })

  it("report the deletion of a dead letter's object, and its letter is removed or marked as gone", async () => {
    const here = await world()
    const rp = await here.engine()
    await declareKinds(rp)
    const handle = await rp.open(pods)
    const seen: string[] = []
    const tried: string[] = []
    const fails = ({ type, name }: InformerEvent<Pod>) => {
      tried.push(`${type} ${name}`)
      return type === 'added' || name === 'never'
    }
    let cache = await rp.open(noting(seen, fails))
    for (const name of ['now', 'away', 'again', 'never']) await handle.create({ name, spec: { node: 'n1' } })
    await cache.settled()
    expect((await cache.deadLetters()).map(({ key }) => key)).toEqual(['again', 'away', 'never', 'now'])
    await handle.delete('now')
    await cache.settled()
    expect(seen.splice(0)).toEqual(['deleted now=n1'])
    await cache.close()
    for (const name of ['away', 'again', 'never']) await handle.delete(name)
    await handle.create({ name: 'again', spec: { node: 'n2' } })
    cache = await rp.open(noting(seen, fails))
    await cache.settled()
    expect(seen.splice(0).sort()).toEqual(['deleted again', 'deleted away'])
    expect(await cache.deadLetters()).toMatchObject([
      { key: 'again', item: { spec: { node: 'n2' } } },
      { key: 'never', revision: 0, item: { name: 'never', deleted: true } },
    ])
    // It counts as handled: its deletion is not reported again.
    await discard(rp, [(await rp.head('informer/cache'))!], ['never'])
    await until(async () => (await cache.deadLetters()).length === 1)
    await cache.close()
    tried.splice(0)
    cache = await rp.open(noting(seen, fails))
    await cache.settled()
    expect(tried).toEqual([])
    expect((await rp.head('informer/cache'))!.attributes.dead).toBe(1)
  })

  it('after a crash, are called again for unrecorded objects, and for nothing else', async () => {
    const here = await world()
    const writer = await (await here.engine({ worker: 'writer' })).open(pods)
    for (let i = 0; i < 6; i++) await writer.create({ name: `p${i}`, spec: { node: 'n' } })
    const seen: string[] = []
    const { engine, die } = await mortal(here)
    await engine.open(
      informer('cache', {
        of: pods,
        handle({ name }) {
          seen.push(name)
          // It dies between the work and its note.
          if (seen.length === 4) die()
        },
      }),
    )
    await until(() => seen.length === 4)
    await writer.create({ name: 'p6', spec: { node: 'n' } })
    const next = await here.engine({ worker: 'next' })
    const rest: string[] = []
    const again = await next.open(noting(rest), undefined, { takeover: true })
    await again.settled()
    expect(seen).toEqual(['p0', 'p1', 'p2', 'p3'])
    expect(rest).toEqual(['added p3=n', 'added p4=n', 'added p5=n', 'added p6=n'])
  })
})

it('the planted bug informer-unrecorded makes an informer handle everything again', async () => {
  const shared = createWorld()
  const engine = (planted: readonly string[]): Reprise => {
    const store = openMemory({ namespace: 'default', hash: sha256, world: shared })
    return createEngine({ store, planted: new Set(planted) }, { worker: 'test' })
  }
  const seen: string[] = []
  const one = engine(['informer-unrecorded'])
  await (await one.open(pods)).create({ name: 'a', spec: { node: 'n' } })
  const cache = await one.open(noting(seen))
  await cache.settled()
  await one.close()
  const two = engine([])
  await (await two.open(noting(seen))).settled()
  await two.close()
  expect(seen).toEqual(['added a=n', 'added a=n'])
})

it('a letter of an informer that did not note its first calls yet goes with its object', async () => {
  const shared = createWorld()
  const engine = (planted: readonly string[]): Reprise => {
    const store = openMemory({ namespace: 'default', hash: sha256, world: shared })
    return createEngine({ store, planted: new Set(planted) }, { worker: 'test' })
  }
  const one = engine(['begins-unnoted'])
  const before = await one.open(pods)
  await before.create({ name: 'a', spec: { node: 'n' } })
  const failing = await one.open(noting([], () => true))
  await failing.settled()
  expect(await failing.deadLetters()).toHaveLength(1)
  await before.delete('a')
  await one.close()
  const two = engine([])
  const seen: string[] = []
  const cache = await two.open(noting(seen))
  await cache.settled()
  expect([seen, await cache.deadLetters()]).toEqual([['deleted a'], []])
  await two.close()
})
