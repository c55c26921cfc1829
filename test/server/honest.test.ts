// The server's reports about itself: probes are correct under load, an unreachable store is reported soon, a stream is ended
// and not cut, and a key is never taken for another request.

import { renameSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, timeline } from '../../src/index.ts'
import { defaultServerLimits } from '../../src/server/limits.ts'
import { listen } from '../../src/server/listen.ts'
import { routes } from '../../src/server/routes/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { at, secret, startServer } from './support.ts'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const notes = at('notes/ann')
const entries = (...types: string[]) => ({ entries: types.map((type) => ({ type, data: { n: 1 } })) })

describe('/readyz', () => {
  it.each([false, true])(
    'is 503 while the file is not where it was, and 200 again after (readOnly: %s)',
    async (readOnly) => {
      const folder = temporaryFolder('ready')
      const inner = join(folder, 'data')
      const url = `sqlite:${join(inner, 'store.db')}`
      const writer = await startServer({ url })
      cleanups.push(() => writer.close())
      await writer.ask(`${notes}/entries`, { body: entries('a') })
      const here = readOnly ? await startServer({ rp: await open(url, { readOnly: true }) }) : writer
      if (readOnly) cleanups.push(() => here.close())
      const ready = async () => {
        const { status, value } = await here.ask('/readyz', { as: null })
        return [status, value.code ?? 'ok']
      }
      expect(await ready()).toEqual([200, 'ok'])
      renameSync(inner, join(folder, 'moved'))
      expect(await ready()).toEqual([503, 'STORE_MOVED'])
      if (!readOnly) {
        const refused = await here.ask(`${notes}/entries`, { body: entries('b') })
        expect([refused.status, refused.value.code]).toEqual([503, 'STORE_MOVED'])
      }
      renameSync(join(folder, 'moved'), inner)
      expect(await ready()).toEqual([200, 'ok'])
    },
  )

  it('and /healthz are answered however many requests are at work', async () => {
    const here = await startServer({ limits: { concurrency: 2, closeMs: 10 } })
    cleanups.push(() => here.close())
    const headers = { authorization: `Bearer ${secret('owner')}`, 'content-type': 'application/json' }
    for (let n = 0; n < 2; n++) {
      const body = new ReadableStream({ pull: () => new Promise<void>(() => undefined) })
      const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit
      void here.server(new Request(`http://localhost${notes}/entries`, init))
    }
    await expect.poll(async () => (await here.ask('/v1/runs')).value.code).toBe('OVERLOADED')
    expect((await here.ask('/healthz', { as: null })).status).toBe(200)
    expect((await here.ask('/readyz', { as: null })).status).toBe(200)
  }, 15_000)
})

/** Commits fail while it is down. */
function downStore(store: Store): { readonly store: Store; isDown: boolean } {
  const state = { isDown: false } as { store: Store; isDown: boolean }
  state.store = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return (...given: unknown[]) => {
        if (state.isDown && name === 'commit') return Promise.reject(new RepriseError('STORE_UNREACHABLE', 'away'))
        return Reflect.apply(member, target, given)
      }
    },
  })
  return state
}

it('reports an unreachable store to a client soon, and its append exists once after a repetition', async () => {
  const state = downStore(openMemory({ namespace: 'default', hash: sha256, world: createWorld() }))
  const rp = createEngine({ store: state.store }, { worker: 'test' })
  const here = await startServer({ rp, limits: { storeMs: 50, requestMs: 600_000 } })
  cleanups.push(() => here.close())
  await here.ask(`${notes}/entries`, { body: entries('a') })
  state.isDown = true
  const asked = { body: entries('b', 'c'), key: 'k1' }
  const lost = await here.ask(`${notes}/entries`, asked)
  expect([lost.status, lost.value.code]).toEqual([503, 'OUTCOME_UNKNOWN'])
  state.isDown = false
  await expect.poll(async () => (await here.ask(`${notes}/entries`, asked)).status, { timeout: 10_000 }).toBe(200)
  const { value } = await here.ask(`${notes}/history`)
  expect(value.entries.map((entry: { type: string }) => entry.type)).toEqual(['a', 'b', 'c'])
}, 15_000)

it.each(['owner', 'bob'])('ends the stream of %s when it closes, without cutting it', async (as) => {
  const here = await startServer()
  const listening = await listen(here.server, { port: 0, limits: defaultServerLimits })
  const ended = new Promise<boolean>((resolve, reject) => {
    const headers = { authorization: `Bearer ${secret(as)}` }
    const asked = request(`${listening.url}/v1/feed/stream?prefix=ann/`, { headers }, (response) => {
      response.once('data', () => void Promise.all([listening.close(), here.server.close()]))
      response.on('error', reject)
      response.on('end', () => resolve(response.complete))
      response.resume()
    })
    asked.on('error', reject)
    asked.end()
  })
  expect(await ended).toBe(true)
  const after = await here.ask('/v1/runs')
  expect([after.status, after.value.code]).toEqual([503, 'CLOSED'])
  await here.rp.close()
})

describe('an Idempotency-Key', () => {
  it('of an append is refused for fewer, more or other entries, whatever was appended after them', async () => {
    const here = await startServer()
    cleanups.push(() => here.close())
    const append = (body: object, key?: string) =>
      here.ask(`${notes}/entries`, { body, ...(key !== undefined && { key }) })
    const first = await append(entries('a', 'b', 'c'), 'k1')
    expect(first.headers.get('idempotency-replayed')).toBeNull()
    await append(entries('d'), 'k2')
    await append(entries('e'))
    for (const [key, types] of [
      ['k1', ['a']],
      ['k1', ['a', 'b']],
      ['k1', ['a', 'b', 'c', 'd']],
      ['k1', ['x', 'b', 'c']],
      ['k2', ['d', 'e']],
      ['k2', ['e']],
    ] as const) {
      const { status, value } = await append(entries(...types), key)
      expect([key, types, status, value.code]).toEqual([key, types, 422, 'KEY_REUSED'])
    }
    for (const [key, types] of [
      ['k1', ['a', 'b', 'c']],
      ['k2', ['d']],
    ] as const) {
      const again = await append(entries(...types), key)
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
    }
    expect((await here.ask(`${notes}/history`)).value.coordinate.seq).toBe(5)
  })

  it('of an append is the key of the same append in TypeScript', async () => {
    const definition = timeline('counter', { initial: () => 0, apply: (state, _: { type: string }) => state + 1 })
    const here = await startServer({ definitions: [definition] })
    cleanups.push(() => here.close())
    const counter = await here.rp.open(definition, 'one')
    await counter.append([{ type: 'a' }, { type: 'b' }], { key: 'k1' })
    await counter.close()
    const path = `${at('counter/one')}/entries`
    const body = { entries: [{ type: 'a' }, { type: 'b' }] }
    expect((await here.ask(path, { body, key: 'k1' })).value).toEqual({ first: 1, seq: 2, isDuplicate: true })
    await here.ask(path, { body: { entries: [{ type: 'c' }] }, key: 'k2' })
    const more = await here.ask(path, { body: { entries: [...body.entries, { type: 'c' }] }, key: 'k1' })
    expect(more.value.code).toBe('KEY_REUSED')
  })

  it('of one entry is refused for two, whichever client appended the second at the same time', async () => {
    const definition = timeline('counter', { initial: () => 0, apply: (state, _: { type: string }) => state + 1 })
    const here = await startServer({ definitions: [definition] })
    cleanups.push(() => here.close())
    for (let n = 0; ; n++) {
      const counter = await here.rp.open(definition, `${n}`)
      await Promise.all([counter.append({ type: 'a' }, { key: 'k' }), counter.append({ type: 'b' })])
      await counter.close()
      const path = at(`counter/${n}`)
      const times = (await here.ask(`${path}/history`)).value.entries.map(({ time }: { time: string }) => time)
      if (times[0] !== times[1]) continue
      const two = await here.ask(`${path}/entries`, { body: { entries: [{ type: 'a' }, { type: 'b' }] }, key: 'k' })
      expect([two.status, two.value.code]).toEqual([422, 'KEY_REUSED'])
      const one = await here.ask(`${path}/entries`, { body: { entries: [{ type: 'a' }] }, key: 'k' })
      expect(one.value).toEqual({ first: 1, seq: 1, isDuplicate: true })
      break
    }
  })

  it('of a checkpoint is refused for another state or sequence', async () => {
    const here = await startServer()
    cleanups.push(() => here.close())
    await here.ask(`${notes}/entries`, { body: entries('a', 'b') })
    const put = (seq: number, body: unknown) =>
      here.ask(`${notes}/checkpoint?seq=${seq}`, { method: 'PUT', body, key: 'p1' })
    expect((await put(2, { total: 2 })).value.isDuplicate).toBe(false)
    const again = await put(2, { total: 2 })
    expect([again.value.isDuplicate, again.headers.get('idempotency-replayed')]).toEqual([true, 'true'])
    expect((await put(2, { total: 3 })).value.code).toBe('KEY_REUSED')
    expect((await put(1, { total: 2 })).value.code).toBe('KEY_REUSED')
  })

  it('is taken by every route that changes something', () => {
    const lookers = ['verify', 'drill', 'collect', 'query', 'planRollback', 'makeLink', 'beginSession', 'mcp']
    // Clients of build caches know no such key: the same bytes under the same key change nothing. Those of Kubernetes do not
    // either: an object is created once under its name, and a revision is replaced once. Nor those of tus: bytes are accepted
    // once at their offset, and an upload that was created twice is another one, which stays unused.
    const others = ['caches', 'kubernetes', 'uploads']
    const ours = routes.filter(({ tag }) => !others.includes(tag))
    const without = ours.filter(({ method, once }) => method !== 'GET' && once === undefined).map(({ id }) => id)
    expect(without.sort()).toEqual(lookers.sort())
  })
})

it('refuses a number that it could not give back as it came', async () => {
  const here = await startServer()
  cleanups.push(() => here.close())
  const send = (number: string) =>
    here.ask(`${notes}/entries`, {
      body: new TextEncoder().encode(
        `{"entries":[{"type":"a","data":{"n":${number},"s":"9007199254740993 \\" 1e999"}}]}`,
      ),
    })
  for (const number of ['12345678901234567890', '-9007199254740993', '1e400', '-1E+999']) {
    expect([number, (await send(number)).value.code]).toEqual([number, 'INVALID_ARGUMENT'])
  }
  for (const number of [
    '9007199254740991',
    '-1',
    '1e-400',
    '0.12345678901234567890',
    '1e300',
    '"12345678901234567890"',
  ]) {
    expect([number, (await send(number)).status]).toEqual([number, 200])
  }
})
