// Pushed configuration on every store: versions, streams of clients, valid and invalid answers, queries and waits. Each engine
// is like a process of its own.

import { expect, it } from 'vitest'
import type { ClientStream, ConfigHandle } from '../../src/layers/config/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Routes {
  readonly upstream: string
}

const routes = config<Routes>('routes')
const v = (upstream: string): Routes => ({ upstream })

/** Takes the next offer and accepts it. */
async function accept(stream: ClientStream<Routes>) {
  const offer = await stream.next()
  expect(await stream.ack(offer!.nonce)).toEqual({ isTaken: true, why: null })
  return offer!
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'none',
    (error) => error.code,
  )
}

onEveryStore('pushed configuration', (world) => {
  it('a version goes to every client, and it is known who has accepted it', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const control = await a.open(routes)
    const edge = await b.open(routes)
    const one = await edge.client('one')
    const two = await edge.client('two')
    const waiting = one.next()
    expect(await control.set(v('blue'))).toBe(1)
    const offer = await waiting
    expect(offer).toMatchObject({ version: 1, value: v('blue') })
    await one.ack(offer!.nonce)
    expect(await control.reached(1, { share: 0.5 })).toMatchObject({ clients: 2, acked: 1 })
    expect(await codeOf(control.reached(1, { timeout: 1 }))).toBe('TIMEOUT')
    await accept(two)
    expect(await control.reached(1)).toMatchObject({ clients: 2, acked: 2, share: 1 })
    expect(await control.status()).toMatchObject({ latest: 1, clients: 2, inForce: [{ version: 1, clients: 2 }] })
  })

  it('no call waits for an impossible event: a version that was not set, a missing rollout', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const control = await a.open(routes)
    const other = await b.open(routes)
    expect(await codeOf(control.reached(1))).toBe('NOT_FOUND')
    await control.set(v('blue'))
    await (await control.client('edge')).ack((await (await control.client('edge')).next())!.nonce)
    // A process that has not received the version yet reads the store first.
    expect(await codeOf(other.reached(1, { timeout: 1 }))).not.toBe('NOT_FOUND')
    const codes = [other.reached(2), other.ended(2), other.ended(1), other.reached(0), other.reached(1.5)].map(codeOf)
    expect(await Promise.all(codes)).toEqual([
      'NOT_FOUND',
      'NOT_FOUND',
      'CONFLICT',
      'INVALID_ARGUMENT',
      'INVALID_ARGUMENT',
    ])
  })

  it('a returning client reports its version: it gets only missing ones, and its old stream is over', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const first = await a.open(routes)
    await first.set(v('blue'))
    const old = await first.client('edge')
    const offer = await old.next()
    const second = await b.open(routes)
    const stream = await second.client('edge', { has: 1 })
    expect(await codeOf(old.next())).toBe('STREAM_REPLACED')
    // The answer to an offer on the old stream is too late.
    expect(await first.ack('edge', offer!.nonce)).toMatchObject({ isTaken: false })
    await second.reached(1)
    const waiting = stream.next()
    await first.set(v('green'))
    expect(await waiting).toMatchObject({ version: 2 })
    // With nothing, or with what never was, it gets the newest at once.
    for (const has of [undefined, 7]) {
      const blank = await second.client('edge', has === undefined ? {} : { has })
      expect(await blank.next()).toMatchObject({ version: 2 })
    }
  })

  it('another process continues a stream: an unanswered offer is repeated under its nonce', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const here = await a.open(routes)
    const there = await b.open(routes)
    await here.set(v('blue'))
    const stream = await here.client('edge')
    const offer = await stream.next()
    stream.detach()
    expect(await stream.next()).toBeNull()
    const further = await there.client('edge', { stream: stream.stream })
    expect(await further.next()).toEqual(offer)
    await there.ack('edge', offer!.nonce)
    await here.reached(1)
    await further.close()
    expect(await codeOf(here.client('edge', { stream: stream.stream }))).toBe('STREAM_REPLACED')
  })

  it('the same key sets one version, also from another process', async () => {
    const w = await world()
    const [a, b] = [await (await w.engine()).open(routes), await (await w.engine()).open(routes)]
    const made = await Promise.all([a, b, a].map((push: ConfigHandle<Routes>) => push.set(v('x'), { key: 'deploy-7' })))
    expect(made).toEqual([1, 1, 1])
    await expect(b.set(v('z'), { key: 'deploy-7' })).rejects.toMatchObject({ code: 'KEY_REUSED' })
    await expect(a.rollout(v('x'), { key: 'deploy-7' })).rejects.toMatchObject({ code: 'KEY_REUSED' })
    const others = await Promise.all([a, b, a, b].map((push) => push.set(v('y'))))
    expect(others.sort()).toEqual([2, 3, 4, 5])
    expect((await a.latest())!.version).toBe(5)
  })

  it('is all there after the process is gone, and holds what verify and a drill ask of it', async () => {
    const w = await world()
    const a = await w.engine()
    const push = await a.open(routes)
    await push.set(v('blue'))
    const stream = await push.client('edge')
    await accept(stream)
    const waiting = stream.next()
    await a.close()
    expect(await waiting).toBeNull()
    const b = await w.engine()
    const again = await b.open(routes)
    expect(await again.clients()).toMatchObject([{ client: 'edge', inForce: 1 }])
    expect(await again.latest()).toEqual({ version: 1, value: v('blue') })
    expect((await b.verify()).faults).toEqual([])
    expect((await b.drill()).ok).toBe(true)
  })
})

onEveryStore(
  'answers',
  (world) => {
    it('B10: an ACK for another nonce changes nothing', async () => {
      const w = await world()
      const push = await (await w.engine()).open(routes)
      await push.set(v('blue'))
      const stream = await push.client('edge')
      const first = await stream.next()
      await push.set(v('green'))
      const second = await stream.next()
      expect([first!.version, second!.version]).toEqual([1, 2])
      expect(await stream.ack(first!.nonce)).toMatchObject({ isTaken: false, why: 'a newer version was offered since' })
      expect(await push.clients()).toMatchObject([{ inForce: null, offered: 2 }])
      // The same nonce, sent by another client.
      const other = await push.client('other')
      expect(await push.ack('other', second!.nonce)).toMatchObject({ isTaken: false })
      await other.close()
      expect(await stream.ack(second!.nonce)).toMatchObject({ isTaken: true })
      expect(await stream.ack(second!.nonce)).toMatchObject({ isTaken: true })
      expect(await push.clients()).toMatchObject([{ inForce: 2, offered: null }, { inForce: null }])
    })

    it('after a NACK the version before stays in force, and the refused one is not offered again on that stream', async () => {
      const w = await world()
      const push = await (await w.engine()).open(routes)
      await push.set(v('blue'))
      const stream = await push.client('edge')
      await accept(stream)
      await push.set(v('bad'))
      const bad = await stream.next()
      await stream.nack(bad!.nonce, 'upstream must be a colour')
      expect(await push.status()).toMatchObject({
        latest: 2,
        inForce: [{ version: 1, clients: 1 }],
        refused: [{ client: 'edge', inForce: 1, refused: { version: 2, reason: 'upstream must be a colour' } }],
      })
      const next = stream.next()
      await push.set(v('green'))
      expect(await next).toMatchObject({ version: 3 })
      await stream.ack((await next)!.nonce)
      expect((await push.status()).refused).toEqual([])
      // On a new stream it gets the offer again: the client may be another program by now.
      await push.set(v('bad again'))
      await stream.nack((await stream.next())!.nonce, 'no')
      const again = await push.client('edge', { has: 3 })
      expect(await again.next()).toMatchObject({ version: 4 })
    })

    it('clients that were away for too long do not count, and are forgotten', async () => {
      const w = await world()
      const brief = config<Routes>('brief', { forgetAfter: 400 })
      const push = await (await w.engine()).open(brief)
      await push.set(v('blue'))
      const gone = await push.client('gone')
      gone.detach()
      const stays = await push.client('stays')
      await accept(stays)
      // Without an answer of `gone`, all that is left counts as all.
      expect(await push.reached(1)).toMatchObject({ clients: 1, acked: 1 })
      await until(async () => (await push.clients()).map(({ client }) => client).join() === 'stays')
      expect(await codeOf(push.client('gone', { stream: gone.stream }))).toBe('STREAM_REPLACED')
    })
  },
  ['memory', 'sqlite'],
)

it('names the fault in a definition, an option or the name of a client', async () => {
  expect(() => config('a b')).toThrow(/INVALID_ARGUMENT/)
  expect(() => config('a', { forgetAfter: 1 })).toThrow(/at least 100 ms/)
  expect(() => config('a', { forgetAftr: 1 } as never)).toThrow(/did you mean forgetAfter/)
})
