// The handlers of examples/serverless, each invocation in a process of its own: runs that were started outside are executed, and
// requests without the secret are refused.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { open, type Reprise } from 'reprise'
import { cloudflareHandler, lambdaHandler, routeHandler, signWake, verifyWake } from 'reprise/serverless'
import { workflow } from 'reprise/workflow'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { order } from '../../examples/serverless/orders.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { Invocation } from './invocation.ts'

const secret = 'a secret for tests only'

describe.each(Object.keys(storeUrls))('handlers (%s)', (kind) => {
  let store: StoreUrl
  let rp: Reprise
  let ledger = ''
  beforeEach(async () => {
    store = storeUrls[kind]!()
    ledger = join(temporaryFolder('serverless'), 'ledger')
    rp = await open(store.url, { housekeeping: false })
  })
  afterEach(async () => {
    await rp.close()
    await store.remove()
  })

  it.each(['lambda', 'route', 'tick', 'cloudflare', 'scheduled'])('%s executes due work', async (platform) => {
    const run = await rp.run(order, 'book', { id: 'one', here: false })
    const invocation = new Invocation(platform, { url: store.url, ledger, ms: 60_000 })
    const { report } = await invocation.ended
    if (platform !== 'scheduled') expect(report).toMatchObject({ handedOver: [], nextDueAt: null })
    expect(await run.result()).toEqual(['charge book', 'ship book'])
    expect(readFileSync(ledger, 'utf8').match(/\S+ \S+$/gm)).toEqual(['charge book', 'ship book'])
  })
})

describe('options of handlers', () => {
  const right = { open: () => open('memory:'), work: [] }
  const refused = { code: 'INVALID_ARGUMENT' }
  const wrong: readonly unknown[] = [
    { ...right, budgett: '5s' },
    { ...right, open: 'memory:' },
    { ...right, next: 'https://example.com' },
    { open: right.open },
    { work: [] },
    { ...right, budget: 'soon' },
    { ...right, budget: 100 },
    { ...right, idle: -1 },
    { ...right, work: [{}] },
    { ...right, work: [null] },
    undefined,
  ]

  it.each(wrong.map((options) => [options]))('%o are refused', async (options) => {
    expect(() => lambdaHandler(options as never)).toThrow(expect.objectContaining(refused))
    expect(() => routeHandler(options as never)).toThrow(expect.objectContaining(refused))
    const { fetch, scheduled } = cloudflareHandler(() => options as never)
    await expect(fetch(new Request('https://example.com'), {})).rejects.toMatchObject(refused)
    await expect(scheduled(null, {})).rejects.toMatchObject(refused)
  })

  it('a store that is not opened within the budget is an error', async () => {
    const opening = new Promise<Reprise>(() => undefined)
    const handler = lambdaHandler({ open: () => opening, work: [], budget: 300 })
    const context = { getRemainingTimeInMillis: () => 60_000 }
    await expect(handler({}, context)).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  it('a missing function or context is refused', async () => {
    expect(() => cloudflareHandler(right as never)).toThrow(expect.objectContaining(refused))
    await expect(lambdaHandler(right)({}, undefined as never)).rejects.toMatchObject(refused)
    const context = { getRemainingTimeInMillis: () => Number.NaN }
    await expect(lambdaHandler(right)({}, context)).rejects.toMatchObject(refused)
  })

  it.each([
    { url: 'nowhere', secret },
    { url: 'ftp://example.com/work', secret },
    { url: 'https://example.com/work', secret: undefined },
    { url: 'https://example.com/work', secret, retries: 3 },
  ])('a wrong `next` is refused by the first invocation, not by the one that needs it: %o', async (next) => {
    const handler = lambdaHandler({ ...right, next: next as never })
    await expect(handler({}, { getRemainingTimeInMillis: () => 5000 })).rejects.toMatchObject(refused)
  })

  it('an `open` that returns no engine is refused', async () => {
    const handler = lambdaHandler({ open: async () => undefined as never, work: [] })
    await expect(handler({}, { getRemainingTimeInMillis: () => 5000 })).rejects.toMatchObject(refused)
  })
})

describe('a route', () => {
  const idle = workflow('idle', async () => undefined)
  const urlOf = () => new URL('https://example.com/api/work')
  const route = (rp: Reprise) => routeHandler({ open: async () => rp, work: [idle], idle: 10, secret })

  it('refuses a request that is unsigned, wrong, old or repeated', async () => {
    await using rp = await open('memory:')
    const handler = route(rp)
    const post = async (signature: string | null, body = '{}') =>
      (
        await handler(
          new Request(urlOf(), { method: 'POST', body, headers: signature ? { 'reprise-signature': signature } : {} }),
        )
      ).status
    const good = await signWake(secret, '{}')
    expect(await post(null)).toBe(401)
    expect(await post(await signWake('another secret of some length', '{}'))).toBe(401)
    expect(await post(good, '{"other":1}')).toBe(401)
    expect(await post(await signWake(secret, '{}', Date.now() - 3_600_000))).toBe(401)
    expect(await post(await signWake(secret, '{}', Date.now() + 3_600_000))).toBe(401)
    expect(await post(good)).toBe(200)
    expect(await post(good)).toBe(401)
    const bearer = (words: string) => handler(new Request(urlOf(), { headers: { authorization: words } }))
    expect((await bearer(`Bearer ${secret}`)).status).toBe(200)
    expect((await bearer('Bearer something else')).status).toBe(401)
  })

  it('refuses a secret that is missing or short', async () => {
    const make = (given: unknown) =>
      routeHandler({ open: () => open('memory:'), work: [idle], secret: given as string })
    for (const given of [undefined, '', 'short']) {
      const answer = make(given)(new Request(urlOf(), { headers: { authorization: `Bearer ${given}` } }))
      await expect(answer).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
  })

  it('names the reason of a refusal', async () => {
    await expect(verifyWake(secret, 't=1,n=2', '')).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
    const options = { seen: [] as never }
    await expect(verifyWake(secret, await signWake(secret, ''), '', options)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })

  it('signs and verifies only text, at a time that is a number', async () => {
    const calls: readonly (() => Promise<unknown>)[] = [
      () => signWake(secret, undefined as never),
      () => signWake(secret, { a: 1 } as never),
      () => signWake(secret, '{}', 'now' as never),
      () => verifyWake(secret, null, undefined as never),
    ]
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(verifyWake(secret, await signWake(secret, ''), '')).resolves.toBe(undefined)
  })

  it('refuses the request of a framework with (req, res)', async () => {
    await using rp = await open('memory:')
    const ofNode = { headers: { authorization: `Bearer ${secret}` }, url: '/api/work' }
    await expect(route(rp)(ofNode as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('opens another engine after one that cannot work again', async () => {
    const engines: Reprise[] = []
    const handler = routeHandler({
      open: async () => {
        engines.push(await open('memory:'))
        return engines.at(-1)!
      },
      work: [idle],
      idle: 10,
      secret: null,
    })
    expect((await handler(new Request(urlOf()))).status).toBe(200)
    await engines[0]!.close()
    await expect(handler(new Request(urlOf()))).rejects.toMatchObject({ code: 'CLOSED' })
    expect((await handler(new Request(urlOf()))).status).toBe(200)
    expect(engines).toHaveLength(2)
    await engines[1]!.close()
  })

  it('serves overlapping requests one after another, and opens the engine again after a failure', async () => {
    await using rp = await open('memory:')
    let attempts = 0
    const handler = routeHandler({
      open: async () => {
        attempts += 1
        if (attempts === 1) throw new Error('not now')
        return rp
      },
      work: [idle],
      idle: 10,
      secret: null,
    })
    await expect(handler(new Request(urlOf()))).rejects.toThrow('not now')
    const answers = await Promise.all([1, 2, 3].map(() => handler(new Request(urlOf()))))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(attempts).toBe(2)
  })
})
