// Requests of other processes to a pipeline: to stop with a savepoint, or to end at once. The verbs have the same meaning as in
// code, and later lists are correct.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/index.ts'
import { collectSink, generatedSource, pipeline, type Sink, type Source } from '../../src/layers/pipeline/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { act, mayAct } from '../../src/operations/run-verb.ts'
import { pause, until } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const slowly = (isSlow = true): Source<number> => ({
  async open(from, context) {
    const reader = await generatedSource((n) => n, isSlow ? {} : { count: 100 }).open(from, context)
    return {
      partitions: () => reader.partitions(),
      close: () => reader.close(),
      async read() {
        await pause(5)
        return context.signal.aborted ? null : reader.read(2)
      },
    }
  },
})

/** Its second checkpoint hangs forever. */
function hanging(): { readonly sink: Sink<number>; prepared: number } {
  const seen = {
    prepared: 0,
    sink: {
      open: async () => ({
        pending: 0,
        write: () => undefined,
        cut: () => async () => {
          seen.prepared += 1
          if (seen.prepared > 1) await new Promise(() => undefined)
          return null
        },
        commit: async () => undefined,
        rejoin: () => undefined,
        close: async () => undefined,
      }),
    } satisfies Sink<number>,
  }
  return seen
}

/** Knows a pipeline without its code. */
async function other(w: World): Promise<Reprise> {
  const rp = await w.engine()
  await declareKinds(rp)
  return rp
}

const drawn = (sink: Sink<number> = collectSink(), source = slowly()) =>
  pipeline('flow', (p) => void p.from('numbers', source).to('out', sink), { checkpoint: { every: '20ms' } })

async function ask(rp: Reprise, verb: 'stop' | 'cancel' | 'terminate', timeline = 'pipeline/flow') {
  const [head] = await rp.list({ prefix: timeline })
  return await act(rp, head!, verb, { reason: 'enough' })
}

const statusOf = async (rp: Reprise) => (await rp.list({ prefix: 'pipeline/flow' }))[0]!.status

onEveryStore('asked from another process', (world) => {
  it('stop leaves a savepoint, cancel and terminate leave none, and the next run resumes after each of them', async () => {
    const w = await world()
    const [here, there] = [await w.engine(), await other(w)]
    for (const [verb, status] of [
      ['stop', 'stopped'],
      ['cancel', 'cancelled'],
      ['terminate', 'cancelled'],
    ] as const) {
      const run = await here.run(drawn(), {}).started()
      await until(() => run.status().checkpoints.recent.length > 0)
      await ask(there, verb)
      expect((await run.result()).status).toBe(status)
      expect(await statusOf(there)).toBe(status)
      const [newest] = await there.checkpoints('pipeline/flow')
      expect(newest!.trigger === 'savepoint').toBe(verb === 'stop')
    }
    const last = await here.run(drawn(collectSink(), slowly(false)), {}).result()
    expect(last).toMatchObject({ status: 'completed' })
    expect(await statusOf(there)).toBe('completed')
    const [head] = await there.list({ prefix: 'pipeline/flow' })
    for (const verb of ['stop', 'cancel', 'terminate'] as const) {
      // Also before the prompt for a confirmation.
      await expect(mayAct(there, head!, verb)).rejects.toMatchObject({ code: 'ENDED' })
      await expect(ask(there, verb)).rejects.toMatchObject({ code: 'ENDED' })
    }
  }, 60_000)

  it('cancel ends one whose sink hangs, also while a stop waits for that sink', async () => {
    const w = await world()
    const [here, there] = [await w.engine(), await other(w)]
    for (const isStopping of [false, true]) {
      const seen = hanging()
      const run = await here.run(drawn(seen.sink), {}).started()
      await until(() => seen.prepared > 1)
      if (isStopping) await ask(there, 'stop')
      if (isStopping) await until(() => run.status().status === 'stopping')
      await ask(there, 'cancel')
      expect((await run.result()).status).toBe('cancelled')
      expect(await statusOf(there)).toBe('cancelled')
    }
  }, 60_000)

  it('one without an owner is cancelled at its position, and may then be deleted', async () => {
    const w = await world()
    const [here, there] = [await w.engine(), await other(w)]
    const run = await here.run(drawn(), {}).started()
    await until(() => run.status().checkpoints.recent.length > 0)
    await run.stop()
    await expect(there.delete('pipeline/flow')).rejects.toMatchObject({ code: 'CONFLICT' })
    expect((await ask(there, 'stop')).text).toContain('no process runs')
    expect((await ask(there, 'cancel')).text).toContain('no process was running')
    expect(await statusOf(there)).toBe('cancelled')
    // Sinks keep their output: a group with this pipeline could be captured, and never be restored.
    await expect(there.groups.capture('cut', ['pipeline/flow'])).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('cannot be part of a group'),
    })
    await there.delete('pipeline/flow', { savepoints: true })
    expect(await there.list({ prefix: 'pipeline/flow' })).toEqual([])
  }, 60_000)

  it('a run that failed is listed as failed', async () => {
    const w = await world()
    const rp = await w.engine()
    const broken: Sink<number> = {
      open: () => Promise.reject(new Error('no such place')),
    }
    await expect(rp.run(drawn(broken)).result()).rejects.toThrow('no such place')
    expect(await statusOf(rp)).toBe('failed')
  })
})

onEveryStore(
  'a wish that came too late',
  (world) => {
    it('does not stop the run after the one that it was meant for', async () => {
      const w = await world()
      const [here, there] = [await w.engine(), await other(w)]
      const first = await here.run(drawn(), {}).started()
      const [head] = await there.list({ prefix: 'pipeline/flow' })
      await first.cancel()
      // As if the request arrived at the moment in which the run ended.
      await act(there, head!, 'cancel', { reason: 'late' })
      const second = await here.run(drawn(collectSink(), slowly(false)), {}).result()
      expect(second.status).toBe('completed')
    }, 60_000)
  },
  ['memory'],
)
