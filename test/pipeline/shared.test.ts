import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterEach, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  carries,
  collectSink,
  generatedSource,
  pipeline,
  rowSink,
  type Source,
  valueSource,
  valueState,
} from '../../src/layers/pipeline/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { pause } from '../support/fixture.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) removeFolder(folder)
})

interface Item {
  readonly key: string
  readonly n: number
}

interface Gate {
  /** The number of records that each partition may return; it ends at `count`. */
  limit: number
  readonly count: number
  partitions: number
}

/** Keys stay within their partition. */
function gated(gate: Gate): Source<Item> {
  const names = () => Array.from({ length: gate.partitions }, (_, i) => String(i))
  return {
    partitions: async () => names(),
    async open(from, { signal, partitions }) {
      const own = partitions ?? names()
      const at = new Map(own.map((name) => [name, Number(from?.get(name) ?? 0)]))
      return {
        partitions: () => own,
        close: async () => undefined,
        async read() {
          for (;;) {
            for (const [name, done] of at) {
              if (done >= Math.min(gate.limit, gate.count)) continue
              at.set(name, done + 1)
              return { partition: name, values: [{ key: `${name}/${done % 3}`, n: done }], position: done + 1 }
            }
            if (signal.aborted || [...at.values()].every((done) => done >= gate.count)) return null
            await pause(5)
          }
        },
      }
    },
  }
}

function draw(gate: Gate, isKeyed = true) {
  return pipeline(
    'shared',
    (p) => {
      const items = p.from('items', gated(gate), { keyed: isKeyed })
      const numbered = isKeyed
        ? items
            .keyBy(({ key }) => key)
            .process('numbered', {
              emits: carries<{ key: string; nth: number; n: number }>(),
              state: { count: valueState<number>() },
              onRecord({ key, n }: Item, { state, emit }) {
                const nth = (state.count.get() ?? 0) + 1
                state.count.set(nth)
                emit({ key, nth, n })
              },
            })
        : items.map(({ key, n }) => ({ key, nth: n, n }))
      numbered.to(
        'out',
        rowSink({
          table: 'numbered',
          row: ({ key, nth, n }) => ({ name: key, nth, n }),
          setup: 'CREATE TABLE IF NOT EXISTS numbered (name TEXT, nth BIGINT, n BIGINT)',
        }),
      )
    },
    { checkpoint: { every: '20ms' } },
  )
}

function newStore(): { readonly url: string; query(text: string): Record<string, unknown>[] } {
  const folder = newFolder()
  folders.push(folder)
  const file = join(folder, 'shared.db')
  return {
    url: `sqlite:${file}`,
    query(text) {
      const db = new DatabaseSync(file, { readOnly: true })
      try {
        return db.prepare(text).all() as Record<string, unknown>[]
      } finally {
        db.close()
      }
    },
  }
}

async function until<T>(look: () => T | Promise<T>, isMet: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await look()
    if (isMet(value)) return value
    await pause(20)
  }
}

const tasks = [0, 1, 2, 3].map((i) => `pipeline/shared/@${i}`)

it('B7: two processes share partitions, one that comes gets its share, one that leaves loses nothing', async () => {
  const { url, query } = newStore()
  const gate: Gate = { limit: 30, count: 90, partitions: 4 }
  const first = await open(url)
  const second = await open(url)
  const heads = () => Promise.all(tasks.map((id) => first.head(id)))
  first.work([draw(gate)])
  const alone = await until(heads, (all) => all.every((head) => head?.status === 'running' && head.seq > 0))
  second.work([draw(gate)])
  const owners = (all: Awaited<ReturnType<typeof heads>>) => new Map(all.map((head) => [head?.timeline, head?.owner]))
  const both = await until(heads, (all) => {
    const counts = [...owners(all).values()].filter((owner) => owner === alone[0]!.owner).length
    return counts === 2 && all.every((head) => head?.owner)
  })
  // Those that stayed were not stopped: they are in the same ownership as before.
  const stayed = both.filter((head) => head!.owner === alone[0]!.owner)
  const epochs = new Map(alone.map((head) => [head!.timeline, head!.epoch]))
  expect(stayed.map((head) => head!.epoch)).toEqual(stayed.map((head) => epochs.get(head!.timeline)))
  gate.limit = 60
  await until(
    () => Number(query('SELECT count(*) AS n FROM numbered')[0]!.n),
    (n) => n === 240,
  )
  await second.close()
  await until(heads, (all) => all.every((head) => head?.owner === alone[0]!.owner))
  gate.limit = 90
  await until(heads, (all) => all.every((head) => head?.status === 'completed'))
  await first.close()
  const found = query('SELECT name, nth, n FROM numbered ORDER BY name, n')
  expect(found.length).toBe(360)
  for (const { name, nth, n } of found) {
    expect({ name, nth, n }).toEqual({
      name: `${String(name)[0]}/${Number(n) % 3}`,
      nth: Math.floor(Number(n) / 3) + 1,
      n,
    })
  }
})

it('a keyed pipeline refuses another number of partitions, before and while it runs, and its tasks stop', async () => {
  const { url, query } = newStore()
  const gate: Gate = { limit: 10, count: 20, partitions: 2 }
  const first = await open(url)
  const problems: unknown[] = []
  const note = ({ error }: { readonly error: unknown }) => void problems.push(error)
  const refusal = expect.objectContaining({
    code: 'PARTITIONS_CHANGED',
    data: { timeline: 'pipeline/shared', before: 2, now: 3 },
  })
  first.events.on('problem', note)
  first.work([draw(gate)])
  await until(
    () =>
      query("SELECT count(*) AS n FROM sqlite_master WHERE name = 'numbered'")[0]!.n === 1 &&
      query('SELECT count(*) AS n FROM numbered')[0]!.n,
    (n) => n === 20,
  )
  gate.partitions = 3
  await until(
    () => problems.length,
    (count) => count > 0,
  )
  expect(problems).toEqual([refusal])
  await until(
    () => first.head('pipeline/shared/@0'),
    (head) => head?.status === 'stopped',
  )
  await first.close()
  problems.length = 0
  const second = await open(url)
  second.events.on('problem', note)
  second.work([draw(gate)])
  await until(
    () => problems.length,
    (count) => count > 0,
  )
  expect(problems).toEqual([refusal])
  expect(await second.head('pipeline/shared/@2')).toBeNull()
  gate.partitions = 2
  gate.limit = 20
  await until(
    () => query('SELECT count(*) AS n FROM numbered')[0]!.n,
    (n) => n === 40,
  )
  await second.close()
})

it('B7: a partition that appears becomes a task', async () => {
  const { url, query } = newStore()
  const gate: Gate = { limit: 10, count: 20, partitions: 1 }
  const rp = await open(url)
  rp.work([draw(gate, false)])
  await until(
    () => rp.head('pipeline/shared/@0'),
    (head) => (head?.seq ?? 0) > 0,
  )
  gate.partitions = 3
  gate.limit = 20
  await until(
    () => Promise.all(tasks.slice(0, 3).map((id) => rp.head(id))),
    (all) => all.every((head) => head?.status === 'completed'),
  )
  await rp.close()
  expect(query('SELECT count(DISTINCT name || n) AS all_of FROM numbered')).toEqual([{ all_of: 60 }])
  expect(query('SELECT count(*) AS n FROM numbered')).toEqual([{ n: 60 }])
})

it('a pipeline is shared or run whole, never both', async () => {
  const rp = await open('memory:')
  const gate: Gate = { limit: 5, count: 5, partitions: 2 }
  const drawn = pipeline('either', (p) => {
    p.from('items', gated(gate)).to('out', collectSink())
  })
  rp.work([drawn])
  await until(
    () => rp.head('pipeline/either/@1'),
    (head) => head?.status === 'completed',
  )
  await expect(rp.run(drawn).result()).rejects.toMatchObject({ code: 'CONFLICT' })
  const whole = pipeline('whole', (p) => {
    p.from('items', gated(gate)).to('out', collectSink())
  })
  await rp.run(whole).result()
  const problem = new Promise<unknown>((resolve) => {
    rp.events.on('problem', ({ error }) => resolve(error))
  })
  rp.work([whole])
  expect(await problem).toMatchObject({ code: 'CONFLICT' })
  expect(await rp.head('pipeline/whole/@0')).toBeNull()
  await rp.close()
})

it('a pipeline whose keys cross partitions is refused with the reasons', async () => {
  const rp = await open('memory:')
  const refusal = (build: Parameters<typeof pipeline>[1]) => {
    try {
      rp.work([pipeline('refused', build)])
    } catch (error) {
      return (error as Error).message
    }
    return null
  }
  expect(refusal((p) => p.from('list', valueSource([1])).to('out', collectSink()))).toBeNull()
  const numbers = generatedSource((n) => n, { count: 1, partitions: 2 })
  expect(refusal((p) => p.from('list', { open: valueSource([1]).open }).to('out', collectSink()))).toMatch(
    'list has no partitions',
  )
  expect(
    refusal((p) =>
      p
        .from('n', numbers)
        .keyBy((n) => n)
        .dedupe('once', { within: '1m' })
        .to('out', collectSink()),
    ),
  ).toMatch('{ keyed: true } on n')
  expect(
    refusal((p) => {
      const keyed = p.from('n', numbers, { keyed: true }).keyBy((n) => n)
      keyed
        .map((n) => n)
        .keyBy(() => 'all')
        .dedupe('once', { within: '1m' })
        .to('out', collectSink())
    }),
  ).toMatch('second key')
  await rp.close()
})
