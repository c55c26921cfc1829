// The records of a pipeline as tools see them: current for a run in their own process, from the last checkpoint for any other,
// and all tasks together for a shared one.

import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { open, type Reprise } from '../../src/index.ts'
import { collectSink, count, pipeline, type Source, tumbling } from '../../src/layers/pipeline/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { pause } from '../support/fixture.ts'

const folders: string[] = []
const engines: Reprise[] = []
afterEach(async () => {
  for (const rp of engines.splice(0)) await rp.close()
  for (const folder of folders.splice(0)) removeFolder(folder)
})

async function opened(url: string): Promise<Reprise> {
  const rp = await open(url)
  engines.push(rp)
  await declareKinds(rp)
  return rp
}

/** Emits `each` records per partition, then none until it is stopped or ended. */
function numbers(each: number, partitions: readonly string[], hasEnd: { value: boolean }): Source<number> {
  return {
    partitions: async () => partitions,
    async open(from, context) {
      const own = context.partitions ?? partitions
      const left = own.filter((name) => Number(from?.get(name) ?? 0) < each)
      return {
        partitions: () => own,
        close: async () => undefined,
        async read() {
          const partition = left.pop()
          if (partition !== undefined) {
            return { partition, values: Array.from({ length: each }, (_, n) => 1000 + n), position: each }
          }
          while (!hasEnd.value && !context.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5))
          return null
        },
      }
    },
  }
}

function drawn(name: string, hasEnd: { value: boolean }, partitions: readonly string[] = ['a']) {
  const out = collectSink<unknown>()
  const source = numbers(10, partitions, hasEnd)
  return pipeline(
    name,
    (p) => {
      const all = p.from('numbers', source, { time: (n) => n, keyed: true })
      all
        .keyBy((n) => n % 3)
        .window('per-second', tumbling(1000))
        .aggregate(count())
        .to('counts', out)
    },
    { checkpoint: { each: '50ms' } },
  )
}

async function flowOf(rp: Reprise, timeline: string) {
  const head = (await rp.head(timeline))!
  return (await hostOf(rp).models.find(timeline)!.flows!({ engine: rp, head }))!
}

async function until<T>(read: () => Promise<T>, isMet: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read()
    if (isMet(value)) return value
    await pause(10)
  }
}

it('a run of this process is seen as it is now, and of another one as its last checkpoint noted it', async () => {
  const folder = newFolder()
  folders.push(folder)
  const url = `sqlite:${join(folder, 'store.db')}`
  const [rp, other] = [await opened(url), await opened(url)]
  const hasEnd = { value: false }
  const run = await rp.run(drawn('seen', hasEnd)).started()
  const isRead = (flow: Awaited<ReturnType<typeof flowOf>> | null) => flow?.parts[0]?.records === 10
  const live = await until(() => flowOf(rp, run.timeline), isRead)
  expect([live.from, live.tasks]).toEqual(['process', []])
  expect(live.parts.map(({ name, kind, to }) => [name, kind, to])).toEqual([
    ['numbers', 'source', ['keyBy#1']],
    ['keyBy#1', 'operator', ['per-second']],
    ['per-second', 'operator', ['counts']],
    ['counts', 'sink', []],
  ])
  expect(live.parts.map(({ watermark }) => watermark)).toEqual([1009, 1009, 1009, 1009])
  expect(live.parts[0]!.lagMs).toBeGreaterThan(0)
  const noted = await until(() => flowOf(other, run.timeline), isRead)
  expect(noted.from).toBe('checkpoint')
  expect(noted.parts.map(({ name, records, keys }) => [name, records, keys > 0])).toEqual([
    ['numbers', 10, false],
    ['keyBy#1', 10, false],
    ['per-second', 10, true],
    ['counts', 0, false],
  ])
  expect(noted.checkpoint!.at).toBeGreaterThan(0)
  hasEnd.value = true
  await run.result()
  for (const engine of [rp, other]) {
    const { from, parts, checkpoint } = await flowOf(engine, run.timeline)
    expect([from, parts.map(({ records }) => records)]).toEqual(['checkpoint', [10, 10, 10, 3]])
    expect(parts.every(({ isEnded }) => isEnded)).toBe(true)
    expect(checkpoint!.checkpoint).toBe(run.status().checkpoints.recent.at(-1)!.checkpoint)
  }
})

it('tasks of a shared pipeline are seen together, wherever they run', async () => {
  const folder = newFolder()
  folders.push(folder)
  const url = `sqlite:${join(folder, 'store.db')}`
  const [rp, other] = [await opened(url), await opened(url)]
  const hasEnd = { value: false }
  rp.work([drawn('parts', hasEnd, ['a', 'b'])])
  const all = async (engine: Reprise) =>
    (await engine.head('pipeline/parts')) ? await flowOf(engine, 'pipeline/parts') : null
  for (const engine of [rp, other]) {
    const flow = await until(
      () => all(engine),
      (each) => each?.parts[0]?.records === 20,
    )
    expect(flow!.tasks).toEqual(['pipeline/parts/@a', 'pipeline/parts/@b'])
    expect(flow!.parts[1]!.records).toBe(20)
  }
  hasEnd.value = true
})
