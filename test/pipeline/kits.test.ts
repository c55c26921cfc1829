// The kits for sources and sinks: every one that comes with the package passes them, and faults that authors make are caught.

import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import {
  csvSource,
  entrySource,
  fileSink,
  generatedSource,
  httpSink,
  httpSource,
  iterableSource,
  jsonLineSource,
  lineSource,
  pageSource,
  type Sink,
  type SinkWriter,
  type Source,
  type SourceReader,
  sendSink,
  tableSink,
  timelineSink,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { table } from '../../src/layers/table/index.ts'
import {
  type Runner,
  type SinkHarness,
  type SourceHarness,
  sinkConformance,
  sourceConformance,
} from '../../src/testing/index.ts'

const runner: Runner = { describe, it }
const ten = Array.from({ length: 10 }, (_, n) => n)
const only = <T>(all: readonly T[]) => new Map([['', all]])
const newFolder = () => mkdtempSync(join(tmpdir(), 'reprise-kits-'))

function plain<T>(name: string, source: () => Source<T>, all: ReadonlyMap<string, readonly T[]>): SourceHarness<T> {
  return { name, create: async () => ({ source, expected: () => all, ends: true, destroy: async () => undefined }) }
}

/** A file that grows, and is cut short. */
function ofFile<T>(
  name: string,
  make: (path: string) => Source<T>,
  row: (n: number) => string,
  value: (n: number) => T,
) {
  const create = async () => {
    const folder = newFolder()
    const path = join(folder, 'in')
    writeFileSync(path, ten.map((n) => `${row(n)}\n`).join(''))
    const all = ten.map(value)
    return {
      source: () => make(path),
      expected: () => only(all),
      ends: false,
      async add() {
        appendFileSync(path, `${row(10)}\n`)
        all.push(value(10))
      },
      forget: async () => truncateSync(path, 0),
      destroy: async () => rmSync(folder, { recursive: true }),
    }
  }
  return { name, create }
}

sourceConformance(
  runner,
  plain('values', () => valueSource(ten), only(ten)),
)
sourceConformance(
  runner,
  plain(
    'generated',
    () => generatedSource((n, partition) => `${partition}:${n}`, { count: 5, partitions: 3 }),
    new Map([0, 1, 2].map((p) => [String(p), [0, 1, 2, 3, 4].map((n) => `${p}:${n}`)])),
  ),
)
sourceConformance(
  runner,
  plain('iterable', () => iterableSource(() => ten), only(ten)),
)
sourceConformance(
  runner,
  plain(
    'paged',
    () =>
      pageSource<number, number>(async (at) => ({
        items: ten.slice(at ?? 0, (at ?? 0) + 4),
        next: (at ?? 0) + 4 < 10 ? (at ?? 0) + 4 : null,
      })),
    only(ten),
  ),
)
sourceConformance(
  runner,
  ofFile(
    'lines',
    (path) => lineSource(path, { follow: 2 }),
    (n) => `line ${n}`,
    (n) => `line ${n}`,
  ),
)
sourceConformance(
  runner,
  ofFile(
    'jsonLines',
    (path) => jsonLineSource<{ n: number }>(path, { follow: 2 }),
    (n) => `{"n":${n}}`,
    (n) => ({ n }),
  ),
)
sourceConformance(
  runner,
  ofFile(
    'csv',
    (path) => csvSource(path, { follow: 2, columns: ['n', 'text'] }),
    (n) => `${n},"a\nb"`,
    (n) => ({ n: String(n), text: 'a\nb' }),
  ),
)
sourceConformance<number>(runner, {
  name: 'entries',
  async create() {
    const rp = await open('memory:')
    const notes = timeline('notes', { initial: () => 0, apply: (n: number, _: { type: 'noted'; n: number }) => n + 1 })
    const all: number[] = []
    const add = async () => {
      const noted = await rp.open(notes, `note-${all.length % 3}`)
      await noted.append({ type: 'noted', n: all.length })
      await noted.close()
      all.push(all.length)
    }
    for (let n = 0; n < 6; n++) await add()
    return {
      engine: rp,
      source: () => ({
        open: (from, context) => entrySource([notes]).open(from, context) as unknown as Promise<SourceReader<number>>,
        decode: ({ data }: { readonly data: { readonly n: number } }) => data.n,
      }),
      expected: () => only(all),
      ends: false,
      add,
      destroy: () => rp.close(),
    }
  },
})
sourceConformance<{ n: number }>(runner, {
  name: 'httpSource',
  async create() {
    const rp = await open('memory:')
    const take = httpSource<{ n: number }>('orders').handler(rp)
    const all: { n: number }[] = []
    const post = async () => {
      const n = all.length
      const request = () =>
        new Request('http://localhost/orders', {
          ...{ method: 'POST', body: JSON.stringify({ n }) },
          headers: { 'idempotency-key': `order-${n}` },
        })
      expect((await take(request())).status).toBe(202)
      expect((await take(request())).status).toBe(200)
      all.push({ n })
    }
    for (let n = 0; n < 5; n++) await post()
    return {
      engine: rp,
      source: () => httpSource<{ n: number }>('orders'),
      expected: () => only(all),
      ends: false,
      add: post,
      destroy: () => rp.close(),
    }
  },
})

sinkConformance<number>(runner, {
  name: 'files',
  async create() {
    const folder = newFolder()
    return {
      sink: () => fileSink<number>({ folder }),
      value: (n) => n,
      isExactlyOnce: true,
      async visible() {
        const names = readdirSync(folder).filter((name) => name.endsWith('.jsonl'))
        const texts = names.sort().map((name) => readFileSync(join(folder, name), 'utf8'))
        return texts.join('').split('\n').filter(Boolean).map(Number)
      },
      destroy: async () => rmSync(folder, { recursive: true }),
    }
  },
})
sinkConformance<number>(runner, {
  name: 'send',
  async create() {
    const keys = new Map<string, number>()
    return {
      sink: () =>
        sendSink<number>(async (n, { key }) => {
          // One key, one result: a receiver that knows keys would lose the other.
          expect(keys.get(key) ?? n).toBe(n)
          keys.set(key, n)
        }),
      value: (n) => n,
      isExactlyOnce: false,
      visible: async () => [...keys.values()],
      destroy: async () => undefined,
    }
  },
})
sinkConformance<number>(runner, {
  name: 'httpSink',
  seeds: [1],
  async create() {
    const taken = new Map<string, number>()
    const server = createServer(async (request, response) => {
      let body = ''
      for await (const piece of request) body += piece
      taken.set(String(request.headers['idempotency-key']), Number(body))
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    return {
      sink: () => httpSink<number>({ url }),
      value: (n) => n,
      isExactlyOnce: false,
      visible: async () => [...taken.values()],
      async destroy() {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      },
    }
  },
})
sinkConformance<number>(runner, {
  name: 'tableSink',
  async create() {
    const rp = await open('memory:')
    const rows = table<number>('rows')
    return {
      engine: rp,
      sink: () => tableSink({ table: rows, write: (tx, n: number) => tx.set(String(n), (tx.get(String(n)) ?? 0) + 1) }),
      value: (n) => n,
      isExactlyOnce: true,
      async visible() {
        const opened = await rp.open(rows)
        const found = [...opened.entries()].flatMap(([key, times]) => new Array<number>(times).fill(Number(key)))
        await opened.close()
        return found.sort((a, b) => a - b)
      },
      destroy: () => rp.close(),
    }
  },
})
sinkConformance<number>(runner, {
  name: 'timelineSink',
  async create() {
    const rp = await open('memory:')
    const journal = timeline('journal', {
      initial: () => [] as number[],
      apply: (all: readonly number[], { n }: { type: 'noted'; n: number }) => [...all, n],
    })
    return {
      engine: rp,
      sink: () =>
        timelineSink({ timeline: journal, id: () => 'all', entry: (n: number) => ({ type: 'noted' as const, n }) }),
      value: (n) => n,
      isExactlyOnce: true,
      async visible() {
        const opened = await rp.open(journal, 'all', { shared: true })
        const found = await opened.refresh()
        await opened.close()
        return found
      },
      destroy: () => rp.close(),
    }
  },
})
/** A place outside, for sinks with faults: each cut is a batch that is put aside, and shown when it is committed. */
class Durable {
  readonly #aside = new Map<string, readonly number[]>()
  readonly #shown = new Map<string, readonly number[]>()

  values(): readonly number[] {
    return [...this.#shown.values()].flat()
  }

  put(id: string, numbers: readonly number[]): void {
    this.#aside.set(id, numbers)
  }

  show(id: string, as = id): void {
    this.#shown.set(as, this.#aside.get(id) ?? [])
  }
}

describe('the kit for sources catches', () => {
  const faults: Readonly<Record<string, (source: Source<number>) => Source<number>>> = {
    'a position that stands before the last record': (source) => ({
      open: async (from, context) => changed(await source.open(from, context), (n) => n - 1),
    }),
    'a position that stands behind records that were not given': (source) => ({
      open: async (from, context) => changed(await source.open(from, context), (n) => n + 1),
    }),
    'a position that is ignored': (source) => ({ open: (_, context) => source.open(null, context) }),
    'a foreign position that counts as the beginning': (source) => ({
      open: (from, context) => source.open(typeof from?.get('') === 'number' ? from : null, context),
    }),
    'a read that does not settle': (source) => ({
      open: async (from, context) => {
        const reader = await source.open(from, context)
        return {
          ...changed(reader, (n) => n),
          read: async (max) => (await reader.read(max)) ?? { partition: 'x', values: [], position: 1 },
        }
      },
    }),
  }
  it.each(Object.entries(faults))('%s', async (_, fault) => {
    const failed = await failures((other) =>
      sourceConformance(
        other,
        plain('faulty', () => fault(valueSource(ten)), only(ten)),
      ),
    )
    expect(failed.length).toBeGreaterThan(0)
  })
})

function changed(reader: SourceReader<number>, position: (n: number) => number): SourceReader<number> {
  return {
    partitions: () => reader.partitions(),
    close: () => reader.close(),
    async read(max) {
      const read = await reader.read(max)
      return read && { ...read, position: position(read.position as number) }
    },
  }
}

describe('the kit for sinks catches', () => {
  type Fault =
    | 'none'
    | 'shows early'
    | 'commits twice'
    | 'forgets on rejoin'
    | 'forgets what is listed'
    | 'takes later records'
  const faults: readonly Fault[] = [
    'shows early',
    'commits twice',
    'forgets on rejoin',
    'forgets what is listed',
    'takes later records',
  ]

  function faulty(out: Durable, fault: Fault): Sink<number> {
    let commits = 0
    const commit = (prepared: unknown) => {
      if (typeof prepared === 'string')
        out.show(prepared, fault === 'commits twice' ? `${prepared}/${commits++}` : prepared)
    }
    return {
      async open(_, listed) {
        if (listed !== null && fault !== 'forgets what is listed') commit(listed)
        let written: number[] = []
        let cut: number[] = []
        const writer: SinkWriter = {
          get pending() {
            return written.length
          },
          write: ({ values: numbers }) => void written.push(...(numbers as number[])),
          cut({ checkpoint, epoch }) {
            if (fault !== 'takes later records') [cut, written] = [written, []]
            return async () => {
              if (fault === 'takes later records') [cut, written] = [written, []]
              const id = `${epoch}/${checkpoint}`
              out.put(id, cut)
              if (fault === 'shows early') out.show(id)
              return id
            }
          },
          async commit(prepared) {
            cut = []
            commit(prepared)
          },
          rejoin() {
            if (fault !== 'forgets on rejoin') written = [...cut, ...written]
            cut = []
          },
          close: async () => undefined,
        }
        return writer
      },
    }
  }

  const harness = (fault: Fault): SinkHarness<number> => ({
    name: fault,
    async create() {
      const out = new Durable()
      return {
        sink: () => faulty(out, fault),
        value: (n) => n,
        isExactlyOnce: true,
        visible: async () => out.values(),
        destroy: async () => undefined,
      }
    },
  })

  it('nothing in a sink without a fault', async () => {
    expect(await failures((other) => sinkConformance(other, harness('none')))).toEqual([])
  })

  it.each(faults)('one that %s', async (fault) => {
    expect((await failures((other) => sinkConformance(other, harness(fault)))).length).toBeGreaterThan(0)
  })
})

/** The titles of the tests that fail. */
async function failures(define: (runner: Runner) => void): Promise<string[]> {
  const tests: { readonly title: string; readonly body: () => Promise<void> }[] = []
  define({ describe: (_, body) => body(), it: (title, body) => void tests.push({ title, body }) })
  const failed: string[] = []
  for (const { title, body } of tests) {
    await body().catch(() => failed.push(title))
  }
  return failed
}
