// Sources and sinks of the package: their position after a restart, and their handling of invalid input.

import { appendFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import {
  type Collected,
  collectSink,
  csvSource,
  entrySource,
  fileSink,
  iterableSource,
  jsonLineSource,
  lineSource,
  type PipelineOptions,
  pageSource,
  pipeline,
  type Sink,
  type Source,
  sendSink,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { pause, temporaryFolder, until } from '../support/fixture.ts'

let folder: string
let rp: Reprise
beforeEach(async () => {
  folder = temporaryFolder('connectors')
  rp = await open('memory:')
})
afterEach(async () => {
  await rp.close()
})

const copying = <T>(source: Source<T>, sink: Sink<T>) =>
  pipeline('copying', (p) => {
    p.from('in', source).to('out', sink)
  })

/** Runs until the sink has this many records, then stops with a savepoint. */
async function some<T>(
  source: Source<T>,
  out: Collected<T>,
  count: number,
  options: PipelineOptions = {},
): Promise<void> {
  const run = await rp.run(copying(source, out), { checkpoint: { every: 1 }, ...options }).started()
  await until(() => out.values.length >= count)
  await run.stop()
}

describe('files as sources', () => {
  it('give lines, and JSON whose bad lines are dead letters', async () => {
    const path = join(folder, 'orders.jsonl')
    writeFileSync(path, '{"n":1}\nnot json\n\n{"n":2}')
    const out = collectSink<{ n: number }>()
    const report = await rp.run(copying(jsonLineSource<{ n: number }>(path), out)).result()
    expect(out.values).toEqual([{ n: 1 }, { n: 2 }])
    expect(report.deadLetters).toBe(1)
    const text = collectSink<string>()
    await rp.run(copying(lineSource(path), text), { id: 'text' }).result()
    expect(text.values).toEqual(['{"n":1}', 'not json', '{"n":2}'])
  })

  it('that grow go on where they stood, and are not read again', async () => {
    const path = join(folder, 'growing.log')
    writeFileSync(path, 'one\ntwo\nthr')
    const out = collectSink<string>()
    await some(lineSource(path, { follow: 5 }), out, 2)
    expect(out.values).toEqual(['one', 'two'])
    appendFileSync(path, 'ee\nfour\n')
    await some(lineSource(path, { follow: 5 }), out, 4)
    expect(out.values).toEqual(['one', 'two', 'three', 'four'])
  })

  it('that do not change for a while are not read again meanwhile', async () => {
    const path = join(folder, 'idle.log')
    writeFileSync(path, 'one\ntwo\n')
    const out = collectSink<string>()
    const run = await rp.run(copying(lineSource(path, { follow: 1 }), out), { checkpoint: { every: 1 } }).started()
    for (const added of ['three\n', 'four\n']) {
      await until(() => out.values.length >= 2)
      await pause(50)
      appendFileSync(path, added)
    }
    await until(() => out.values.includes('four'))
    await run.stop()
    expect(out.values).toEqual(['one', 'two', 'three', 'four'])
  })

  it('that were cut short are an error', async () => {
    const path = join(folder, 'cut.log')
    writeFileSync(path, 'one\ntwo\n')
    await some(lineSource(path, { follow: 5 }), collectSink<string>(), 0)
    await some(lineSource(path, { follow: 5 }), collectSink<string>(), 0)
    const out = collectSink<string>()
    const run = await rp.run(copying(lineSource(path, { follow: 5 }), out), { id: 'cut' }).started()
    await until(() => run.status().records === 2)
    await run.stop()
    truncateSync(path, 4)
    const again = rp.run(copying(lineSource(path, { follow: 5 }), out), { id: 'cut' }).result()
    await expect(again).rejects.toMatchObject({ code: 'POSITION_GONE' })
  })

  it('with CSV name their columns once, also when they are read from the middle', async () => {
    const path = join(folder, 'orders.csv')
    writeFileSync(path, 'name,note\nann,"a, ""b""\nc"\nbob,\n')
    const out = collectSink<Readonly<Record<string, string>>>()
    await some(csvSource(path, { follow: 5 }), out, 2)
    appendFileSync(path, 'too,many,fields\ncid,x\n')
    await some(csvSource(path, { follow: 5 }), out, 3)
    expect(out.values).toEqual([
      { name: 'ann', note: 'a, "b"\nc' },
      { name: 'bob', note: '' },
      { name: 'cid', note: 'x' },
    ])
  })

  it('that are not there are named', async () => {
    const missing = rp.run(copying(lineSource(join(folder, 'none')), collectSink<string>()), {}).result()
    await expect(missing).rejects.toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('none') })
  })
})

describe('other sources', () => {
  it('that are repeatable resume after the last read item', async () => {
    const out = collectSink<number>()
    const numbers = (last: number, wait: boolean) =>
      iterableSource(async function* () {
        for (let n = 1; n <= last; n++) yield n
        // A source that waits forever can still be stopped.
        if (wait) await new Promise(() => undefined)
      })
    await some(numbers(3, true), out, 3)
    await rp.run(copying(numbers(5, false), out)).result()
    expect(out.values).toEqual([1, 2, 3, 4, 5])
  })

  it('with pages request a page again and emit the rest of it', async () => {
    const all = Array.from({ length: 1300 }, (_, i) => i)
    const asked: (number | null)[] = []
    const source = pageSource<number, number>(async (cursor) => {
      asked.push(cursor)
      const at = cursor ?? 0
      return { items: all.slice(at, at + 600), next: at + 600 < all.length ? at + 600 : null }
    })
    const out = collectSink<number>()
    await rp.run(copying(source, out), { checkpoint: { every: 100 } }).result()
    expect(out.values).toEqual(all)
    expect(asked).toEqual([null, 600, 1200])
  })

  it('over the store read timelines, and hold their history', async () => {
    const notes = timeline('notes', {
      initial: () => 0,
      apply: (sum: number, _: { type: 'noted'; text: string }) => sum + 1,
    })
    const open1 = await rp.open(notes, 'a')
    await open1.append({ type: 'noted', text: 'x' })
    const out = collectSink<unknown>()
    const read = pipeline('read', (p) => {
      p.from('notes', entrySource([notes]))
        .map(({ type, data }) => [type, data])
        .to('out', out)
    })
    const run = await rp.run(read, { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 1)
    await run.stop()
    await open1.append({ type: 'noted', text: 'y' })
    const again = await rp.run(read, { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 2)
    await again.stop()
    expect(out.values).toEqual([
      ['noted', { text: 'x' }],
      ['noted', { text: 'y' }],
    ])
    await expect(rp.move('pipeline/read', join(folder, 'moved'))).rejects.toMatchObject({
      message: expect.stringContaining('feed of its own store'),
    })
  })
})

describe('files as a sink', () => {
  it('are complete when visible, and contain each result once over a restart', async () => {
    const path = join(folder, 'out')
    const first = await rp.run(copying(valueSource([1, 2, 3]), fileSink<number>({ folder: path }))).result()
    expect(first.status).toBe('completed')
    writeFileSync(join(path, 'out@copying@other-00000009-00000009.jsonl.part'), 'half')
    const names = () => readdirSync(path).sort()
    expect(names().filter((name) => name.endsWith('.jsonl'))).toHaveLength(1)
    const more = copying(valueSource([1, 2, 3, 4]), fileSink<number>({ folder: path, line: (n) => `<${n}>` }))
    await rp.run(more, { id: 'other' }).result()
    expect(names().some((name) => name.endsWith('.part'))).toBe(false)
    const texts = names().map((name) => readFileSync(join(path, name), 'utf8'))
    expect(texts.sort()).toEqual(['1\n2\n3\n', '<1>\n<2>\n<3>\n<4>\n'])
  })
})

describe('the last checkpoint', () => {
  it('is committed by the next run though the pipeline is done, if its process died before', async () => {
    const path = join(folder, 'out')
    const dying: Sink<number> = {
      async open(context, listed) {
        const writer = await fileSink<number>({ folder: path }).open(context, listed)
        return {
          pending: 0,
          write: (batch) => writer.write(batch),
          cut: (id) => writer.cut(id),
          commit: () => Promise.reject(new Error('killed')),
          rejoin: () => writer.rejoin(),
          close: () => writer.close(),
        }
      },
    }
    await expect(rp.run(copying(valueSource([1, 2]), dying)).result()).rejects.toThrow('killed')
    expect(readdirSync(path).filter((name) => name.endsWith('.jsonl'))).toEqual([])
    for (let times = 0; times < 2; times++) {
      const { status } = await rp.run(copying(valueSource([1, 2]), fileSink<number>({ folder: path }))).result()
      expect(status).toBe('completed')
      const names = readdirSync(path)
      expect(names.map((name) => readFileSync(join(path, name), 'utf8'))).toEqual(['1\n2\n'])
    }
  })
})

describe('sending', () => {
  it('is at least once, each time with the same key, and a checkpoint waits for it', async () => {
    const sent: [string, number][] = []
    let failures = 2
    const sink = sendSink<number>(
      async (n, { key }) => {
        await pause(1)
        if (n === 3 && failures-- > 0) throw new Error('not now')
        sent.push([key, n])
      },
      { concurrency: 2, retry: { backoff: 1 } },
    )
    const report = await rp.run(copying(valueSource([1, 2, 3, 4, 5]), sink)).result()
    expect(report.status).toBe('completed')
    expect(sent.map(([, n]) => n).sort()).toEqual([1, 2, 3, 4, 5])
    expect(new Set(sent.map(([key]) => key)).size).toBe(5)
    for (const [key] of sent) expect(key).toMatch(/^out-[0-9a-f]{32}$/)
  })

  it('that is not acknowledged ends the run, and the next one sends it again', async () => {
    const keys: string[] = []
    const define = (isDown: boolean) =>
      copying(
        valueSource([1]),
        sendSink<number>(
          async (_, { key }) => {
            keys.push(key)
            if (isDown) throw new Error('down')
          },
          { retry: { attempts: 1 } },
        ),
      )
    await expect(rp.run(define(true)).result()).rejects.toThrow('down')
    expect((await rp.run(define(false)).result()).status).toBe('completed')
    expect(keys).toHaveLength(2)
    expect(keys[0]).toBe(keys[1])
  })
})
