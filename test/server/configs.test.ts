import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { config } from '../../src/layers/config/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { requestOf, secret, startServer, type TestServer, tokens } from './support.ts'

const folder = temporaryFolder('configs')
const url = `sqlite:${join(folder, 'x.db')}`
let here: TestServer
let there: TestServer

const definitions = ['routes', 'staged', 'edges', 'lost'].map((name) => config(name))
const edge = { name: 'edge', token: secret('edge'), role: 'operate', scopes: ['config/edges/clients/one'] } as const

beforeAll(async () => {
  here = await startServer({ url, definitions, tokens: [...tokens, edge] })
  there = await startServer({ url, definitions, tokens: [...tokens, edge] })
})
afterAll(async () => {
  await here.close()
  await there.close()
})

const put = (server: TestServer, name: string, body: unknown, key?: string) =>
  server.ask(`/v1/configs/${name}`, { method: 'PUT', body, ...(key !== undefined && { key }) })
const at = (name: string, client: string, verb: string) => `/v1/configs/${name}/clients/${client}/${verb}`

/** The events of a stream, one after another. */
async function* eventsOf(response: Response): AsyncGenerator<{ event: string; id: string; data: never }> {
  let text = ''
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(bytes).toString()
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      if (field('event'))
        yield { event: field('event')!, id: field('id') ?? '', data: JSON.parse(field('data')!) as never }
    }
  }
}

it('a client polls at one server and answers at the other', async () => {
  expect((await put(here, 'routes', { value: { to: 'blue' } }, 'deploy-1')).value).toEqual({ version: 1 })
  expect((await put(there, 'routes', { value: { to: 'blue' } }, 'deploy-1')).value).toEqual({ version: 1 })
  expect((await put(there, 'routes', { value: { to: 'red' } }, 'deploy-1')).value.code).toBe('KEY_REUSED')
  const first = await here.ask(at('routes', 'one', 'poll'), { body: {} })
  const { stream, offer } = first.value
  expect(offer).toEqual({
    ...{ version: 1, nonce: expect.stringMatching(`^${stream}-1-`), held: expect.stringMatching(/^1\./) },
    value: { to: 'blue' },
  })
  // The answer was lost: an unanswered offer is repeated, on any server.
  expect((await there.ask(at('routes', 'one', 'poll'), { body: { stream } })).value).toEqual(first.value)
  const wrong = await there.ask(at('routes', 'one', 'answer'), { body: { nonce: `${stream}-9` } })
  expect(wrong.value).toMatchObject({ isTaken: false })
  const taken = await there.ask(at('routes', 'one', 'answer'), { body: { nonce: offer.nonce } })
  expect(taken.value).toEqual({ isTaken: true, why: null })
  expect((await here.ask('/v1/configs/routes/reached?version=1&share=0.95&waitMs=20000')).value).toMatchObject({
    isReached: true,
    clients: 1,
    acked: 1,
  })
  expect((await here.ask(at('routes', 'one', 'poll'), { body: { stream } })).value).toEqual({ stream, offer: null })
  // A waiting poll gets the next offer.
  const waiting = here.ask(at('routes', 'one', 'poll'), { body: { stream, waitMs: 20_000 } })
  await put(there, 'routes', { value: { to: 'nowhere' } })
  const next = (await waiting).value.offer
  expect(next).toMatchObject({ version: 2 })
  await here.ask(at('routes', 'one', 'answer'), { body: { nonce: next.nonce, nack: 'no such place' } })
  expect((await there.ask('/v1/configs/routes')).value).toMatchObject({
    ...{ config: 'routes', latest: 2, value: { to: 'nowhere' }, inForce: [{ version: 1, clients: 1 }] },
    refused: [{ client: 'one', refused: { version: 2, reason: 'no such place' } }],
  })
  expect((await there.ask('/v1/configs/routes/reached?version=2')).value).toMatchObject({ isReached: false, nacked: 1 })
  // It joins again and reports its version.
  const again = await there.ask(at('routes', 'one', 'poll'), { body: { has: 2 } })
  expect(again.value.offer).toBeNull()
  const old = await here.ask(at('routes', 'one', 'poll'), { body: { stream } })
  expect([old.status, old.value.code]).toEqual([409, 'STREAM_REPLACED'])
})

it('a client follows its stream, loses the connection, and continues at the other server', async () => {
  await put(here, 'edges', { value: 1 })
  const follow = (server: TestServer, headers: Record<string, string> = {}) =>
    server.server(requestOf(at('edges', 'one', 'stream'), { as: 'edge', headers }))
  const first = eventsOf(await follow(here))
  const begun = (await first.next()).value!
  expect(begun).toMatchObject({ event: 'stream', data: { stream: begun.id } })
  const offer = (await first.next()).value!
  expect(offer).toMatchObject({ event: 'offer', id: begun.id, data: { version: 1, value: 1 } })
  await first.return(undefined)
  const second = eventsOf(await follow(there, { 'last-event-id': begun.id }))
  expect((await second.next()).value).toMatchObject({ event: 'stream', data: { stream: begun.id } })
  expect((await second.next()).value).toEqual(offer)
  const { nonce } = offer.data as { nonce: string }
  await here.ask(at('edges', 'one', 'answer'), { as: 'edge', body: { nonce } })
  const coming = second.next()
  await put(here, 'edges', { value: 2 })
  expect((await coming).value).toMatchObject({ event: 'offer', data: { version: 2, value: 2 } })
  // The client joins elsewhere: this stream ends, and cannot be gone on with.
  const third = eventsOf(await follow(here))
  await third.next()
  expect((await second.next()).value).toMatchObject({ event: 'problem', data: { code: 'STREAM_REPLACED' } })
  expect((await second.next()).done).toBe(true)
  expect((await follow(there, { 'last-event-id': begun.id })).status).toBe(409)
  await third.return(undefined)
})

it('a rollout is set, run, steered and seen', async () => {
  await put(here, 'staged', { value: 'old' })
  const { value: one } = await here.ask(at('staged', 'one', 'poll'), { body: {} })
  await here.ask(at('staged', 'one', 'answer'), { body: { nonce: one.offer.nonce } })
  here.rp.work([definitions[1]!])
  const rollout = { stages: [0.5], holdMs: 3_600_000, withdrawAbove: 1 }
  expect((await put(there, 'staged', { value: 'new', rollout })).value).toEqual({ version: 2 })
  const steer = (action: string) =>
    here.ask('/v1/configs/staged/rollout', { as: 'operator', body: { version: 2, action } })
  expect((await steer('withdraw')).value).toEqual({ version: 2 })
  const waiting = await there.ask('/v1/configs/staged/reached?version=2&waitMs=20000')
  expect([waiting.status, waiting.value.code]).toEqual([409, 'WITHDRAWN'])
  expect((await here.ask('/v1/configs/staged')).value).toMatchObject({
    latest: 2,
    lastGood: 1,
    rollout: { status: 'withdrawn' },
  })
  expect((await steer('resume')).value.code).toBe('CONFLICT')
  expect((await put(here, 'staged', { value: 1, rollout: { stages: [0.9, 0.1] } })).value.code).toBe('INVALID_ARGUMENT')
})

it('tokens reach the data of their scopes and roles, and learn nothing about the rest', async () => {
  expect((await here.ask('/v1/configs')).value.items.map(({ config: name }: { config: string }) => name)).toEqual([
    ...['routes', 'staged', 'edges', 'lost'],
  ])
  expect((await here.ask('/v1/configs', { as: 'ann' })).value).toEqual({ items: [] })
  const codeOf = async (path: string, ask: Parameters<TestServer['ask']>[1]) => (await here.ask(path, ask)).value.code
  expect(await codeOf(at('edges', 'one', 'poll'), { as: 'reader', body: {} })).toBe('FORBIDDEN')
  expect(await codeOf('/v1/configs/edges', { method: 'PUT', as: 'operator', body: { value: 1 } })).toBe('FORBIDDEN')
  // A token for one client is not one for another, nor for the whole.
  expect(await codeOf(at('edges', 'two', 'poll'), { as: 'edge', body: {} })).toBe('NOT_FOUND')
  expect(await codeOf('/v1/configs/edges', { as: 'edge' })).toBe('NOT_FOUND')
  const foreign = await here.ask('/v1/configs/edges', { as: 'ann' })
  const absent = await here.ask('/v1/configs/none', { as: 'ann' })
  expect(JSON.stringify(foreign.value).replaceAll('edges', 'X')).toBe(
    JSON.stringify(absent.value).replaceAll('none', 'X'),
  )
  expect(await codeOf(at('lost', 'x'.repeat(201), 'poll'), { body: {} })).toBe('INVALID_ARGUMENT')
})
