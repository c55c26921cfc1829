// Each operator in a small pipeline of its own, compared with the expected output.

import { describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  average,
  carries,
  collectSink,
  type FromOptions,
  generatedSource,
  list,
  listState,
  mapState,
  max,
  min,
  type PipelineBuilder,
  pipeline,
  readPipelineState,
  reduce,
  reducingState,
  type Source,
  type Stream,
  session,
  tumbling,
  valueSource,
  valueState,
} from '../../src/layers/pipeline/index.ts'
import { pause, until } from '../support/fixture.ts'

interface Item {
  readonly key: string
  readonly at: number
  readonly n: number
}

const item = (key: string, at: number, n = 1): Item => ({ key, at, n })
const timed: FromOptions<Item, Item> = { time: ({ at }) => at }

async function run<T>(draw: (p: PipelineBuilder, out: ReturnType<typeof collectSink<T>>) => void) {
  const rp = await open('memory:')
  const out = collectSink<T>()
  const running = await rp.run(
    pipeline('tried', (p) => draw(p, out)),
    {},
  )
  const report = await running.result()
  await rp.close()
  return { out: out.values, report, status: running.status() }
}

describe('aggregates', () => {
  it('give the least, the greatest, the mean, all, and any function of two', async () => {
    const items = [item('a', 1, 4), item('a', 2, 8), item('b', 3, 6)]
    const by = (aggregation: 'min' | 'max' | 'average' | 'list' | 'reduce') =>
      run<unknown>((p, out) => {
        const window = p
          .from('items', valueSource(items), timed)
          .keyBy(({ key }) => key)
          .window('w', tumbling('1s'))
        const n = (each: Item) => each.n
        const made = {
          min: () => window.aggregate(min(n)),
          max: () => window.aggregate(max(n)),
          average: () => window.aggregate(average(n)),
          list: () => window.aggregate(list()),
          reduce: () => window.aggregate(reduce((a, b) => (a.n > b.n ? a : b))),
        }
        ;(made[aggregation]() as Stream<{ key: string | number; value: unknown }>)
          .map(({ key, value }) => [key, value])
          .to('out', out)
      })
    expect((await by('min')).out).toEqual([
      ['a', 4],
      ['b', 6],
    ])
    expect((await by('max')).out).toEqual([
      ['a', 8],
      ['b', 6],
    ])
    expect((await by('average')).out).toEqual([
      ['a', 6],
      ['b', 6],
    ])
    expect((await by('list')).out).toEqual([
      ['a', items.slice(0, 2)],
      ['b', items.slice(2)],
    ])
    expect((await by('reduce')).out).toEqual([
      ['a', items[1]],
      ['b', items[2]],
    ])
  })
})

describe('windows', () => {
  /** One record per batch, so that the watermark moves with each. */
  const slow = (items: readonly Item[]) => ({
    async open(from: ReadonlyMap<string, unknown> | null, context: never) {
      const reader = await valueSource(items).open(from, context)
      return {
        partitions: () => reader.partitions(),
        close: () => reader.close(),
        read: () => reader.read(1) as ReturnType<typeof reader.read> & object,
      }
    },
  })

  it('emit a result again for a late record, and send later ones to a side output', async () => {
    const items = [item('a', 10), item('a', 1005), item('a', 20), item('a', 1600), item('a', 30)]
    const late: Item[] = []
    const { out, status } = await run<unknown>((p, sink) => {
      const lateOnes = collectSink<Item>()
      p.from('items', slow(items), timed)
        .keyBy(({ key }) => key)
        .window('w', tumbling('1s'), {
          late: 500,
          lateTo: (stream) =>
            stream
              .map((each) => {
                late.push(each)
                return each
              })
              .to('late', lateOnes),
        })
        .aggregate(list())
        .map(({ start, value }) => [start, value.map(({ at }) => at)])
        .to('out', sink)
    })
    expect(out).toEqual([
      [0, [10]],
      [0, [10, 20]],
      [1000, [1005, 1600]],
    ])
    expect(late).toEqual([item('a', 30)])
    expect(status.lateRecords).toBe(1)
  })

  it('merge two sessions when a record falls between them', async () => {
    const items = [item('a', 0), item('a', 150), item('a', 80)]
    const { out } = await run<unknown>((p, sink) => {
      p.from('items', valueSource(items), { ...timed, outOfOrder: 1000 })
        .keyBy(({ key }) => key)
        .window('w', session(100))
        .aggregate(list())
        .map(({ start, end, value }) => [start, end, value.length])
        .to('out', sink)
    })
    expect(out).toEqual([[0, 250, 3]])
  })

  it('need times, and are refused without', async () => {
    const drawn = run((p, out) => {
      const keyed = p.from('items', valueSource([item('a', 1)])).keyBy(({ key }) => key)
      keyed.window('w', tumbling('1s')).aggregate(list()).to('out', out)
    })
    await expect(drawn).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('time') })
  })
})

describe('union', () => {
  it('waits for the slower stream, and not for one that is idle', async () => {
    const fast = [item('a', 100), item('a', 5000)]
    const { out } = await run<unknown>((p, sink) => {
      p.from('fast', valueSource(fast), timed)
        .union(p.from('slow', valueSource([item('a', 200)]), timed))
        .keyBy(({ key }) => key)
        .window('w', tumbling('1s'))
        .aggregate(list())
        .map(({ start, value }) => [start, value.map(({ at }) => at).sort()])
        .to('out', sink)
    })
    expect(out).toEqual([
      [0, [100, 200]],
      [5000, [5000]],
    ])
  })

  it('B7: a partition that is silent for too long does not stop all windows', async () => {
    const rp = await open('memory:')
    const out = collectSink<unknown>()
    /** One partition speaks, the other never does. */
    const source = {
      async open(_: unknown, { signal }: { readonly signal: AbortSignal }) {
        const batches = [item('a', 100), item('a', 5000)].map((each, i) => ({
          partition: '0',
          values: [each],
          position: i + 1,
        }))
        return {
          partitions: () => ['0', '1'],
          close: async () => undefined,
          read: () =>
            batches.shift() ??
            new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null), { once: true })),
        }
      },
    }
    const drawn = pipeline('silent', (p) => {
      p.from('items', source, { ...timed, idle: 50 })
        .keyBy(({ key }) => key)
        .window('w', tumbling('1s'))
        .aggregate(list())
        .map(({ start }) => start)
        .to('out', out)
    })
    const running = await rp.run(drawn, { checkpoint: { every: 1 } }).started()
    while (out.values.length === 0) {
      await pause(10)
      await running.checkpoint()
    }
    expect(out.values).toEqual([0])
    await running.stop()
    await rp.close()
  })
})

describe('process', () => {
  it('keeps values, lists, maps and sums by key, and sends to a side', async () => {
    const items = [item('a', 1, 2), item('b', 2, 3), item('a', 3, 4)]
    const large: number[] = []
    const { out } = await run<unknown>((p, sink) => {
      const done = p
        .from('items', valueSource(items))
        .keyBy(({ key }) => key)
        .process('keep', {
          state: {
            last: valueState<number>(),
            all: listState<number>(),
            named: mapState<number>(),
            total: reducingState<number>((a, b) => a + b),
          },
          sides: { large: carries<number>() },
          onRecord({ n }: Item, { state, emit, side: send, key }) {
            state.all.add(n)
            state.named.set(`n${n}`, n)
            state.total.add(n)
            emit([key, state.last.get() ?? null, [...state.all.get()], state.named.size, state.total.get()])
            state.last.set(n)
            if (n > 3) send('large', n)
          },
        })
      done
        .side('large')
        .map((n) => large.push(n))
        .to('large', collectSink())
      done.to('out', sink)
    })
    expect(out).toEqual([
      ['a', null, [2], 1, 2],
      ['b', null, [3], 1, 3],
      ['a', 2, [2, 4], 2, 6],
    ])
    expect(large).toEqual([4])
  })

  it('calls timers of event time in order, also those set by a timer', async () => {
    const { out } = await run<unknown>((p, sink) => {
      p.from('items', valueSource([item('a', 10), item('b', 5)]), { ...timed, outOfOrder: 100 })
        .keyBy(({ key }) => key)
        .process('timers', {
          onRecord: (_: Item, context) => {
            context.setTimer(context.time! + 100)
            context.setTimer(context.time! + 50)
            context.deleteTimer(context.time! + 50)
          },
          onTimer: (time, context) => {
            context.emit([context.key, time])
            if (time < 200) context.setTimer(time + 100)
          },
        })
        .to('out', sink)
    })
    expect(out).toEqual([
      ['b', 105],
      ['a', 110],
      ['b', 205],
      ['a', 210],
    ])
  })

  it('calls timers of the clock, and forgets expired state', async () => {
    const rp = await open('memory:')
    const out = collectSink<unknown>()
    let isOver = false
    const source = {
      async open() {
        const batches = [{ partition: '', values: [item('a', 1)], position: 1 }]
        return {
          partitions: () => [''],
          close: async () => undefined,
          read: async () => {
            const [batch] = batches.splice(0)
            await until(() => batch !== undefined || isOver)
            return batch ?? null
          },
        }
      },
    }
    const drawn = pipeline('clock', (p) => {
      p.from('items', source)
        .keyBy(({ key }) => key)
        .process('clock', {
          state: { brief: valueState<number>({ ttl: 1 }), kept: valueState<number>() },
          onRecord: (_: Item, context) => {
            context.state.brief.set(1)
            context.state.kept.set(2)
            context.setClockTimer(context.now() + 30)
          },
          onClock: (_, { state, emit }) => {
            emit([state.brief.get() ?? null, state.kept.get()])
            isOver = true
          },
        })
        .to('out', out)
    })
    const report = await rp.run(drawn).result()
    expect(report.status).toBe('completed')
    expect(out.values).toEqual([[null, 2]])
    await rp.close()
  })
})

describe('joins', () => {
  const left = [item('a', 10, 1), item('a', 1500, 2), item('b', 20, 3)]
  const right = [item('a', 30, 10), item('a', 1400, 20), item('c', 40, 30)]

  it('of windows emit every pair of a key', async () => {
    const { out } = await run<unknown>((p, sink) => {
      const other = p.from('right', valueSource(right), timed).keyBy(({ key }) => key)
      p.from('left', valueSource(left), { ...timed, outOfOrder: '10s' })
        .keyBy(({ key }) => key)
        .joinWindow('pairs', other, tumbling('1s'), (a, b, { start }) => [start, a.n, b.n])
        .to('out', sink)
    })
    expect(out).toEqual([
      [0, 1, 10],
      [1000, 2, 20],
    ])
  })

  it('of intervals emit near records, in both directions', async () => {
    const { out } = await run<unknown>((p, sink) => {
      const other = p.from('right', valueSource(right), { ...timed, outOfOrder: '10s' }).keyBy(({ key }) => key)
      p.from('left', valueSource(left), { ...timed, outOfOrder: '10s' })
        .keyBy(({ key }) => key)
        .joinInterval('near', other, { from: -100, to: 20 }, (a, b) => [a.n, b.n])
        .to('out', sink)
    })
    expect(out).toEqual([
      [1, 10],
      [2, 20],
    ])
  })

  it('with the newest emit the value known by then', async () => {
    const { out } = await run<unknown>((p, sink) => {
      const names = p.from('names', valueSource([{ key: 'a', name: 'Ann' }])).keyBy(({ key }) => key)
      // Sources take turns, batch by batch: the names, drawn first, are read first.
      p.from('items', valueSource([item('a', 1), item('b', 2)]))
        .keyBy(({ key }) => key)
        .joinLatest('named', names, ({ key }, known) => [key, known?.name ?? null])
        .to('out', sink)
    })
    expect(out).toEqual([
      ['a', 'Ann'],
      ['b', null],
    ])
  })
})

describe('dedupe', () => {
  it.each([0, 50])(
    'compares with every record that passed, also with a late one (out of order by %i)',
    async (outOfOrder) => {
      const times = [100, 80, 82, 105, 89, 90, 71]
      const { out } = await run<number>((p, sink) =>
        p
          .from('times', valueSource(times), { time: (at) => at, outOfOrder })
          .keyBy(() => 'k')
          .dedupe('once', { within: 10 })
          .to('out', sink),
      )
      expect(out).toEqual([100, 80, 90])
    },
  )

  it('lets the first through, and the next one when the time is over', async () => {
    const items = [item('a', 0), item('a', 50), item('b', 60), item('a', 99), item('a', 100)]
    const { out } = await run<unknown>((p, sink) => {
      p.from('items', valueSource(items), timed)
        .keyBy(({ key }) => key)
        .dedupe('once', { within: 100 })
        .map(({ key, at }) => [key, at])
        .to('out', sink)
    })
    expect(out).toEqual([
      ['a', 0],
      ['b', 60],
      ['a', 100],
    ])
  })
})

describe('calls', () => {
  it('run a few at a time, are retried, and keep the order on request', async () => {
    let running = 0
    let most = 0
    const attempts = new Map<string, number>()
    let seventh = ''
    const { out, report } = await run<number>((p, sink) => {
      p.from(
        'numbers',
        generatedSource((n) => n, { count: 20 }),
      )
        .call(
          'double',
          async (n, { key }) => {
            running += 1
            most = Math.max(most, running)
            await new Promise((resolve) => setTimeout(resolve, (20 - n) % 5))
            running -= 1
            attempts.set(key, (attempts.get(key) ?? 0) + 1)
            if (n === 7) seventh = key
            if (n === 7 && attempts.get(key) === 1) throw new Error('not now')
            return 2 * n
          },
          { concurrency: 4, ordered: true, retry: { backoff: 1 } },
        )
        .to('out', sink)
    })
    expect(out).toEqual(Array.from({ length: 20 }, (_, n) => 2 * n))
    expect(most).toBe(4)
    expect(attempts.size).toBe(20)
    expect(seventh).toMatch(/^double-[0-9a-f]{32}$/)
    expect(attempts.get(seventh)).toBe(2)
    expect(report.deadLetters).toBe(0)
  })

  it('let no watermark overtake a record', async () => {
    const items = [item('a', 10), item('a', 20), item('a', 1500)]
    const { out, status } = await run<unknown>((p, sink) => {
      p.from('items', valueSource(items), timed)
        .call('slow', async (each) => {
          await new Promise((resolve) => setTimeout(resolve, each.at === 10 ? 20 : 1))
          return each
        })
        .keyBy(({ key }) => key)
        .window('w', tumbling('1s'))
        .aggregate(list())
        .map(({ start, value }) => [start, value.length])
        .to('out', sink)
    })
    expect(out).toEqual([
      [0, 2],
      [1000, 1],
    ])
    expect(status.lateRecords).toBe(0)
  })
})

describe('rows with a time to live', () => {
  it('joinLatest: a row that was not written for that long is gone, also from the checkpoint', async () => {
    const rp = await open('memory:')
    const out = collectSink<string>()
    const names = [{ key: 'a', name: 'Ann' }]
    let isOver = false
    const asking: Source<string> = {
      async open() {
        const read = async () => {
          await pause(2)
          return isOver ? null : { partition: '', values: ['a'], position: 0 }
        }
        return { partitions: () => [''], close: async () => undefined, read }
      },
    }
    const drawn = pipeline('expiring', (p) => {
      const brief = p.from('brief', valueSource(names)).keyBy(({ key }) => key)
      const kept = p.from('kept', valueSource(names)).keyBy(({ key }) => key)
      p.from('asked', asking)
        .keyBy((key) => key)
        .joinLatest('with-brief', brief, (key, row) => ({ key, given: row?.name }), { ttl: 5 })
        .keyBy(({ key }) => key)
        .joinLatest('with-kept', kept, ({ given }, row) => `${given} ${row?.name}`, { ttl: '1h' })
        .to('out', out)
    })
    const run = await rp.run(drawn, { checkpoint: { every: '10ms' } }).started()
    const rowsOf = (operator: string) => readPipelineState(rp, 'pipeline/expiring', operator, 'a')
    await until(async () => out.values.at(-1) === 'undefined Ann' && (await rowsOf('with-brief')).length === 0)
    isOver = true
    await run.result()
    expect(await rowsOf('with-kept')).toHaveLength(1)
    await rp.close()
  })
})

describe('outer joins and processes of two streams', () => {
  it('type the side that may be missing, and both streams', async () => {
    const { out } = await run<unknown>((p, sink) => {
      const of = (name: string, items: readonly Item[]) =>
        p.from(name, valueSource(items), timed).keyBy(({ key }) => key)
      const [a, b] = [of('a', [item('k', 10, 1)]), of('b', [item('other', 10, 2)])]
      // @ts-expect-error: the right side may be missing
      a.joinWindow('left', b, tumbling(10), (left, right) => left.n + right.n, { outer: 'left' })
      // @ts-expect-error: the left side may be missing
      a.joinInterval('full', b, { from: 0, to: 1 }, (left, right) => left.n + (right?.n ?? 0), { outer: 'full' })
      // @ts-expect-error: the result may be a tombstone
      a.joinChanges('rows', b, (left, right) => left.n + right.n).map((sum) => sum.toFixed())
      a.processBoth('both', b, {
        emits: carries<number>(),
        onLeft: ({ n }, { emit }) => emit(n),
        // @ts-expect-error: the record of the other stream is an Item
        onRight: ({ missing }, { emit }) => emit(missing),
      })
      a.joinWindow('sums', b, tumbling(10), (left, right) => left.n + (right?.n ?? 100), { outer: 'left' }).to(
        's',
        sink,
      )
    })
    expect(out).toEqual([101])
  })

  it('are refused for another word, and for a stream without keys', async () => {
    const refused = (draw: (p: PipelineBuilder) => void) => {
      return expect(run((p) => draw(p))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    const sides = (p: PipelineBuilder) => {
      const items = p.from('items', valueSource([item('k', 10)]), timed)
      return { items, keyed: items.keyBy(({ key }) => key) }
    }
    await refused((p) => {
      const { keyed } = sides(p)
      // @ts-expect-error: refused by the compiler
      keyed.joinWindow('j', keyed, tumbling(10), () => 1, { outer: 'right' })
    })
    await refused((p) => {
      const { keyed, items } = sides(p)
      // @ts-expect-error: refused by the compiler
      keyed.processBoth('b', items, { onLeft: () => undefined, onRight: () => undefined })
    })
    await refused((p) => {
      const { keyed } = sides(p)
      // @ts-expect-error: refused by the compiler
      keyed.processBoth('b', keyed, { onLeft: () => undefined })
    })
  })
})
