// Requests of any shape in the table of requests: of every verb, with any payload, options, topic, key and id that the columns
// accept. Each is carried out, or kept with its reason; none ends a worker or holds up another one.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Entry } from '../../src/engine/history/history.ts'
import { isReprise, open, timeline } from '../../src/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { signal, workflow } from '../../src/layers/workflow/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { hostOf } from '../support/host.ts'
import { storeUrls } from '../support/store-urls.ts'
import { until } from '../support/until.ts'
import { openSqliteFile } from '../within/database.ts'

interface Request {
  readonly verb: string
  readonly target: string
  readonly id: string
  readonly topic?: string | null
  readonly data?: string | Uint8Array | null
  readonly key?: string | null
  readonly options?: string | null
}

const go = signal<{ n: number }>('go')
const waits = workflow('waits', async (ctx, input: { n: number }) => {
  const { n } = await ctx.signal(go)
  return input.n + n
})
const log = timeline<number, { type: 'added'; n: number }>('log', { initial: () => 0, apply: (sum, e) => sum + e.n })

const account = aggregate('account', {
  initial: () => 0,
  evolve: { added: (sum, e: { n: number }) => sum + e.n },
  decide: { add: (_, c: { n: number }) => ({ type: 'added' as const, n: c.n }) },
})

const payloads = [
  'null',
  '0',
  '"x"',
  'true',
  '[]',
  '[null]',
  '{}',
  '{"n":"x"}',
  '{"__proto__":{"n":1}}',
  '1e999',
  `"${'z'.repeat(70_000)}"`,
]
const bytes = [new Uint8Array(), new Uint8Array(3), new Uint8Array(400).fill(7)]
const texts = [null, '', 'go', '__proto__', 'x'.repeat(600), 'a/b', 'ü\u0001']
const options = [
  null,
  'null',
  '5',
  '"x"',
  '[]',
  '{"queue":5}',
  '{"no":1}',
  '{"deadline":"never"}',
  '{"attributes":null}',
  '{"priority":"x"}',
]
const ids = ['1', '..', 'a/b', ' ', '\u0001', 'é', 'x'.repeat(512), 'workflow/waits/1', 'reprise/log/000000001']

const plain: readonly Request[] = [
  { verb: 'start', target: 'workflow/waits', id: 'started', data: '{"n":1}' },
  { verb: 'signal', target: 'workflow/waits', id: 'other', topic: 'go', data: '{"n":1}' },
  { verb: 'cancel', target: 'workflow/waits', id: 'other', data: '"reason"' },
  { verb: 'send', target: 'mail', id: 'log/one', topic: 'note', data: '{"n":1}' },
  { verb: 'send', target: 'mail', id: 'workflow/waits/other', topic: 'signal', data: '{"name":"go"}' },
  { verb: 'send', target: 'timeline/log', id: 'log/one', topic: 'append', data: '{"type":"added","n":1}' },
  {
    verb: 'send',
    target: 'events/account',
    id: 'events/account/ann',
    topic: 'command',
    data: '{"command":"add","input":{"n":1}}',
  },
]

/** Each verb with one column of another shape at a time. */
function* malformed(): Generator<Request> {
  let n = 0
  for (const request of plain) {
    const own = () => (request.verb === 'start' ? { id: `started-${n++}` } : {})
    for (const data of [...payloads, ...bytes, null]) yield { ...request, ...own(), data }
    for (const topic of texts) yield { ...request, ...own(), topic }
    for (const key of texts) yield { ...request, ...own(), key }
    for (const each of options) yield { ...request, ...own(), options: each }
    for (const id of ids) yield { ...request, id }
    for (const verb of ['start', 'signal', 'cancel', 'send'])
      if (verb !== request.verb) yield { ...request, ...own(), verb }
  }
}

type Insert = (request: Request) => Promise<unknown>

async function inserter(url: string): Promise<{ insert: Insert; close: () => unknown }> {
  if (url.startsWith('sqlite:')) {
    const db = openSqliteFile(url.slice('sqlite:'.length))
    const sql = 'INSERT INTO reprise_request (verb, target, id, topic, data, key, options) VALUES (?, ?, ?, ?, ?, ?, ?)'
    const insert: Insert = async ({ verb, target, id, topic, data, key, options: given }) =>
      db.prepare(sql).run(verb, target, id, topic ?? null, data ?? null, key ?? null, given ?? null)
    return { insert, close: () => db.close() }
  }
  const plain = new URL(url)
  const schema = plain.searchParams.get('schema')!
  plain.searchParams.delete('schema')
  const client = new pg.Client(plain.href)
  await client.connect()
  const sql = `SELECT "${schema}".enlist('default', $1, $2, $3, $4, $5::jsonb, $6, $7, $8::jsonb, NULL)`
  const insert: Insert = async ({ verb, target, id, topic, data, key, options: given }) => {
    const [json, raw] = typeof data === 'string' ? [data, null] : [null, data ? Buffer.from(data) : null]
    await client.query(sql, [verb, target, id, topic ?? null, json, raw, key ?? null, given ?? null])
  }
  return { insert, close: () => client.end() }
}

const uncaught: unknown[] = []
const hear = (error: unknown) => void uncaught.push(error)
beforeAll(() => void process.on('uncaughtException', hear).on('unhandledRejection', hear))
afterAll(() => void process.off('uncaughtException', hear).off('unhandledRejection', hear))

describe.each(Object.keys(storeUrls))('malformed requests (%s)', (kind) => {
  it('are kept with their reason, and a sound one behind them is carried out', { timeout: 60_000 }, async () => {
    const { url, remove } = storeUrls[kind]!()
    const rp = await open(url, { housekeeping: false })
    try {
      const wrong: unknown[] = []
      rp.events.on('problem', ({ error }) => !isReprise(error) && wrong.push(error))
      await (await rp.open(log, 'one')).close()
      const { insert, close } = await inserter(url)
      let written = 0
      for (const request of malformed()) {
        // The database refuses some in the transaction that writes them.
        await insert(request).then(
          () => (written += 1),
          (error) =>
            expect(String((error as Error).message)).toMatch(
              /constraint|invalid|characters|unsupported|malformed|range|must be a JSON object|has no option/i,
            ),
        )
      }
      await insert({ verb: 'start', target: 'workflow/waits', id: 'sound', data: '{"n":1}' })
      await insert({ verb: 'signal', target: 'workflow/waits', id: 'sound', topic: 'go', data: '{"n":41}' })
      await insert({ ...plain[5]!, data: '{"type":"added","n":41}', key: 'sound' })
      await insert({ ...plain[6]!, data: '{"command":"add","input":{"n":41}}', key: 'sound' })
      await close()
      expect(written).toBeGreaterThan(200)
      rp.work([waits, log, account])
      const { requests } = hostOf(rp).kernel.store
      await until(async () => (await requests!.list({ hasProblem: false, limit: 1 })).length === 0)
      expect(await (await rp.run(waits, { n: 1 }, { id: 'sound' })).result()).toBe(42)
      for (const id of ['log/one', 'events/account/ann']) {
        await until(async () => (await rp.head(id))?.mail === 0)
        const entries: Entry[] = []
        for await (const entry of entriesAfter(rp, (await rp.head(id))!, 0)) entries.push(entry)
        expect(entries.filter(({ key }) => key?.endsWith('sound'))).toHaveLength(1)
      }
      const kept = await requests!.list({ hasProblem: true, limit: 1000 })
      expect(kept.length).toBeGreaterThan(50)
      expect(kept.filter(({ problem }) => !/[A-Z_]{4,}/.test(problem!))).toEqual([])
      expect(wrong).toEqual([])
      expect(uncaught.splice(0)).toEqual([])
    } finally {
      await rp.close()
      await remove()
    }
  })
})
