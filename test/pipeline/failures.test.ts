// Faults and their declared handling: poison records, failing SQL, a damaged checkpoint, a displaced owner, changed code.

import { describe, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { open, type Reprise } from '../../src/index.ts'
import {
  collectSink,
  count,
  generatedSource,
  listState,
  pipeline,
  rowSink,
  type Sink,
  type Source,
  sqlSink,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { discard, finalOf, lettersOf } from '../../src/operations/letters.ts'
import { act } from '../../src/operations/run-verb.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

/** Never ends by itself. */
function endless<T>(first: readonly T[]): Source<T> {
  return {
    async open(from, { signal }) {
      let at = Number(from?.get('') ?? 0)
      return {
        partitions: () => [''],
        close: async () => undefined,
        read() {
          const batch = first.slice(at)
          at = first.length
          if (batch.length > 0) return { partition: '', values: batch, position: at }
          return new Promise<null>((resolve) => {
            if (signal.aborted) resolve(null)
            signal.addEventListener('abort', () => resolve(null), { once: true })
          })
        },
      }
    },
  }
}

it('a row() that throws names the sink, the record and the reason', async () => {
  const rp = await open('memory:')
  const rows = rowSink<{ readonly i?: { readonly n: number } }>({ table: 'sums', row: ({ i }) => ({ n: i!.n }) })
  const bad = pipeline('bad-row', (p) => p.from('numbers', valueSource([{ i: { n: 1 } }, {}])).to('sums', rows))
  await expect(rp.run(bad).result()).rejects.toThrow(
    /row of rowSink\(\{ table: 'sums' \}\) failed for \{\}: .*undefined/,
  )
  await rp.close()
})

describe('a poison record', () => {
  const define = (isMended: boolean, out: Sink<number>) =>
    pipeline('poisoned', (p) => {
      p.from('numbers', endless([1, 2, 3]))
        .map((n) => {
          if (n === 2 && !isMended) throw new TypeError('two is bad')
          return n * 10
        })
        .to('out', out)
    })

  it('is set aside with its reason, survives a restart, and is sent back when the code is mended', async () => {
    const rp = await open('memory:')
    const out = collectSink<number>()
    const first = await rp.run(define(false, out)).started()
    await until(() => first.status().records === 3)
    const stopped = await first.stop()
    expect(stopped.deadLetters).toBe(1)
    expect(out.values).toEqual([10, 30])
    const second = await rp.run(define(true, out)).started()
    expect(await second.deadLetters()).toMatchObject([
      { id: 1, operator: 'map#1', value: 2, error: 'TypeError: two is bad' },
    ])
    expect(await second.redrive()).toBe(1)
    expect((await second.stop()).deadLetters).toBe(0)
    expect(out.values).toEqual([10, 30, 20])
    await rp.close()
  })

  it('is one too many at the limit: the run ends, and nothing is lost', async () => {
    const rp = await open('memory:')
    const out = collectSink<number>()
    await expect(rp.run(define(false, out), { deadLettersMax: 0 }).result()).rejects.toMatchObject({
      code: 'LIMIT_EXCEEDED',
    })
    expect(out.values).toEqual([])
    const run = await rp.run(define(false, out), { deadLettersMax: 1 }).started()
    await until(() => run.status().records === 3)
    await run.stop()
    expect(out.values).toEqual([10, 30])
    await rp.close()
  })
})

onEveryStore(
  'rows',
  (world) => {
    it('B7: that the database refuses come to nothing together with their checkpoint, and are tried again', async () => {
      const rp = await (await world()).engine()
      let failures = 2
      const table = `letters_${Date.now()}`
      const sink = sqlSink<number>({
        setup: `CREATE TABLE IF NOT EXISTS ${table} (n BIGINT)`,
        async write(sql, all) {
          for (const n of all) await sql.run(`INSERT INTO ${table} (n) VALUES (?)`, n)
          if (failures-- > 0) throw new Error('not this time')
        },
      })
      const report = await rp
        .run(
          pipeline('tried', (p) => {
            p.from('numbers', valueSource([1, 2, 3])).to('rows', sink)
          }),
          {},
        )
        .result()
      expect(report.status).toBe('completed')
      expect((await rp.sql<{ n: number }>(`SELECT n FROM ${table} ORDER BY n`)).map(({ n }) => Number(n))).toEqual([
        1, 2, 3,
      ])
    })

    it('that the database never takes end the run with its reason', async () => {
      const rp = await (await world()).engine()
      const refused = pipeline('refused', (p) => {
        p.from('numbers', valueSource([1])).to('rows', rowSink<number>({ table: 'no_such_table', row: (n) => ({ n }) }))
      })
      await expect(rp.run(refused).result()).rejects.toMatchObject({ code: 'RIDER_FAILED' })
      // It can be mended and run again.
      const mended = pipeline('refused', (p) => {
        p.from('numbers', valueSource([1])).to('rows', collectSink())
      })
      expect((await rp.run(mended).result()).status).toBe('completed')
    })
  },
  ['sqlite', 'postgres'],
)

onEveryStore('wishes from another process', (world) => {
  it('send letters back, forget them, and stop with a savepoint', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const out = collectSink<number>()
    let isMended = false
    const drawn = pipeline('asked', (p) => {
      p.from('numbers', endless([1, 2, 3]))
        .map((n) => {
          if (n > 1 && !isMended) throw new TypeError('too large')
          return n
        })
        .to('out', out)
    })
    await declareKinds(two)
    const run = await one.run(drawn, { checkpoint: { every: 1 } }).started()
    await until(() => run.status().checkpoints.recent.length > 0)
    const head = () => two.head('pipeline/asked').then((found) => found!)
    expect((await lettersOf(two, [await head()])).map(({ key, item }) => [key, item])).toEqual([
      ['1', 2],
      ['2', 3],
    ])
    isMended = true
    const { facts } = await act(two, await head(), 'redrive', { keys: ['1', '9'] })
    expect(facts).toEqual({ redriven: ['1'], missing: ['9'] })
    await until(() => out.values.length === 2)
    expect(await discard(two, [await head()], ['2'])).toEqual({ discarded: ['2'], missing: [] })
    await until(() => run.status().deadLetters === 0)
    await act(two, await head(), 'stop', { reason: 'deploy' })
    expect(await run.result()).toMatchObject({ status: 'stopped', deadLetters: 0, records: 3 })
    expect(out.values).toEqual([1, 2])
    expect((await act(two, await head(), 'stop', { reason: 'again' })).text).toContain('no process runs')
  })
})

onEveryStore('a pipeline that is done', (world) => {
  it('redrives no letters, forgets none, and reports it', async () => {
    const rp = await (await world()).engine()
    await declareKinds(rp)
    const done = pipeline('over', (p) => {
      p.from('numbers', valueSource([1]))
        .map((): number => {
          throw new TypeError('never')
        })
        .to('out', collectSink<number>())
    })
    const run = rp.run(done)
    await run.result()
    const head = (await rp.head('pipeline/over'))!
    await expect(run.redrive()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(run.discard()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(act(rp, head, 'redrive', {})).rejects.toMatchObject({ code: 'CONFLICT' })
    await expect(discard(rp, [head], ['1'])).rejects.toMatchObject({ code: 'CONFLICT' })
    expect(await run.deadLetters()).toMatchObject([{ id: 1, value: 1 }])
    expect(finalOf(rp, [head])).toEqual([expect.stringContaining('has finished: its dead letters')])
  })
})

onEveryStore('a pipeline that was stopped', (world) => {
  it('redrives letters in the continuing run, not in the ended one', async () => {
    const rp = await (await world()).engine()
    await declareKinds(rp)
    const out = collectSink<number>()
    let isMended = false
    const halted = pipeline('halted', (p) => {
      p.from('numbers', endless([1, 2]))
        .map((n) => {
          if (n === 2 && !isMended) throw new TypeError('too large')
          return n
        })
        .to('out', out)
    })
    const first = await rp.run(halted).started()
    await until(() => first.status().deadLetters === 1)
    await first.stop()
    isMended = true
    await expect(first.redrive()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(first.discard()).rejects.toMatchObject({ code: 'CLOSED' })
    const head = (await rp.head('pipeline/halted'))!
    expect(finalOf(rp, [head])).toEqual([])
    const second = await rp.run(halted).started()
    expect(await second.redrive()).toBe(1)
    await second.stop()
    expect(out.values).toEqual([1, 2])
  })
})

onEveryStore('an owner', (world) => {
  it('A6.3: that was displaced is fenced, and nothing that it has becomes visible', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const [outOne, outTwo] = [collectSink<number>(), collectSink<number>()]
    const define = (out: Sink<number>) =>
      pipeline('owned', (p) => {
        p.from(
          'numbers',
          generatedSource((n) => n),
        )
          .filter((n) => n % 1000 === 0)
          .to('out', out)
      })
    const first = await one.run(define(outOne), { checkpoint: { every: '1h' } }).started()
    await expect(two.run(define(outTwo), {}).result()).rejects.toMatchObject({ code: 'OWNED' })
    const second = await two.run(define(outTwo), { takeover: true }).started()
    const ended = first.result()
    first.checkpoint().catch(() => undefined)
    await expect(ended).rejects.toMatchObject({ code: 'FENCED' })
    expect(outOne.values).toEqual([])
    await second.stop()
    expect(outTwo.values[0]).toBe(0)
    expect(new Set(outTwo.values).size).toBe(outTwo.values.length)
  })
})

describe('a newest checkpoint that is damaged', () => {
  it('A1.3: is an error that names the choices, and an older one is used on request', async () => {
    const rp = await open('memory:')
    const define = (out: Sink<number>) =>
      pipeline('hurt', (p) => {
        p.from('numbers', endless([1, 2, 3]))
          .keyBy((n) => n)
          .aggregate('counts', count())
          .map(({ value }) => value)
          .to('out', out)
      })
    const out = collectSink<number>()
    const run = await rp.run(define(out)).started()
    await until(() => run.status().records === 3)
    const savepoint = await run.savepoint({ label: 'sound' })
    const stopped = await run.stop()
    await rp.markCheckpoint('pipeline/hurt', stopped.checkpoint!, { why: 'wrong rates', by: 'ann' })
    const refused = await rp
      .run(define(out), {})
      .result()
      .catch((error) => error)
    expect(refused).toMatchObject({ code: 'UNRECOVERABLE', message: expect.stringContaining(savepoint.id) })
    const again = await rp.run(define(out), { from: savepoint.id }).started()
    expect((await again.stop()).records).toBe(3)
    await rp.close()
  })
})

describe('a checkpoint whose chunks are gone', () => {
  it('A1.3: is marked in the catalog, and nothing is read into a state that is not whole', async () => {
    const rp = await open('memory:', { redundancy: false })
    const define = () =>
      pipeline('gone', (p) => {
        p.from('numbers', endless([1, 2, 3]))
          .keyBy((n) => n)
          .aggregate('counts', count())
          .to('out', collectSink())
      })
    const run = await rp.run(define()).started()
    await until(() => run.status().records === 3)
    const { checkpoint } = await run.stop()
    const { blobs } = hostOf(rp).kernel.store
    const chunks = (await blobs.list(null, 1000)).map(({ digest }) => digest)
    await blobs.delete(chunks, Number.MAX_SAFE_INTEGER)
    await expect(rp.run(define()).result()).rejects.toMatchObject({
      code: 'UNRECOVERABLE',
      message: expect.stringContaining('no older one is left'),
    })
    const [record] = await rp.checkpoints('pipeline/gone')
    expect(record).toMatchObject({ id: checkpoint, invalid: expect.stringContaining('CHUNK_MISSING') })
    await rp.close()
  })
})

describe('code that changed', () => {
  const draw = (rp: Reprise, names: { source?: string; operator?: string; sink?: string; kind?: 'process' }) => {
    const { source = 'numbers', operator = 'counts', sink = 'out', kind } = names
    const out = collectSink<unknown>()
    const define = pipeline('changed', (p) => {
      const keyed = p.from(source, endless([1, 1, 2])).keyBy((n) => n)
      if (kind) {
        keyed
          .process(operator, { state: { all: listState<number>() }, onRecord: (n: number, { emit }) => emit(n) })
          .to(sink, out)
      } else keyed.aggregate(operator, count()).to(sink, out)
    })
    return { out, run: (options = {}) => rp.run(define, options) }
  }

  it('is refused with names and choices where it does not map, and restored where it does', async () => {
    const rp = await open('memory:')
    const first = await draw(rp, {}).run().started()
    await until(() => first.status().records === 3)
    await first.stop()
    const renamed = draw(rp, { operator: 'totals' })
    const refused = await renamed
      .run()
      .result()
      .catch((error) => error)
    expect(refused.code).toBe('INVALID_ARGUMENT')
    expect(refused.message).toContain('the operator totals is new')
    expect(refused.message).toContain("drop: ['counts']")
    const mapped = await renamed.run({ changes: { rename: { counts: 'totals' } } }).started()
    expect(mapped.status().operators.find(({ name }) => name === 'totals')?.keys).toBe(2)
    await mapped.stop()
    // The same command again: the checkpoint has the new name by now.
    await (await renamed.run({ changes: { rename: { counts: 'totals' } } }).started()).stop()
    await expect(draw(rp, { operator: 'totals', kind: 'process' }).run().result()).rejects.toThrow('not process')
    for (const [changes, why] of [
      [{ rename: { cuonts: 'totals2' } }, 'the code has nothing called totals2'],
      [{ drop: ['totals'] }, 'the code still has totals'],
      [{ add: ['totalz'] }, 'the code has nothing called totalz'],
    ] as const) {
      await expect(renamed.run({ changes }).result()).rejects.toThrow(why)
    }
    const dropped = draw(rp, { operator: 'totals', kind: 'process', source: 'more' })
    const changes = { drop: ['totals', 'numbers'], add: ['totals', 'more'] }
    const anew = await dropped.run({ changes }).started()
    await until(() => anew.status().records === 3)
    await anew.stop()
    expect(dropped.out.values).toEqual([1, 1, 2])
    await rp.close()
  })
})

describe('options', () => {
  it('that are unknown or meaningless are refused', async () => {
    const rp = await open('memory:')
    const drawn = pipeline('options', (p) => {
      p.from('numbers', valueSource([1])).to('out', collectSink())
    })
    const refused: readonly (readonly [unknown, string])[] = [
      [{ paralelism: 4 }, 'did you mean parallelism'],
      [{ checkpointTimeout: 0 }, 'checkpointTimeout must be at least 1 ms'],
      [{ takeover: 'yes' }, 'takeover must be true or false'],
      [{ changes: 'drop everything' }, 'options must be an object'],
      [{ changes: { drop: 'out' } }, 'changes.drop must be a list'],
      [{ changes: { rename: 'out' } }, 'changes.rename must be an object'],
    ]
    for (const [options, why] of refused) {
      await expect(rp.run(drawn, options as never).result()).rejects.toThrow(why)
    }
    await expect(rp.run(drawn, ...([{ x: 1 }, {}] as unknown as [])).result()).rejects.toThrow('takes no input')
    await expect(rp.run(drawn, { checkpoint: { every: 0 } }).result()).rejects.toThrow('checkpoint.every')
    await rp.close()
  })
})
