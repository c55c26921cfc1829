// Where items come from and where progress goes: cursors, rows, inputs, errors of a source, progress files.

import { expect, it } from 'vitest'
import { exportProgress, importProgress, job, keyRange, pages } from '../../src/layers/job/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

onEveryStore(
  'a job',
  (world) => {
    it('resumes a source: cursors set by a generator cover the items yielded before them', async () => {
      const engine = await (await world()).engine()
      const starts: unknown[] = []
      const make = (stopAt: number) =>
        job('generator', {
          source: async function* (cursor: number | undefined, context) {
            starts.push(cursor)
            for (let page = cursor ?? 0; page < 5; page++) {
              for (let i = 0; i < 4; i++) yield page * 4 + i
              context.cursor(page + 1)
            }
          },
          each: (item: number) => {
            if (item === stopAt) void run.stop()
          },
        })
      let run = await engine.run(make(10))
      const first = await run.result()
      run = await engine.run(make(-1))
      const second = await run.result()
      expect(first.done + second.done).toBe(20)
      expect(starts[0]).toBeUndefined()
      expect(starts[1]).toBe(2)
    })

    it('continues after the last row of a key range, and finds new rows in the next round', async () => {
      const engine = await (await world()).engine()
      const rows = numbers(10).map((id) => ({ id }))
      const asked: unknown[] = []
      const make = () =>
        job('rows', {
          source: keyRange({
            after: (id: number | undefined, limit) => {
              asked.push(id)
              return rows.filter((row) => row.id > (id ?? -1)).slice(0, limit)
            },
            key: (row) => row.id,
            limit: 4,
          }),
          key: (row: { id: number }) => row.id,
          each: () => undefined,
        })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 10 })
      rows.push({ id: 10 }, { id: 11 })
      asked.length = 0
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 2, skipped: 0 })
      expect(asked[0]).toBe(9)
    })

    it('passes its input to the source, and remembers it for a resumed run', async () => {
      const engine = await (await world()).engine()
      const inputs: unknown[] = []
      const make = (stop: boolean) =>
        job('input', {
          source: (_cursor: unknown, context) => {
            inputs.push(context.input)
            return numbers(5)
          },
          each: () => {
            if (stop) void run.stop()
          },
        })
      let run = await engine.run(make(true), { since: 'monday' })
      await run.result()
      run = await engine.run(make(false))
      await run.result()
      expect(inputs).toEqual([{ since: 'monday' }, { since: 'monday' }])
    })

    it('ends with the error of its source, and can be run again', async () => {
      const engine = await (await world()).engine()
      let isBroken = true
      const make = () =>
        job('broken-source', {
          source: pages(async (cursor?: number) => {
            if ((cursor ?? 0) === 1 && isBroken) throw new Error('the API is down')
            return {
              items: [(cursor ?? 0) * 2, (cursor ?? 0) * 2 + 1],
              next: (cursor ?? 0) < 2 ? (cursor ?? 0) + 1 : null,
            }
          }),
          each: () => undefined,
        })
      await expect((await engine.run(make())).result()).rejects.toThrow('the API is down')
      isBroken = false
      const report = await (await engine.run(make())).result()
      expect(report.status).toBe('completed')
      const keys: (string | undefined)[] = []
      for await (const line of exportProgress(engine, 'job/broken-source')) keys.push(line.key)
      expect(keys.sort()).toEqual(['0', '1', '2', '3', '4', '5'])
    })

    it('keeps results in history on request, and exports them as JSON Lines', async () => {
      const engine = await (await world()).engine()
      const work = job('results', { source: [1, 2, 3], results: true, each: (item: number) => item * item })
      await (await engine.run(work)).result()
      const lines = []
      for await (const line of exportProgress(engine, 'job/results')) lines.push(line)
      expect(lines.map(({ key, result }) => [key, result])).toEqual([
        ['1', 1],
        ['2', 4],
        ['3', 9],
      ])
    })

    it('imports the progress of a hand-written script, and exports and imports its own', async () => {
      const engine = await (await world()).engine()
      const script = ['{"id":"a","ok":true}', '{"id":"b","ok":true}', '', '{"ok":false}', 'not json']
      expect(await importProgress(engine, 'moved', script.slice(0, 4))).toEqual({ lines: 3, added: 2, ignored: 1 })
      expect(await importProgress(engine, 'moved', script.slice(0, 2))).toEqual({ lines: 2, added: 0, ignored: 0 })
      const work = (name: string) => job(name, { source: ['a', 'b', 'c'], each: () => undefined })
      expect(await (await engine.run(work('moved'))).result()).toMatchObject({ done: 1, skipped: 2 })
      const lines: string[] = []
      for await (const line of exportProgress(engine, 'job/moved')) lines.push(JSON.stringify(line))
      expect(await importProgress(engine, 'copied', lines)).toMatchObject({ added: 3 })
      expect(await (await engine.run(work('copied'))).result()).toMatchObject({ done: 0, skipped: 3 })
    })
  },
  ['memory', 'sqlite'],
)
