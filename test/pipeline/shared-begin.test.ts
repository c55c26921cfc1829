// Shared work that begins from a time: each task goes back once, whichever process has it, also if a process leaves before its
// first checkpoint. A call that would run shared work as a whole is refused, and changes nothing.

import { expect, it } from 'vitest'
import { collectSink, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { failingTimelines } from '../../src/operations/failures.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Gate {
  limit: number
}

function gated(gate: Gate): Source<number> {
  return {
    partitions: async () => ['0'],
    async open(from, { signal }) {
      let at = Number(from?.get('0') ?? 0)
      return {
        partitions: () => ['0'],
        close: async () => undefined,
        async read() {
          while (at >= gate.limit && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5))
          if (signal.aborted) return null
          at += 1
          return { partition: '0', values: [at], position: at }
        },
      }
    },
  }
}

onEveryStore('shared work', (world) => {
  it('goes back to a time once, and another process continues from there', async () => {
    const w = await world()
    const gate: Gate = { limit: 3 }
    const out = collectSink<number>()
    const flow = pipeline('flow', (p) => void p.from('in', gated(gate)).to('out', out), {
      checkpoint: { every: '20ms' },
    })
    const first = await w.engine()
    first.work([flow])
    await until(() => out.values.length === 3)
    await first.close()
    const reading = await w.engine()
    const [newest] = await reading.checkpoints('pipeline/flow/@0')
    const from = { time: newest!.createdAt }
    const second = await w.engine()
    gate.limit = 6
    second.work([flow])
    await until(() => out.values.length === 6)
    await second.close()
    const third = await w.engine()
    third.work([flow], { from })
    await until(() => out.values.length === 9)
    await third.close()
    const fourth = await w.engine()
    gate.limit = 7
    fourth.work([flow], { from })
    await until(() => out.values.length === 10)
    expect(out.values).toEqual([1, 2, 3, 4, 5, 6, 4, 5, 6, 7])
    await expect(async () => reading.work([flow], { from: 'abc' } as never)).rejects.toThrow('from must be { time }')
    await expect(async () => reading.work([flow], { takeover: true } as never)).rejects.toThrow(
      'unknown option takeover',
    )
  })

  it('keeps its status when a process wrongly runs it as a whole', async () => {
    const w = await world()
    const out = collectSink<number>()
    const flow = pipeline('flow', (p) => void p.from('in', gated({ limit: 3 })).to('out', out))
    const worker = await w.engine()
    worker.work([flow])
    await until(() => out.values.length === 3)
    const other = await w.engine()
    for (const options of [{}, { takeover: true }, { from: { time: 0 } }, { parallelism: 2 }]) {
      await expect(other.run(flow, options).result()).rejects.toMatchObject({ code: 'CONFLICT' })
      const head = (await other.head('pipeline/flow'))!
      expect([head.status, head.owner]).toEqual(['shared', null])
    }
    await declareKinds(other)
    expect(await failingTimelines(other)).toEqual([])
  })
})
