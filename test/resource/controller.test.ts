// Controllers: the desired state becomes actual despite kills; a status names its generation, and a displaced controller can no
// longer report.

import { expect, it } from 'vitest'
import type { Duration } from '../../src/core/duration.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { GiveUp } from '../../src/index.ts'
import { controller, type ReconcileContext, resource } from '../../src/layers/resource/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { mortal } from '../entities/support.ts'
import { newGate, until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Deployment {
  readonly replicas: number
}
interface Status {
  readonly ready: number
}

const deployments = resource<Deployment, Status>('deployments')
const pods = resource<object>('pods')
const soon = { backoff: 1, backoffMax: 5, jitter: 0 }

/** As many pods as are wanted, by name, so that doing it twice does no harm. */
async function scale({ name, object, of, report }: ReconcileContext<Deployment, Status>): Promise<void> {
  const owned = of(pods)
  const wanted = object ? object.spec.replicas : 0
  const { items } = await owned.list({ prefix: `${name}-` })
  const names = new Set(items.map((pod) => pod.name))
  for (let i = 0; i < wanted; i++) {
    if (names.has(`${name}-${i}`)) continue
    const owners = [{ kind: 'deployments', name, uid: object!.uid }]
    await owned.create({ name: `${name}-${i}`, owners, spec: {} }).catch((error) => {
      if (error.code !== 'EXISTS') throw error
    })
  }
  for (const pod of items) if (Number(pod.name.slice(name.length + 1)) >= wanted) await owned.delete(pod.name)
  if (object) await report({ status: { ready: wanted }, conditions: [{ type: 'Ready', status: 'True' }] })
}

onEveryStore('controllers', (world) => {
  it('reach the desired state, notice their dependents, and report the generation they have seen', async () => {
    const rp = await (await world()).engine()
    const wanted = await rp.open(deployments)
    const owned = await rp.open(pods)
    await wanted.create({ name: 'web', spec: { replicas: 2 } })
    const scaler = await rp.open(
      controller('scaler', { watch: [deployments, pods], concurrency: 2, retry: soon, reconcile: scale }),
    )
    await scaler.settled()
    expect((await owned.list()).items.map(({ name }) => name)).toEqual(['web-0', 'web-1'])
    expect(await wanted.get('web')).toMatchObject({
      observedGeneration: 1,
      status: { ready: 2 },
      conditions: [{ type: 'Ready', status: 'True', observedGeneration: 1 }],
    })
    // A dependent is deleted: it is created again, because its owner is reconciled again.
    await owned.delete('web-0')
    await until(async () => (await owned.get('web-0')) !== undefined)
    await wanted.change('web', () => ({ spec: { replicas: 1 } }))
    await wanted.create({ name: 'api', spec: { replicas: 1 } })
    await scaler.settled()
    expect((await owned.list()).items.map(({ name }) => name)).toEqual(['api-0', 'web-0'])
    expect(await wanted.get('web')).toMatchObject({ generation: 2, observedGeneration: 2, status: { ready: 1 } })
    await wanted.delete('web')
    await scaler.settled()
    await until(async () => (await owned.list()).items.length === 1)
    await scaler.close()
  })

  it('look at an object once for many changes, never twice at the same time, again after a failure and when they ask', async () => {
    const rp = await (await world()).engine()
    const wanted = await rp.open(deployments)
    const calls: string[] = []
    const atWork = new Set<string>()
    const { opened: held, open: release } = newGate()
    const watcher = await rp.open(
      controller('watcher', {
        watch: [deployments],
        concurrency: 4,
        retry: soon,
        async reconcile({ name, object, attempt }) {
          expect(atWork.has(name)).toBe(false)
          atWork.add(name)
          try {
            calls.push(`${name}=${object?.spec.replicas}#${attempt}`)
            if (calls.length === 1) await held
            if (name === 'fails' && attempt < 3) throw new Error('not yet')
            if (name === 'asks' && calls.filter((each) => each.startsWith('asks')).length < 3)
              return { requeueAfter: 1 }
            return undefined
          } finally {
            atWork.delete(name)
          }
        },
      }),
    )
    await wanted.create({ name: 'web', spec: { replicas: 0 } })
    await until(() => calls.length === 1)
    for (let i = 1; i <= 20; i++) await wanted.update({ name: 'web', revision: 'any', spec: { replicas: i } })
    await wanted.create({ name: 'fails', spec: { replicas: 1 } })
    await wanted.create({ name: 'asks', spec: { replicas: 1 } })
    release()
    await watcher.settled()
    expect(calls.filter((each) => each.startsWith('web'))).toEqual(['web=0#1', 'web=20#1'])
    expect(calls.filter((each) => each.startsWith('fails'))).toEqual(['fails=1#1', 'fails=1#2', 'fails=1#3'])
    await until(() => calls.filter((each) => each.startsWith('asks')).length === 3)
    await watcher.close()
  })

  it('find drift, and give up for good only on request', async () => {
    const rp = await (await world()).engine()
    const wanted = await rp.open(deployments)
    await wanted.create({ name: 'web', spec: { replicas: 1 } })
    let outside = 0
    const keeper = await rp.open(
      controller('keeper', {
        watch: [deployments],
        every: 5,
        retry: soon,
        async reconcile({ name, event, object }) {
          if (name === 'bad') throw new GiveUp('there is no such image')
          if (object && outside !== object.spec.replicas) {
            outside = object.spec.replicas
            await event('Repaired', 'it had drifted')
          }
        },
      }),
    )
    await until(() => keeper.events('web').length === 1)
    outside = 7
    await until(() => keeper.events('web').length === 2)
    expect(outside).toBe(1)
    expect(keeper.events('web').map(({ reason }) => reason)).toEqual(['Repaired', 'Repaired'])
    await wanted.create({ name: 'bad', spec: { replicas: 1 } })
    await until(async () => (await keeper.deadLetters()).length === 1)
    expect(await keeper.deadLetters()).toMatchObject([{ key: 'bad', error: { message: 'there is no such image' } }])
    expect((await rp.head('controller/keeper'))!.attributes.dead).toBe(1)
    await keeper.close()
  })

  it('start no more than their rate allows, and lose nothing of what waits', async () => {
    const rp = await (await world()).engine()
    const wanted = await rp.open(deployments)
    for (let i = 0; i < 5; i++) await wanted.create({ name: `d${i}`, spec: { replicas: 1 } })
    const seen: string[] = []
    const limited = (rate?: { max: number; per: Duration }) =>
      controller('limited', {
        watch: [deployments],
        concurrency: 5,
        ...(rate && { rate }),
        reconcile: ({ name }) => void seen.push(name),
      })
    const slow = await rp.open(limited({ max: 2, per: '1h' }))
    await until(() => seen.length === 2)
    await expect(slow.settled({ timeout: 50 })).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(seen).toHaveLength(2)
    await slow.close()
    const quick = await rp.open(limited())
    await quick.settled()
    expect(new Set(seen).size).toBe(5)
    await quick.close()
  })

  it('check dead letters of deleted objects when they start, and remove them', async () => {
    const rp = await (await world()).engine()
    const wanted = await rp.open(deployments)
    const gone: string[] = []
    const strict = controller('strict', {
      watch: [deployments],
      retry: soon,
      reconcile({ name, object }) {
        if (object || name === 'never') throw new GiveUp('there is no such image')
        gone.push(name)
      },
    })
    for (const name of ['bad', 'never']) await wanted.create({ name, spec: { replicas: 1 } })
    let working = await rp.open(strict)
    await working.settled()
    expect((await working.deadLetters()).map(({ key }) => key)).toEqual(['bad', 'never'])
    await working.close()
    for (const name of ['bad', 'never']) await wanted.delete(name)
    working = await rp.open(strict)
    await working.settled()
    expect(new Set(gone)).toEqual(new Set(['bad']))
    expect(await working.deadLetters()).toMatchObject([{ key: 'never', item: { name: 'never', deleted: true } }])
    expect((await rp.head('controller/strict'))!.attributes.dead).toBe(1)
    await working.close()
  })

  it('that were overtaken report nothing any more, and their calls to the outside are not made twice', async () => {
    const here = await world()
    const wanted = await (await here.engine({ worker: 'writer' })).open(deployments)
    await wanted.create({ name: 'web', spec: { replicas: 1 } })
    const charged: string[] = []
    const { opened: paused, open: goOn } = newGate()
    const refused: string[] = []
    let passed = 0
    const made = (ready: number, wait: Promise<void> | null) =>
      controller('scaler', {
        watch: [deployments],
        retry: soon,
        async reconcile({ effect, report }: ReconcileContext<Deployment, Status>) {
          await effect('charge', ({ key }) => charged.push(key))
          passed += 1
          await wait
          const reporting = report({ status: { ready } })
          if (wait) reporting.catch((error) => refused.push(error.code))
          await reporting
        },
      })
    const zombie = await (await here.engine({ worker: 'zombie' })).open(made(1, paused))
    await until(() => passed === 1)
    const heir = await (await here.engine({ worker: 'heir' })).open(made(2, null), undefined, { takeover: true })
    await until(async () => (await wanted.get('web'))?.status?.ready === 2)
    goOn()
    await until(() => refused.length === 1)
    expect(refused).toEqual(['FENCED'])
    expect(await wanted.get('web')).toMatchObject({ status: { ready: 2 }, observedGeneration: 1 })
    expect(charged).toHaveLength(1)
    await heir.close()
    await zombie.close()
  })

  it('that die are followed by the next, which continues from the stored state', async () => {
    const here = await world()
    const wanted = await (await here.engine({ worker: 'writer' })).open(deployments)
    for (let i = 0; i < 5; i++) await wanted.create({ name: `d${i}`, spec: { replicas: 2 } })
    const { engine, die } = await mortal(here, (commit) => (commit === 9 ? 'after' : 'live'))
    const scaling = controller('scaler', { watch: [deployments, pods], retry: soon, reconcile: scale })
    await engine.open(scaling).catch(() => undefined)
    await wanted.change('d0', () => ({ spec: { replicas: 3 } }))
    die()
    const next = await here.engine({ worker: 'next' })
    const scaler = await next.open(scaling, undefined, { takeover: true })
    await scaler.settled()
    const { items } = await (await next.open(pods)).list()
    expect(items).toHaveLength(11)
    for (const each of (await wanted.list()).items) expect(each.observedGeneration).toBe(each.generation)
    await scaler.close()
  })
})

it.each([
  ['is refused', [], 'FENCED'],
  ['is taken with the planted bug unfenced-status', ['unfenced-status'], null],
])('a report under an older epoch of its controller %s', async (_, planted, code) => {
  const store = openMemory({ namespace: 'default', hash: sha256, world: createWorld() })
  const rp = createEngine({ store, planted: new Set(planted) }, { worker: 'test' })
  const handle = await rp.open(deployments)
  await handle.create({ name: 'web', spec: { replicas: 1 } })
  await handle.shared.raiseFence({ by: 'controller/c', epoch: 2 })
  const report = { name: 'web', observedGeneration: 1, status: { ready: 1 } }
  const reported = handle.reportAs({ by: 'controller/c', epoch: 1 }, report).then(
    () => null,
    (error) => error.code,
  )
  expect(await reported).toBe(code)
  await handle.reportAs({ by: 'controller/c', epoch: 2 }, { ...report, status: { ready: 2 } })
  expect((await handle.get('web'))?.status).toEqual({ ready: 2 })
  await rp.close()
})
