import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  carries,
  collectSink,
  count,
  generatedSource,
  pipeline,
  readPipelineState,
  type Source,
  tumbling,
  valueState,
} from '../../src/layers/pipeline/index.ts'
import { pause } from '../support/fixture.ts'

const records = 400
const keyOf = (n: number) => `key-${n % 37}`

/** Numbers up to a limit, ten at a time, where it waits; at `records` it ends. */
function upTo(limit: () => number): Source<number> {
  return {
    async open(from, { signal }) {
      let at = Number(from?.get('') ?? 0)
      return {
        partitions: () => [''],
        close: async () => undefined,
        async read() {
          while (at >= limit() && at < records && !signal.aborted) await pause(5)
          if (at >= records || signal.aborted) return null
          const values = Array.from({ length: Math.min(10, records - at) }, (_, i) => at + i)
          at += values.length
          return { partition: '', values, position: at }
        },
      }
    },
  }
}

it('A9.3: state, windows and timers of a savepoint are divided anew, and nothing is lost or doubled', async () => {
  const rp = await open('memory:')
  const out = collectSink<unknown>()
  let limit = 150
  const drawn = pipeline('divided', (p) => {
    const numbers = p.from(
      'numbers',
      upTo(() => limit),
      { time: (n) => n * 10 },
    )
    const keyed = numbers.keyBy(keyOf)
    keyed.window('windows', tumbling(700)).aggregate(count()).to('windowed', out)
    keyed
      .process('timed', {
        emits: carries<unknown>(),
        state: { seen: valueState<number>() },
        onRecord(_: number, { state, setTimer, time }) {
          state.seen.set((state.seen.get() ?? 0) + 1)
          setTimer(time! + 1000)
        },
        onTimer: (time, { key, state, emit }) => emit(['timer', key, time, state.seen.get() !== undefined]),
      })
      .to('fired', out)
  })
  const standing = async (parallelism: number) => {
    const run = await rp.run(drawn, { parallelism, checkpoint: { every: '1h' } }).started()
    while (parallelism === 1 && run.status().records < limit) await new Promise((resolve) => setImmediate(resolve))
    expect(run.status().operators.find(({ name }) => name === 'timed')!.keys).toBeGreaterThan(37)
    await run.stop()
    return await readPipelineState(rp, 'pipeline/divided', 'timed', 'key-5')
  }
  const one = await standing(1)
  expect(one.map(({ table }) => table)).toContain('state.seen')
  expect(await standing(4)).toEqual(one)
  expect(await standing(3)).toEqual(one)
  limit = records
  await rp.run(drawn, { parallelism: 5 }).result()

  const windows = new Map<string, number>()
  const fired: string[] = []
  for (let n = 0; n < records; n++) {
    const name = `${keyOf(n)}@${Math.floor((n * 10) / 700) * 700}`
    windows.set(name, (windows.get(name) ?? 0) + 1)
    fired.push(`${keyOf(n)}@${n * 10 + 1000}`)
  }
  const given = out.values.flatMap((each) =>
    Array.isArray(each) ? [] : [each as { key: string; start: number; value: number }],
  )
  expect(given.length).toBe(windows.size)
  expect(new Map(given.map(({ key, start, value }) => [`${key}@${start}`, value]))).toEqual(windows)
  const timers = out.values.flatMap((each) => (Array.isArray(each) ? [`${each[1]}@${each[2]}`] : []))
  expect(timers.sort()).toEqual(fired.sort())
  await rp.close()
})

it('A9.3: key groups are for good, and the most that the parallelism can be', async () => {
  const rp = await open('memory:')
  const drawn = pipeline('groups', (p) => {
    p.from(
      'numbers',
      generatedSource((n) => n, { count: 10 }),
    )
      .keyBy((n) => n % 3)
      .aggregate('counts', count())
      .to('out', collectSink())
  })
  const refused = { code: 'INVALID_ARGUMENT' }
  await expect(rp.run(drawn, { parallelism: 9, keyGroups: 8 }).result()).rejects.toMatchObject(refused)
  const run = await rp.run(drawn, { parallelism: 8, keyGroups: 8 })
  await run.result()
  const { checkpoint } = await run.result()
  const from = { from: checkpoint! }
  await expect(rp.run(drawn, { ...from, keyGroups: 16 }).result()).rejects.toMatchObject(refused)
  await expect(rp.run(drawn, { ...from, parallelism: 9 }).result()).rejects.toMatchObject(refused)
  expect(await rp.run(drawn, { ...from, keyGroups: 8, parallelism: 2 }).result()).toMatchObject({
    status: 'completed',
  })
  for (const parallelism of [0, 1.5, -1, '4' as unknown as number]) {
    await expect(rp.run(drawn, { id: 'other', parallelism }).result()).rejects.toMatchObject(refused)
  }
  await rp.close()
})

it('a dead letter goes back to the instance that has the state of its key', async () => {
  const rp = await open('memory:')
  const out = collectSink<{ readonly key: unknown; readonly value: number }>()
  let isBroken = true
  let limit = 60
  const drawn = pipeline('letters', (p) => {
    p.from(
      'numbers',
      upTo(() => limit),
    )
      .filter((n) => n < 60)
      .keyBy((n) => n % 20)
      .aggregate('sums', {
        initial: () => 0,
        add(total: number, n: number) {
          if (isBroken && n >= 40) throw new Error('not today')
          return total + n
        },
        merge: (a, b) => a + b,
        result: (total) => total,
      })
      .to('out', out)
  })
  const run = await rp.run(drawn, { parallelism: 4 }).started()
  while (run.status().records < limit) await new Promise((resolve) => setImmediate(resolve))
  await run.stop()
  isBroken = false
  const again = await rp.run(drawn, { parallelism: 3 }).started()
  expect(await again.redrive()).toBe(20)
  limit = records
  await again.result()
  const last = new Map(out.values.map(({ key, value }) => [key, value]))
  expect(last).toEqual(new Map(Array.from({ length: 20 }, (_, k) => [k, k + (k + 20) + (k + 40)])))
  await rp.close()
})
