// A run that another process replaced reports that, whatever error it met first; a run that is stopped during a hanging call
// stops, and the awaited call is visible.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { generatedSource, pipeline, type Sink, type Source } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const never = () => new Promise<never>(() => undefined)

/** An outside sink whose `write` fails with the given error, as a broker that ended a transaction does. */
function outside(failure: { error: Error | null }): Sink<number> {
  return {
    open: async () => ({
      pending: 0,
      write: () => {
        if (failure.error) throw failure.error
      },
      cut: () => async () => null,
      commit: async () => undefined,
      rejoin: () => undefined,
      close: async () => undefined,
    }),
  }
}

onEveryStore('a displaced run', (world) => {
  it('is FENCED, though its sink met TRANSACTION_EXPIRED first: its advice would make results twice', async () => {
    const w = await world()
    const [paused, other] = [await w.engine(), await w.engine()]
    const failure: { error: Error | null } = { error: null }
    let isHeld = false
    const slow: Source<number> = {
      async open() {
        let n = 0
        return {
          partitions: () => ['0'],
          close: async () => undefined,
          async read() {
            await until(() => !isHeld)
            return { partition: '0', values: [n++], position: n }
          },
        }
      },
    }
    const draw = (sink: Sink<number>) => pipeline('flow', (p) => void p.from('in', slow).to('out', sink))
    const run = await paused.run(draw(outside(failure)), {})
    await run.started()
    isHeld = true
    const taking = await other.run(draw(outside({ error: null })), { takeover: true })
    await taking.started()
    failure.error = new RepriseError('TRANSACTION_EXPIRED', 'the broker no longer has it')
    isHeld = false
    await expect(run.result()).rejects.toMatchObject({ code: 'FENCED', cause: failure.error })
    // The other one has nothing to do with that.
    expect((await other.head('pipeline/flow'))!.attributes.$failing).toBeUndefined()
    await taking.cancel()
  })

  it('an error of a run that was not replaced is reported unchanged', async () => {
    const rp = await (await world()).engine()
    const error = new RepriseError('TRANSACTION_EXPIRED', 'the broker no longer has it')
    const flow = pipeline(
      'flow',
      (p) =>
        void p
          .from(
            'in',
            generatedSource((n) => n, { count: 1 }),
          )
          .to('out', outside({ error })),
    )
    await expect((await rp.run(flow)).result()).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
  })

  it.each(['source', 'sink'])(
    'is stopped while a %s does not open, keeps its status, and shows what it waits for',
    async (what) => {
      const rp = await (await world()).engine()
      const hanging = { open: never, partitions: async () => ['0'] }
      const ok = generatedSource((n) => n)
      const flow = pipeline('flow', (p) => {
        p.from('in', what === 'source' ? (hanging as Source<number>) : ok).to(
          'out',
          what === 'sink' ? (hanging as unknown as Sink<number>) : outside({ error: null }),
        )
      })
      const run = await rp.run(flow)
      const { worker } = hostOf(rp).kernel
      const name = what === 'source' ? 'in' : 'out'
      await until(() => worker.inHand().some((each) => each.what === `opening the ${what} ${name}`))
      expect(await run.stop()).toMatchObject({ status: 'stopped', records: 0 })
      expect(worker.inHand()).toEqual([])
      expect((await rp.head('pipeline/flow'))!.status).not.toBe('failed')
    },
  )

  it('ends though a sink does not close, and shows meanwhile that it waits for it', async () => {
    const rp = await (await world()).engine()
    const sink: Sink<number> = {
      open: async () => ({ ...(await outside({ error: null }).open({} as never, null)), close: never }),
    }
    const flow = pipeline(
      'flow',
      (p) =>
        void p
          .from(
            'in',
            generatedSource((n) => n, { count: 3 }),
          )
          .to('out', sink),
    )
    const run = await rp.run(flow)
    const { worker } = hostOf(rp).kernel
    await until(() => worker.inHand().some((each) => each.what === 'closing the sink out'), run.result())
    expect(await run.result()).toMatchObject({ status: 'completed', records: 3 })
    expect(worker.inHand()).toEqual([])
  })
})
