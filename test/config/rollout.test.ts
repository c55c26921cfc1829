// Staged rollouts, run by one of several processes: stages, pauses, withdrawals, and what people ask of them.

import { expect, it } from 'vitest'
import { type ClientStream, config } from '../../src/layers/config/index.ts'
import { isChosen } from '../../src/layers/config/rules/rollout.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const flags = config<string>('flags')

/** A client that accepts or refuses every offer until its stream ends; its version is in `has`. */
class Edge {
  readonly seen: number[] = []
  has = 0
  readonly over: Promise<void>

  constructor(stream: ClientStream<string>, accepts: (value: string) => boolean = () => true) {
    this.over = this.#run(stream, accepts).catch(() => undefined)
  }

  async #run(stream: ClientStream<string>, accepts: (value: string) => boolean): Promise<void> {
    for await (const { nonce, value, version } of stream) {
      this.seen.push(version)
      if (accepts(value)) {
        this.has = version
        await stream.ack(nonce)
      } else await stream.nack(nonce, `not ${value}`)
    }
  }
}

const names = Array.from({ length: 12 }, (_, i) => `edge-${i}`)
const canaries = names.filter((name) => isChosen('flags', name, 0.5))
const rest = names.filter((name) => !canaries.includes(name))

async function fleet(w: World, accepts?: (value: string) => boolean) {
  const [a, b] = [await w.engine(), await w.engine()]
  const push = await a.open(flags)
  const edge = await b.open(flags)
  await push.set('good')
  const edges = new Map<string, Edge>()
  for (const name of names) edges.set(name, new Edge(await edge.client(name), accepts))
  await push.reached(1)
  // Both processes would run it: one of them does.
  for (const engine of [a, b]) engine.work([flags])
  return { push, edges }
}

onEveryStore('staged rollouts', (world) => {
  it('go to the chosen first and to all in the end', async () => {
    const { push, edges } = await fleet(await world())
    expect([canaries.length > 0, rest.length > 0]).toEqual([true, true])
    const version = await push.rollout('better', { stages: [0.5], hold: 50 })
    expect(await push.ended(version)).toMatchObject({ version: 2, status: 'completed' })
    await push.reached(version)
    expect([...edges.values()].map(({ seen }) => seen)).toEqual(names.map(() => [1, 2]))
    expect(await push.status()).toMatchObject({ latest: 2, lastGood: 1, inForce: [{ version: 2, clients: 12 }] })
  })

  it('are withdrawn when too many refuse: the others never see the version, and all have the last good one', async () => {
    const { push, edges } = await fleet(await world(), (value) => value !== 'bad')
    const version = await push.rollout('bad', { stages: [0.5] })
    expect(await push.ended(version)).toMatchObject({ status: 'withdrawn' })
    await expect(push.reached(version)).rejects.toMatchObject({ code: 'WITHDRAWN' })
    for (const name of rest) expect(edges.get(name)!.seen).toEqual([1])
    expect([...edges.values()].map(({ has }) => has)).toEqual(names.map(() => 1))
    expect(await push.status()).toMatchObject({ latest: 2, lastGood: 1, inForce: [{ version: 1, clients: 12 }] })
    // A version that is set next is for everyone again.
    await push.reached(await push.set('mended'))
  })
})

onEveryStore(
  'rollouts and people',
  (world) => {
    it("pause at a refusal, and continue or roll back on a person's decision", async () => {
      let broken = canaries[0]!
      const w = await world()
      const engine = await w.engine()
      const push = await engine.open(flags)
      await push.set('good')
      for (const name of names) new Edge(await push.client(name), (value) => name !== broken || value === 'good')
      await push.reached(1)
      engine.work([flags])
      const second = await push.rollout('second', { stages: [0.5], withdrawAbove: 1 })
      const status = async () => (await push.status()).rollout
      await until(async () => (await status())?.status === 'paused')
      expect(await status()).toMatchObject({
        version: 2,
        share: 0.5,
        reason: `1 of ${canaries.length} clients refused it`,
      })
      await push.resume(second)
      expect(await push.ended(second)).toMatchObject({ status: 'completed' })
      expect((await push.status()).inForce).toEqual([
        { version: 2, clients: 11 },
        { version: 1, clients: 1 },
      ])
      broken = ''
      const third = await push.rollout('third', { stages: [0.5], hold: '1h' })
      await until(async () => (await status())?.version === 3)
      await push.pause(third)
      await until(async () => (await status())?.status === 'paused')
      await push.withdraw(third)
      expect(await push.ended(third)).toMatchObject({ status: 'withdrawn', reason: 'asked for' })
      await until(async () => (await push.clients()).every(({ inForce }) => inForce === 2))
      await expect(push.resume(third)).rejects.toMatchObject({ code: 'CONFLICT' })
    })

    it('are superseded by a version that is set meanwhile', async () => {
      const { push } = await fleet(await world())
      const version = await push.rollout('slow', { stages: [0.5], hold: '1h' })
      await until(async () => (await push.status()).rollout?.version === version)
      const next = await push.set('now')
      expect(await push.ended(version)).toMatchObject({ status: 'superseded' })
      await push.reached(next)
      expect(await push.status()).toMatchObject({ latest: 3, lastGood: 1 })
    })
  },
  ['memory', 'sqlite'],
)
