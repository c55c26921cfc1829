// A server as the second level: a machine does not repeat the computation of another, and the rights of a token apply.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { memo } from '../../src/layers/memo/index.ts'
import { cleanups, machine, served, squaring } from './level-support.ts'

describe('a server as the second level', () => {
  it('a result of one machine is fetched once by another; the entry names its origin', async () => {
    const { at, asked } = await served()
    const calls: number[] = []
    const one = await machine()
    const here = await one.open(squaring(at('owner'), calls))
    expect(await here.recall([3])).toMatchObject({ from: 'computed', result: { square: 9 } })
    await here.close()
    const other = await machine()
    const there = await other.open(squaring(at('owner'), calls))
    expect(await there.explain(3)).toMatchObject({
      isHit: true,
      why: expect.stringContaining('not in this store, but in http'),
    })
    const first = await there.recall([3])
    expect(first).toMatchObject({
      from: 'remote',
      result: { square: 9 },
      provenance: { origin: { cache: expect.stringMatching(/^http:\/\/127/), scope: 'main' } },
    })
    const second = await there.recall([3])
    expect(second).toMatchObject({ from: 'store', provenance: { by: first.provenance.by, origin: { scope: 'main' } } })
    expect(calls).toEqual([3])
    expect(asked.filter((each) => each.startsWith('PUT'))).toHaveLength(1)
    expect([one.problems, other.problems]).toEqual([[], []])
    expect((await other.verify()).ok).toBe(true)
  })

  it('a token that may only read asks, and never tries to write', async () => {
    const { at, asked } = await served()
    const rp = await machine()
    const here = await rp.open(squaring(at('looks')))
    await here.call(2)
    await here.close()
    expect(asked).toEqual(['GET status', 'GET square'])
    expect(rp.problems).toEqual([])
  })

  it('a wrong token is reported once, and the work continues without it', async () => {
    const { at, asked } = await served()
    const rp = await machine()
    const here = await rp.open(squaring(at('nobody')))
    for (const n of [1, 2, 3]) expect(await here.recall([n])).toMatchObject({ from: 'computed' })
    await here.close()
    expect(rp.problems).toMatchObject([expect.stringContaining('the server does not know the token')])
    expect(rp.codes).toEqual(['UNAUTHENTICATED'])
    expect(asked).toEqual(['GET status'])
  })

  it('B9: main does not read the entries of a pull request; nor are they sent with a token of main', async () => {
    const { at } = await served()
    const make = async (token: string, scope: string | undefined, result: string) => {
      const rp = await machine()
      const run = () => result
      const definition = memo('built', { version: 1, remote: at(token), ...(scope && { scope }), run })
      const here = await rp.open(definition)
      const { from, result: got } = await here.recall([])
      await here.close()
      return { got, from, problems: rp.problems, codes: rp.codes }
    }
    expect(await make('pull', 'pull-7', 'evil')).toMatchObject({ from: 'computed', problems: [] })
    // The server would return it for the token of the pull request; main's own store does not accept it.
    expect(await make('pull', undefined, 'good')).toMatchObject({
      got: 'good',
      problems: [expect.stringContaining("set scope: 'pull-7'"), expect.stringContaining('writes to pull-7')],
      codes: ['FORBIDDEN', 'FORBIDDEN'],
    })
    // A scope's result with main's token goes nowhere, so main does not find it.
    expect(await make('owner', 'pull-8', 'evil')).toMatchObject({ from: 'computed' })
    expect(await make('owner', undefined, 'good')).toMatchObject({ got: 'good', from: 'computed' })
    expect(await make('pull', 'pull-7', 'other')).toMatchObject({ got: 'evil', from: 'remote' })
    expect(await make('pull', 'pull-9', 'other')).toMatchObject({ from: 'remote' })
  })

  it('a server that is gone costs the result nothing', async () => {
    const { at, stop } = await served()
    const remote = at('owner')
    await stop()
    const rp = await machine()
    const here = await rp.open(squaring(remote))
    for (const n of [1, 2, 3, 4]) expect(await here.recall([n])).toMatchObject({ from: 'computed' })
    await here.close()
    expect(rp.problems).toHaveLength(1)
    expect([rp.problems[0], rp.codes]).toEqual([expect.stringContaining('ECONNREFUSED'), ['STORE_UNREACHABLE']])
  })

  it.each([
    [401, 'UNAUTHENTICATED'],
    [403, 'FORBIDDEN'],
    [413, 'LIMIT_EXCEEDED'],
    [429, 'OVERLOADED'],
    [500, 'STORE_UNREACHABLE'],
    [507, 'STORE_FULL'],
  ])('an upload that it answers with %s is told with the code %s', async (status, code) => {
    const node = createServer((incoming, outgoing) => {
      incoming.resume()
      if (incoming.method === 'PUT') outgoing.writeHead(status).end()
      else if (incoming.url === '/cache/status') outgoing.end('{"scope":"main","mayWrite":true}')
      else outgoing.writeHead(404).end()
    })
    await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => node.close())
    const rp = await machine()
    const here = await rp.open(squaring({ url: `http://127.0.0.1:${(node.address() as AddressInfo).port}` }))
    expect((await here.recall([3])).from).toBe('computed')
    await here.close()
    expect(rp.codes).toEqual([code])
  })
})
