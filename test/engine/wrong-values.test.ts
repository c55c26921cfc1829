// Values that were accepted in silence although they cannot mean anything: each is refused with a code.

import { afterEach, describe, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { aggregate, sqlProjection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { storeUrls } from '../support/store-urls.ts'
import { until } from '../support/until.ts'

const engines: Reprise[] = []
const removes: (() => unknown)[] = []
afterEach(async () => {
  for (const rp of engines.splice(0)) await rp.close()
  for (const remove of removes.splice(0)) await remove()
})
async function engine(): Promise<Reprise> {
  const rp = await open('memory:')
  engines.push(rp)
  return rp
}
const code = (name: string) => expect.objectContaining({ code: name })
const untyped = (value: unknown) => value as never

describe('wrong values', () => {
  it('ids that are not text: two objects would share one timeline', async () => {
    const rp = await engine()
    const counter = timeline('counter', { initial: () => 0, apply: (n) => n + 1 })
    const plain = workflow('plain', async () => 1)
    for (const id of [{ order: 1 }, null, 5]) {
      await expect(rp.open(counter, untyped(id)).append({ type: 'x' })).rejects.toEqual(code('INVALID_ID'))
      await expect(rp.run(plain, { id: untyped(id) }).result()).rejects.toEqual(code('INVALID_ID'))
    }
    expect(await rp.list({})).toEqual([])
  })

  it('misspelt ranges of rows, names of events, limits, lists of definitions, addresses', async () => {
    const rp = await engine()
    const rows = await rp.open(table<number>('rows'))
    await rows.set('a', 1)
    expect(() => [...rows.keys(untyped({ prefx: 'z' }))]).toThrow(/did you mean prefix/)
    expect(() => rows.watch(untyped({ form: 'b' }), () => undefined)).toThrow(/did you mean from/)
    expect(() => rp.events.on(untyped('problm'), () => undefined)).toThrow(/did you mean problem/)
    await expect(rp.feed('' as never, { limit: -1 })).rejects.toEqual(code('INVALID_ARGUMENT'))
    expect(() => rp.work(untyped(5))).toThrow(/takes a list/)
    await expect(open(untyped(42))).rejects.toEqual(code('INVALID_ARGUMENT'))
  })

  it('options of a run, reasons, steps, positions and addresses, each with its name', async () => {
    const rp = await engine()
    const plain = workflow('plain', async (ctx) => await ctx.signal('go'))
    const refused = (name: string) =>
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(name) })
    await expect(rp.run(plain, { attributes: untyped(5) }).result()).rejects.toEqual(refused('attributes'))
    await expect(rp.run(plain, { queueKey: untyped(5) }).result()).rejects.toEqual(refused('queueKey'))
    const run = await rp.run(plain)
    await expect(run.terminate({ reason: untyped({}) })).rejects.toEqual(refused('reason'))
    await expect(run.cancel({ reason: untyped(5) })).rejects.toEqual(refused('reason'))
    await expect(run.fork(untyped(5))).rejects.toEqual(refused('the step of fork()'))
    for (const position of ['garbage', 'f1.', 'f1.AAAA', 5]) {
      await expect(rp.feed(untyped(position))).rejects.toEqual(refused('a position of the feed'))
    }
    await expect(open('sqlite:')).rejects.toEqual(refused('the path of a file'))
  })

  it('a source that throws null fails its job', async () => {
    const rp = await engine()
    const source = () => {
      throw null
    }
    const empty = job('empty', {
      source: untyped(source),
      key: () => 'k',
      each: () => undefined,
      retry: { attempts: 1 },
    })
    await expect(rp.run(empty).result()).rejects.toThrow('the job failed with null')
  })

  it('a setup that fails is retried with growing pauses', async () => {
    const { url, remove } = storeUrls.sqlite!()
    removes.push(remove)
    const rp = await open(url)
    engines.push(rp)
    const acts = aggregate('acts', {
      initial: () => 0,
      evolve: { did: (n: number) => n },
      decide: { act: () => ({ type: 'did' }) },
    })
    let calls = 0
    const broken = sqlProjection('broken', {
      from: [acts],
      setup: async (sql) => {
        calls += 1
        await sql.run('CREATE TABLE broken (')
      },
      on: { did: () => undefined },
    })
    rp.work([broken])
    await until(() => calls >= 3)
    const before = calls
    for (let i = 0; i < 100; i++) {
      await rp.open(acts, `a${i}`).do('act')
      await new Promise((resolve) => setTimeout(resolve, 15))
    }
    // Each of these commits wakes readers; none of them may cut a pause short.
    expect(calls - before).toBeLessThan(25)
  })
})
