// Differences between two states, over HTTP, as a tool of language models and on the command line: for each kind of value that
// a state can hold, a changed one is reported as changed, and its two sides read differently.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { keyed, open, timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { cli, workFolder } from '../cli/support.ts'
import { until } from '../support/until.ts'
import { secret, startServer, type TestServer } from './support.ts'

class Money {
  readonly #cents: number
  constructor(cents: number) {
    this.#cents = cents
  }
  get cents(): number {
    return this.#cents
  }
}
const money = {
  name: 'money',
  type: Money,
  encode: (value: Money) => value.cents,
  decode: (data: unknown) => new Money(data as number),
}

type Pairs = Readonly<Record<string, readonly [before: unknown, after: unknown]>>
const plainPairs: Pairs = {
  date: [new Date(1), new Date(2)],
  invalidDate: [new Date(Number.NaN), null],
  dateAsText: [new Date(1), new Date(1).toISOString()],
  bigint: [1n, 2n],
  bigintAsText: [1n, '1'],
  zero: [0, -0],
  infinite: [Number.POSITIVE_INFINITY, 'Infinity'],
  nothing: [null, undefined],
  bytes: [new Uint8Array(100), Uint8Array.from({ length: 100 }, (_, i) => (i === 99 ? 1 : 0))],
  buffer: [new Uint8Array([1]).buffer, new Uint8Array([2]).buffer],
  floats: [new Float32Array([1]), new Float32Array([2])],
  regExp: [/a/, /a/g],
  error: [new Error('a'), new Error('b')],
  errorClass: [new Error('a'), new TypeError('a')],
  mapKey: [new Map([[1, 'a']]), new Map([['1', 'a']])],
  mapOrSet: [new Map(), new Set()],
  members: [new Set([{ a: 1 }]), new Set([{ a: 2 }])],
  holes: [[1], Object.assign([1], { length: 3 })],
}
const pairs: Pairs = { ...plainPairs, instance: [new Money(1), new Money(2)] }

const board = timeline<{ values: Record<string, unknown> }, { type: 'set'; value: unknown; name: string }>('board', {
  initial: () => ({ values: {} }),
  apply: (state, entry) => ({ values: { ...state.values, [entry.name]: entry.value } }),
})
const rows = timeline<{ rows: ReturnType<typeof keyed<number>> }, { type: 'filled' } | { type: 'set'; key: string }>(
  'rows',
  {
    initial: () => ({ rows: keyed<number>() }),
    apply(state, entry) {
      if (entry.type === 'set') state.rows.set(entry.key, -1)
      else for (let i = 0; i < 2000; i++) state.rows.set(`row-${String(i).padStart(4, '0')}`, i)
      return state
    },
  },
)

const folder = workFolder()
let here: TestServer
let tools: Client
beforeAll(async () => {
  const rp = await open('memory:', { housekeeping: false, classes: [money] })
  here = await startServer({ rp, definitions: [board, rows], mcp: 'read' })
  for (const [name, values] of Object.entries(pairs)) {
    const line = await rp.open(board, name)
    for (const value of values) await line.append({ type: 'set', name, value })
    await line.close()
  }
  const line = await rp.open(rows, 'many')
  await line.append({ type: 'filled' })
  await line.append({ type: 'set', key: 'row-1400' })
  await line.close()
  tools = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL('http://127.0.0.1:4400/mcp'), {
    requestInit: { headers: { authorization: `Bearer ${secret('owner')}` } },
    fetch: (url, init) => here.server(new Request(url, init)),
  })
  await tools.connect(transport as unknown as Parameters<Client['connect']>[0])
})
afterAll(async () => {
  await tools?.close()
  await here?.close()
  folder.remove()
})

interface Change {
  readonly path: string
  readonly kind: string
  readonly before?: unknown
  readonly after?: unknown
}

function expectTold(changes: readonly Change[], path: string): void {
  expect(changes.length, path).toBeGreaterThan(0)
  for (const change of changes) {
    expect(change.path.startsWith(path), change.path).toBe(true)
    expect(JSON.stringify(change.before), path).not.toBe(JSON.stringify(change.after))
  }
}

it.each(Object.keys(pairs))('a change of %s is told over HTTP and to language models', async (name) => {
  const { status, value } = await here.ask(`/v1/timelines/board%2F${name}/diff?from=1`)
  expect([status, value.isComplete]).toEqual([200, true])
  expectTold(value.changes, `values.${name}`)
  const { content } = await tools.callTool({ name: 'diff_states', arguments: { timeline: `board/${name}`, from: 1 } })
  expect(JSON.parse((content as { text: string }[])[0]!.text).changes).toEqual(value.changes)
})

it.each(['bytes', 'buffer', 'floats', 'error', 'regExp', 'members', 'instance', 'date'])(
  'states that differ in %s read differently in time travel',
  async (name) => {
    const [before, after] = [1, 2].map((seq) => here.ask(`/v1/timelines/board%2F${name}/state?seq=${seq}`))
    expect((await before)!.value.state).not.toEqual((await after)!.value.state)
  },
)

it('every row of a keyed state is compared, and more changes than fit are announced', async () => {
  const { value } = await here.ask('/v1/timelines/rows%2Fmany/diff?from=1')
  expect(value).toMatchObject({
    changes: [{ path: 'rows.row-1400', kind: 'changed', before: 1400, after: -1 }],
    isComplete: true,
  })
  const all = (await here.ask('/v1/timelines/rows%2Fmany/diff?from=0')).value
  expect([all.changes.length, all.isComplete]).toEqual([1000, false])
})

const parcel = workflow('parcel', async (ctx, order: { cents: number }) => {
  let paid = 0
  ctx.onQuery('paid', () => paid)
  ctx.onQuery('paid in', (rate: number) => paid * rate)
  await ctx.step('reserve', () => undefined)
  paid = (await ctx.step('charge', () => ({ cents: order.cents }))).cents
  const { by } = await ctx.signal<{ by: string }>('approve')
  await ctx.step('a/b', () => by)
  await ctx.parallel([(own) => own.step('c', () => 1), (own) => own.step('c', () => 2)])
  await ctx.step('broken', () => Promise.reject(new Error('no courier')), { retry: { attempts: 1 } }).catch(() => 0)
  return { paid, by }
})

it('time travel of a workflow shows results, messages, waits and queries, and nothing that only a replay needs', async () => {
  const url = `sqlite:${join(folder.path, 'runs.db')}`
  const there = await startServer({ url, definitions: [parcel] })
  const plain = await startServer({ url })
  try {
    const { rp, ask } = there
    rp.work([parcel])
    const run = await rp.run(parcel, { cents: 300 }, { id: 'p-1' })
    await until(async () => (await run.waitsFor()).some(({ kind }) => kind === 'signal'))
    await run.signal('approve', { by: 'bob' })
    await run.result()
    const line = '/v1/timelines/workflow%2Fparcel%2Fp-1'
    const { entries } = (await ask(`${line}/history?limit=100`)).value
    const seqOf = (is: (entry: { type: string; data: { id?: string } }) => boolean) =>
      (entries as { seq: number; type: string; data: { id?: string } }[]).find(is)!.seq
    const charged = seqOf(({ type, data }) => type === 'done' && data.id === 'charge')
    const stateAt = async (seq: number) => (await ask(`${line}/state?seq=${seq}`)).value.state
    const { startedAt, ...first } = await stateAt(1)
    expect(Number.isNaN(Date.parse(startedAt))).toBe(false)
    expect(first).toEqual({ input: { cents: 300 }, steps: {}, queries: { paid: 0 } })
    expect(await stateAt(0)).toEqual({})
    expect(await stateAt(charged)).toEqual({
      ...{ startedAt, input: { cents: 300 } },
      steps: { reserve: null, charge: { cents: 300 } },
      waitsFor: ['signal approve'],
      queries: { paid: 300 },
    })
    const change = (await ask(`${line}/diff?from=${charged - 1}&to=${charged}`)).value.changes as Change[]
    expect(change.map(({ path, kind }) => `${kind} ${path}`).toSorted()).toEqual([
      'added steps.charge',
      'added waitsFor',
      'changed queries.paid',
    ])
    const last = (await ask(`${line}/state`)).value.state
    expect(Object.keys(last)).toEqual(['input', 'startedAt', 'steps', 'failed', 'signals', 'queries', 'end'])
    expect(last).toMatchObject({
      steps: { 'a/b': 'bob', '~all.0/c': 1, '~all.1/c': 2 },
      failed: { broken: 'no courier' },
      signals: [{ name: 'approve', value: { by: 'bob' } }],
      end: { kind: 'completed', result: { paid: 300, by: 'bob' } },
    })
    // Without the code: from history alone, so without queries.
    const { queries, ...known } = last
    expect([queries, (await plain.ask(`${line}/state`)).value.state]).toEqual([{ paid: 300 }, known])
    const { stdout } = await cli(['at', `workflow/parcel/p-1`, '--url', url, '--json'], { cwd: folder.path })
    expect(JSON.parse(stdout).state).toEqual(known)
  } finally {
    await plain.close()
    await there.close()
  }
})

it('the command line reports each of them', async () => {
  const url = `sqlite:${join(folder.path, 'store.db')}`
  const rp = await open(url)
  for (const [name, values] of Object.entries(plainPairs)) {
    const line = await rp.open(board, name)
    for (const value of values) await line.append({ type: 'set', name, value })
    await line.close()
  }
  const line = await rp.open(rows, 'many')
  await line.append({ type: 'filled' })
  await line.append({ type: 'set', key: 'row-1400' })
  await rp.close()
  writeFileSync(
    join(folder.path, 'board.mjs'),
    `import { keyed, timeline } from 'reprise'
export const board = timeline('board', {
  initial: () => ({ values: {} }),
  apply: (state, entry) => ({ values: { ...state.values, [entry.name]: entry.value } }),
})
export const rows = timeline('rows', {
  initial: () => ({ rows: keyed() }),
  apply(state, entry) {
    if (entry.type === 'set') state.rows.set(entry.key, -1)
    else for (let i = 0; i < 2000; i++) state.rows.set('row-' + String(i).padStart(4, '0'), i)
    return state
  },
})
`,
  )
  const diff = async (id: string, from: number, ...more: string[]) =>
    await cli(['diff', `${id}@${from}`, `${id}@2`, '--url', url, '--module', 'board.mjs', ...more], {
      cwd: folder.path,
    })
  for (const name of ['date', 'bigint', 'bytes', 'nothing', 'zero']) {
    const { code, stdout } = await diff(`board/${name}`, 1, '--json')
    expect(code).toBe(0)
    expectTold(JSON.parse(stdout).changes, `values.${name}`)
  }
  expect((await diff('rows/many', 1)).stdout).toContain('~ rows.row-1400: 1400 → -1')
  expect((await diff('rows/many', 0)).stderr).toContain('only the first 1,000 differences are shown')
})
