// A pipeline that an earlier release left as failed: it has the status, and not the reason that this release keeps. Each way out
// resumes from the last checkpoint, and every record counts once.

import { expect, it } from 'vitest'
import { withoutFailure } from '../../src/engine/storage/failure-notes.ts'
import { submit } from '../../src/engine/storage/kernel.ts'
import { collectSink, generatedSource, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { act } from '../../src/operations/run-verb.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

/** With a fault, the source returns ten of its twenty records, and then waits for the fault. */
function source(fault: Promise<never> | null): Source<number> {
  return {
    async open(from, context) {
      const reader = await generatedSource((n) => n, { count: 20 }).open(from, context)
      let given = 0
      return {
        partitions: () => reader.partitions(),
        close: () => reader.close(),
        read() {
          if (fault && given === 10) return fault
          given += 5
          return reader.read(5)
        },
      }
    },
  }
}

/** The record 3 is a dead letter as long as the pipeline is broken. */
function flow(fault: Promise<never> | null) {
  const out = collectSink<number>()
  const passed = (n: number) => {
    if (fault && n === 3) throw new Error('not 3')
    return n
  }
  const draw = (p: Parameters<Parameters<typeof pipeline>[1]>[0]) =>
    void p.from('numbers', source(fault)).map(passed).to('out', out)
  return { out, definition: pipeline('flow', draw, { checkpoint: { every: '1h' } }) }
}

/** Fails after a savepoint; then the notes of this release are removed. */
async function failedEarlier(w: World): Promise<{ readonly savepoint: string }> {
  const rp = await w.engine()
  let fail: (error: Error) => void = () => undefined
  const fault = new Promise<never>((_, reject) => {
    fail = reject
  })
  const { definition, out } = flow(fault)
  const run = await rp.run(definition).started()
  await until(() => run.status().records === 10)
  const { id } = await run.savepoint()
  fail(new Error('no such partition'))
  await expect(run.result()).rejects.toThrow('no such partition')
  expect([...out.values].sort((a, b) => a - b)).toEqual(numbers(0, 10).filter((n) => n !== 3))
  const head = (await rp.head('pipeline/flow'))!
  await submit(hostOf(rp).kernel, {
    guard: { timeline: head.timeline, epoch: head.epoch },
    attributes: withoutFailure,
  })
  expect(await rp.head('pipeline/flow')).toMatchObject({ status: 'failed', owner: null })
  await rp.close()
  return { savepoint: id }
}

onEveryStore('a pipeline that an earlier release left as failed', (world) => {
  it.each(['run again', 'cancelled first', 'from its savepoint'])('resumes: %s', async (way) => {
    const w = await world()
    const { savepoint } = await failedEarlier(w)
    const rp = await w.engine()
    await declareKinds(rp)
    if (way === 'cancelled first') await act(rp, (await rp.head('pipeline/flow'))!, 'cancel', { reason: 'by hand' })
    const { definition, out } = flow(null)
    const options = way === 'from its savepoint' ? { from: savepoint } : {}
    expect((await rp.run(definition, options).result()).status).toBe('completed')
    expect([...out.values].sort((a, b) => a - b)).toEqual(numbers(10, 20))
  })

  it('a redrive sends its dead letters back with the next run', async () => {
    const w = await world()
    await failedEarlier(w)
    const rp = await w.engine()
    await declareKinds(rp)
    const redriven = await act(rp, (await rp.head('pipeline/flow'))!, 'redrive', {})
    expect(redriven.text).toBe('1 will be retried when it is run again')
    const { definition, out } = flow(null)
    expect((await rp.run(definition).result()).deadLetters).toBe(0)
    expect([...out.values].sort((a, b) => a - b)).toEqual([3, ...numbers(10, 20)])
  })

  it('a rollback is refused with the way that there is', async () => {
    const w = await world()
    await failedEarlier(w)
    const rp = await w.engine()
    await declareKinds(rp)
    const head = (await rp.head('pipeline/flow'))!
    await expect(act(rp, head, 'rollback' as never, {})).rejects.toThrow(/run it with \{ from: CHECKPOINT \}/)
  })
})
