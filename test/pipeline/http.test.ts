// HTTP source and sink: the responses to a sender, the requests to a receiver, and failures of either.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import {
  collectSink,
  httpSink,
  httpSource,
  pipeline,
  tableSink,
  timelineSink,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { until } from '../support/fixture.ts'

let rp: Reprise
beforeEach(async () => {
  rp = await open('memory:')
})
afterEach(async () => await rp.close())

const posting = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  new Request('http://localhost/orders', { method: 'POST', body, headers })

describe('posts as a source', () => {
  it('are durable when they are answered, and read once though they are sent twice', async () => {
    const orders = httpSource<{ n: number }>('orders')
    const take = orders.handler(rp)
    const first = await take(posting('{"n":1}', { 'idempotency-key': 'a' }))
    expect([first.status, await first.json()]).toEqual([202, { isDuplicate: false, seq: 1 }])
    const again = await take(posting('{"n":1}', { 'idempotency-key': 'a' }))
    expect([again.status, await again.json()]).toEqual([200, { isDuplicate: true }])
    const lines = await take(posting('{"n":2}\n{"n":3}\n\n', { 'content-type': 'application/x-ndjson; charset=utf-8' }))
    expect(lines.status).toBe(202)
    const out = collectSink<{ n: number }>()
    const read = pipeline('read', (p) => {
      p.from('orders', orders).to('out', out)
    })
    const run = await rp.run(read, { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 3)
    await run.stop()
    expect(out.values).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  })

  it('that cannot be taken are refused, and leave nothing', async () => {
    const take = httpSource('orders', { bytesMax: 20 }).handler(rp)
    const statusOf = async (request: Request) => (await take(request)).status
    expect(await statusOf(new Request('http://localhost/'))).toBe(405)
    expect(await statusOf(posting('{"n":'))).toBe(400)
    expect(await statusOf(posting(''))).toBe(400)
    expect(await statusOf(posting('1\nx\n', { 'content-type': 'application/x-ndjson' }))).toBe(400)
    expect(await statusOf(posting('\n', { 'content-type': 'application/x-ndjson' }))).toBe(400)
    expect(await statusOf(posting(JSON.stringify('x'.repeat(50))))).toBe(413)
    expect(await statusOf(posting('1', { 'idempotency-key': 'k'.repeat(600) }))).toBe(400)
    expect(await statusOf(posting(JSON.stringify('x'.repeat(18))))).toBe(202)
    expect((await rp.list({ prefix: 'posts/' })).map(({ seq }) => seq)).toEqual([1])
  })

  it('get a retry answer while the store cannot accept them', async () => {
    let isAway = false
    const store = openMemory({ namespace: 'n', hash: sha256, world: createWorld() })
    const away = createEngine({
      store: faultyStore(store, (method) => (isAway && method === 'commit' ? 'fail-before' : 'ok')),
    })
    const take = httpSource('orders').handler(away)
    expect((await take(posting('1', { 'idempotency-key': 'a' }))).status).toBe(202)
    isAway = true
    const refused = await httpSource('orders', { wait: 20 }).handler(away)(posting('2', { 'idempotency-key': 'b' }))
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    isAway = false
    expect([200, 202]).toContain((await take(posting('2', { 'idempotency-key': 'b' }))).status)
    expect((await take(posting('2', { 'idempotency-key': 'b' }))).status).toBe(200)
    await away.close()
    expect((await take(posting('3'))).status).toBe(500)
  })
})

/** A receiver with scripted answers. */
async function receiver(answerOf: (body: string, count: number) => number) {
  const got: { readonly key: string; readonly body: string }[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    got.push({ key: String(request.headers['idempotency-key']), body })
    response.statusCode = answerOf(body, got.length)
    if (response.statusCode === 429) response.setHeader('retry-after', '0.01')
    response.end('whatever')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    got,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe('posts as a sink', () => {
  it('are sent again with the same key when the receiver fails or is busy', async () => {
    const there = await receiver((_, count) => (count === 1 ? 500 : count === 2 ? 429 : 200))
    try {
      const sink = httpSink<number>({ url: there.url, concurrency: 1, retry: { backoff: 1 } })
      const out = pipeline('out', (p) => {
        p.from('in', valueSource([7, 8])).to('out', sink)
      })
      expect((await rp.run(out).result()).status).toBe('completed')
      expect(there.got.map(({ body }) => body)).toEqual(['7', '7', '7', '8'])
      expect(new Set(there.got.map(({ key }) => key)).size).toBe(2)
    } finally {
      await there.close()
    }
  })

  it('that are refused end the run at once', async () => {
    const there = await receiver(() => 422)
    try {
      const out = pipeline('out', (p) => {
        p.from('in', valueSource([7])).to('out', httpSink<number>({ url: there.url }))
      })
      await expect(rp.run(out).result()).rejects.toThrow('answered 422')
      expect(there.got).toHaveLength(1)
    } finally {
      await there.close()
    }
  })
})

describe('results in the store', () => {
  it('go into a table and timelines, once over restarts, and beside other writers', async () => {
    const totals = table<number>('totals')
    const journal = timeline('journal', {
      initial: () => [] as number[],
      apply: (all: readonly number[], { n }: { type: 'noted'; n: number }) => [...all, n],
    })
    const define = (last: number) =>
      pipeline('kept', (p) => {
        const numbers = p.from('numbers', valueSource(Array.from({ length: last }, (_, n) => n)))
        numbers.to(
          'totals',
          tableSink({
            table: totals,
            write: (tx, n: number) => void tx.set(String(n % 3), (tx.get(String(n % 3)) ?? 0) + n),
          }),
        )
        numbers.to(
          'journal',
          timelineSink({
            timeline: journal,
            id: (n: number) => `by-${n % 2}`,
            entry: (n) => ({ type: 'noted' as const, n }),
          }),
        )
      })
    const other = await rp.open(journal, 'by-0', { shared: true })
    await other.append({ type: 'noted', n: -1 })
    await rp.run(define(2000), { id: 'a' }).result()
    expect((await rp.run(define(2000), { id: 'a' }).result()).status).toBe('completed')
    const rows = await rp.open(totals)
    const sumOf = (rest: number) =>
      Array.from({ length: 2000 }, (_, n) => (n % 3 === rest ? n : 0)).reduce((sum, n) => sum + n, 0)
    expect(Object.fromEntries(rows.entries())).toEqual({ 0: sumOf(0), 1: sumOf(1), 2: sumOf(2) })
    const evens = Array.from({ length: 1000 }, (_, n) => 2 * n)
    expect(await other.refresh()).toEqual([-1, ...evens])
  })
})
