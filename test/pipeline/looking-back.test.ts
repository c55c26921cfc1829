// Going back to a time, and comparing the state of a key between two checkpoints, with the pipeline running.

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { collectSink, comparePipelineState, count, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'

/** Numbers from 0, up to the permitted one. */
function numbers(gate: { until: number }): Source<number> {
  return {
    async open(from, { signal }) {
      let at = Number(from?.get('') ?? 0)
      return {
        partitions: () => [''],
        close: async () => undefined,
        async read() {
          while (at >= gate.until && !signal.aborted) await sleep(2)
          const values = Array.from({ length: Math.max(0, gate.until - at) }, (_, i) => at + i)
          at += values.length
          return { partition: '', values, position: at }
        },
      }
    },
  }
}

it('starts from the newest checkpoint at or before a time, and lists the differences between two', async () => {
  const rp = await open('memory:')
  const gate = { until: 3 }
  const out = collectSink<string>()
  const counted = pipeline('counted', (p) => {
    p.from('numbers', numbers(gate))
      .keyBy((n) => (n % 2 === 0 ? 'even' : n < 5 ? 'odd' : 'high'))
      .aggregate('counts', count())
      .map(({ key, value }) => `${key} ${value}`)
      .to('out', out)
  })
  const options = { checkpoint: { every: '1h' } } as const
  const run = await rp.run(counted, options).started()
  await until(() => run.status().records === 3, run.result())
  const timeOf = async ({ id }: { readonly id: string }) =>
    (await rp.checkpoints('pipeline/counted')).find((one) => one.id === id)!.createdAt
  const first = await run.savepoint()
  const then = await timeOf(first)
  gate.until = 6
  await until(() => run.status().records === 6, run.result())
  let second = await run.savepoint()
  // Savepoints carry the time of the engine's clock, which may be milliseconds apart from this process's.
  while ((await timeOf(second)) <= then) second = await run.savepoint()
  const where = ['pipeline/counted', 'counts'] as const
  const cell = { table: 'keys', space: 0 }
  // It runs meanwhile.
  expect(await comparePipelineState(rp, ...where, { before: first.id })).toEqual([
    { ...cell, key: 'even', before: 2, after: 3 },
    { ...cell, key: 'odd', before: 1, after: 2 },
    { ...cell, key: 'high', before: undefined, after: 1 },
  ])
  const backwards = { before: second.id, after: first.id, key: 'high' }
  expect(await comparePipelineState(rp, ...where, backwards)).toEqual([
    { ...cell, key: 'high', before: 1, after: undefined },
  ])
  expect(await comparePipelineState(rp, ...where, { before: second.id })).toEqual([])
  await run.stop()
  const seen = out.values.length

  await expect(rp.run(counted, { ...options, from: { time: 1 } }).result()).rejects.toMatchObject({
    code: 'NOT_FOUND',
  })
  // Null would be 1970, and the meaning of text is undefined.
  for (const time of [null, '2026-05-01', true, undefined]) {
    const from = { time: time as never }
    await expect(rp.run(counted, { ...options, from })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  }
  await expect(rp.run(counted, { ...options, from: { time: Number.NaN } })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  })
  const again = await rp.run(counted, { ...options, from: { time: new Date(then) } }).started()
  await until(() => again.status().records === 3, again.result())
  await again.stop()
  // The later records are read again.
  expect(out.values.slice(seen)).toEqual(['odd 2', 'even 3', 'high 1'])
  await rp.close()
})
