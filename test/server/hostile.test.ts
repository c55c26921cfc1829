// Requests generated from the server's own document, and worse ones: none of them causes a fault of the server (500), and the
// store is whole afterwards. REPRISE_REQUESTS=10000 sends more of them; fast-check prints the seed of a failure.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import type { Route } from '../../src/server/route.ts'
import { routes } from '../../src/server/routes/index.ts'
import type { Schema } from '../../src/server/schema.ts'
import { requestOf, startServer } from './support.ts'

const counter = timeline('ann', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: { type: string; by?: unknown }) => ({ total: state.total + Number(entry.by ?? 0) }),
})
const flow = workflow('ann-flow', async (ctx) => {
  ctx.onQuery('sum', (n: number) => n)
  return await ctx.signal('go')
})
const few = job('ann', {
  source: ['a', 'bad'],
  key: (item: string) => item,
  retry: { attempts: 1 },
  each: async (item) => {
    if (item === 'bad') throw new Error('no')
  },
})

const strange = fc.constantFrom(
  ...['', '/', '//', '..', '%', '%2F', '\u0000', '\u0007', '\ud800', '💥', 'a'.repeat(600), '__proto__', 'constructor'],
  ...['-1', '1e9', 'NaN', 'null', 'true', "'; DROP TABLE x; --", '<script>', '$x', '~1', 'ann/visits~1', 'reprise/log'],
)
const ids = fc.oneof(
  fc.constantFrom('ann/visits', 'ann/other', 'workflow/ann-flow/one', 'job/ann', 'x/y', 'reprise/store'),
  strange,
  fc.string({ unit: 'binary', maxLength: 20 }),
)

function anyValue(schema: Schema): fc.Arbitrary<unknown> {
  const right = rightValue(schema)
  return fc.oneof({ weight: 6, arbitrary: right }, { weight: 1, arbitrary: fc.oneof(strange, fc.jsonValue()) })
}

function rightValue(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'integer':
      return fc.oneof(
        fc.integer({ min: 0, max: 5 }),
        fc.constantFrom(schema.minimum ?? 0, schema.maximum ?? 2 ** 53 - 1, 2 ** 53),
      )
    case 'boolean':
      return fc.boolean()
    case 'string':
      return fc.oneof(fc.constantFrom('go', 'sum', 'a', 'bad', 'visits'), fc.string({ maxLength: 12 }), strange)
    case 'array':
      return fc.array(anyValue(schema.items ?? {}), { maxLength: 4 })
    case 'object':
      return objectOf(schema)
    default:
      return fc.jsonValue()
  }
}

function objectOf(schema: Schema): fc.Arbitrary<Record<string, unknown>> {
  const { properties, required = [] } = schema
  if (!properties) return fc.dictionary(fc.oneof(strange, fc.string({ maxLength: 5 })), fc.jsonValue(), { maxKeys: 3 })
  const fields = Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, anyValue(each)]))
  return fc.record(fields, { requiredKeys: [...required] })
}

const requests = fc.constantFrom(...routes.filter(({ isStream }) => !isStream)).chain((route) => {
  const query = Object.entries(route.query ?? {}).map(([name, schema]) =>
    fc.option(anyValue(schema), { nil: undefined }).map((value) => (value === undefined ? [] : [name, value])),
  )
  return fc.record({
    route: fc.constant(route),
    names: fc.array(ids, { minLength: 2, maxLength: 2 }),
    query: fc.tuple(...query),
    body: route.body ? anyValue(route.body) : fc.jsonValue(),
    as: fc.constantFrom('owner', 'operator', 'reader', 'ann', 'bob'),
    key: fc.option(fc.oneof(fc.constantFrom('k1', 'k2'), strange), { nil: undefined }),
  })
})

function pathOf(route: Route, names: readonly string[], query: readonly unknown[][]): string {
  let n = 0
  const path = route.path.replaceAll(/\{\w+\}/g, () => encoded(names[n++ % names.length]!))
  const search = query.filter((pair) => pair.length > 0).map(([name, value]) => `${name}=${encoded(textOf(value))}`)
  return `${path}${search.length > 0 ? `?${search.join('&')}` : ''}`
}

/** An object may have a `toString` of its own, which is not a function. */
function textOf(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** As it is where it cannot be encoded. */
function encoded(text: string): string {
  try {
    return encodeURIComponent(text)
  } catch {
    return text
  }
}

it('no request is a fault of the server, and the store is whole after all of them', async () => {
  const here = await startServer({ definitions: [counter, flow, few], limits: { requestMs: 5000 } })
  const handle = await here.rp.open(counter, 'visits')
  for (const by of [1, 2, 3]) await handle.append({ type: 'added', by })
  await handle.checkpoint()
  await handle.close()
  await here.rp.run(few).result()
  await here.rp.run(flow, { id: 'one' })
  const numRuns = Number(process.env.REPRISE_REQUESTS ?? 250)
  await fc.assert(
    fc.asyncProperty(requests, async ({ route, names, query, body, as, key }) => {
      const path = pathOf(route, names, query as unknown[][])
      const hasBody = route.method !== 'GET' && (route.body ?? route.takesBytes ?? route.takesStream) !== undefined
      let request: Request
      try {
        const headers = key === undefined ? {} : { 'idempotency-key': key }
        request = requestOf(path, { method: route.method, as, headers, ...(hasBody && { body: body ?? null }) })
      } catch {
        // Such a request cannot even be made.
        return
      }
      const response = await here.server(request)
      const text = await response.text()
      expect([route.method, path, JSON.stringify(body), response.status, text.slice(0, 300)]).not.toContain(500)
      if (response.status >= 400 && !route.refusal) {
        expect(response.headers.get('content-type')).toBe('application/problem+json')
      }
      // Long waits are requested by the client: an update without an answer, a lease of another holder.
      if (response.status > 500) expect(text).toMatch(/TIMEOUT|OWNED|CONTENDED|OVERLOADED|STORE_BUSY/)
    }),
    { numRuns, endOnFailure: true },
  )
  expect((await here.rp.verify()).faults).toEqual([])
  expect((await here.ask('/v1')).status).toBe(200)
  await here.close()
})
