// Differences between two states, over HTTP, as a tool of language models and on the command line: for each kind of value that
// a state can hold, a changed one is reported as changed, and its two sides read differently.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { keyed, open, timeline } from '../../src/index.ts'
import { cli, workFolder } from '../cli/support.ts'
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

it('the command line tells each of them', async () => {
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
