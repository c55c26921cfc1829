// A request read without the adapter has the address that the URL standard produces.

import type { IncomingMessage } from 'node:http'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isSimple } from './node.ts'
import { queryOf } from './request.ts'
import type { Route } from './route.ts'
import { addressOf } from './server-request.ts'

const asked = (url: string, more: Record<string, string> = {}, method = 'GET') =>
  ({ method, url, headers: { host: '127.0.0.1:4400', ...more } }) as unknown as IncomingMessage

const piece = fc.constantFrom(
  '/',
  '.',
  '..',
  '%2e',
  '%2E',
  '%2F',
  '?',
  '#',
  "'",
  '"',
  '\\',
  'a',
  'é',
  ' ',
  '&',
  '=',
  '+',
  '|',
  '~',
)
const target = fc.array(piece, { maxLength: 12 }).map((pieces) => `/${pieces.join('')}`)

test('an address that is taken as it came is one that the URL standard would not change', () => {
  fc.assert(
    fc.property(target, (url) => {
      if (!isSimple(asked(url))) return
      const whole = `http://127.0.0.1:4400${url}`
      const { pathname, search } = new URL(whole)
      expect(addressOf(whole)).toEqual({ path: pathname, search: search.slice(1) })
    }),
    { numRuns: 1000 },
  )
})

test('requests with a body, another method or an unusual host are left to the adapter', () => {
  expect(isSimple(asked('/v1/runs?limit=1'))).toBe(true)
  expect(isSimple(asked('/v1/timelines/a%2Fb', {}, 'HEAD'))).toBe(true)
  expect(isSimple(asked('/v1/runs', {}, 'POST'))).toBe(false)
  expect(isSimple(asked('/v1/runs', { 'content-length': '3' }))).toBe(false)
  expect(isSimple(asked('/v1/runs', { 'transfer-encoding': 'chunked' }))).toBe(false)
  expect(isSimple(asked('/v1/runs', { host: 'a b' }))).toBe(false)
  expect(isSimple(asked('http://elsewhere/v1/runs'))).toBe(false)
})

test('a query parsed by our own code equals that of URLSearchParams', () => {
  const route = {
    query: { a: { type: 'string', isList: true }, b: { type: 'string', isList: true } },
  } as unknown as Route
  const part = fc.constantFrom('a', 'b', 'a=', 'b=1', 'a=x=y', 'a=%20', 'b=+', '', 'a=é', 'b=-._~,')
  fc.assert(
    fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
      const search = parts.join('&')
      const found = queryOf(route, search)
      for (const name of ['a', 'b']) expect(found.list(name)).toEqual(new URLSearchParams(search).getAll(name))
    }),
  )
})
