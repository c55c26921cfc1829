// The log of work: `reprise work --log json`, and the same rows of a server that works.

import { expect, it } from 'vitest'
import { Output } from '../../src/cli/output.ts'
import { ServeLog } from '../../src/cli/serve-log.ts'
import { open } from '../../src/index.ts'
import { GiveUp, job } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

type Row = Readonly<Record<string, unknown>>

function makeLog() {
  const written: string[] = []
  const stream = { write: (text: string) => written.push(text) }
  const log = new ServeLog('json', new Output({ stdout: stream, stderr: stream, env: {} }, false), false)
  return {
    log,
    rows: () =>
      written
        .join('')
        .trimEnd()
        .split('\n')
        .map((line): Row => JSON.parse(line)),
  }
}

it('D4: each run, item, retry and dead letter of a job is a row', async () => {
  const { log, rows } = makeLog()
  await using rp = await open('memory:')
  log.follow(rp)
  const tries = new Map<string, number>()
  const copy = job('copy', {
    source: ['a', 'b', 'c'],
    key: String,
    concurrency: 1,
    retry: { attempts: 2, backoff: '1ms' },
    each: (item) => {
      tries.set(item, (tries.get(item) ?? 0) + 1)
      if (item === 'b' && tries.get(item) === 1) throw new Error('busy')
      if (item === 'c') throw new GiveUp('never')
    },
  })
  await rp.run(copy).result()
  const of = { timeline: 'job/copy', model: 'job', name: 'copy' }
  const runs = rows().filter(({ kind }) => kind === 'run')
  expect(runs).toMatchObject([
    { level: 'info', event: 'start', ...of },
    { level: 'info', event: 'end', ms: expect.any(Number), ...of },
  ])
  const items = (key: string) =>
    rows()
      .filter((row) => row.kind === 'item' && row.key === key)
      .map(({ event }) => event)
  expect(items('a')).toEqual(['start', 'end'])
  expect(items('b')).toEqual(['start', 'will-retry', 'failure', 'retry', 'end'])
  expect(items('c')).toEqual(['start', 'dead', 'failure'])
  expect(rows().find((row) => row.event === 'failure')).toMatchObject({
    level: 'warn',
    message: 'busy',
    outcome: 'retry',
  })
})

it('D4: each step of a workflow is a row, with its retries and failures', async () => {
  const { log, rows } = makeLog()
  await using rp = await open('memory:')
  log.follow(rp)
  const ship = workflow('ship', async (ctx) => {
    await ctx.step(
      'pack',
      ({ attempt }) => {
        if (attempt === 1) throw new Error('no box')
      },
      { retry: { attempts: 2, backoff: '1ms' } },
    )
    await ctx.step('send', () => {
      throw new GiveUp('no van')
    })
  })
  await rp
    .run(ship, { id: '1' })
    .result()
    .catch(() => undefined)
  await expect.poll(() => rows().at(-1)).toMatchObject({ kind: 'run', event: 'end', timeline: 'workflow/ship/1' })
  const steps = (name: string) =>
    rows()
      .filter(({ kind, step }) => kind === 'step' && step === name)
      .map(({ event }) => event)
  expect(steps('pack')).toEqual(['start', 'failure', 'retry', 'end'])
  expect(steps('send')).toEqual(['start', 'failure', 'end'])
})

onEveryStore(
  'D4: a lease that was lost',
  (world) => {
    it('is a row with the timeline and the epoch', async () => {
      const { log, rows } = makeLog()
      const w = await world()
      const first = await w.engine()
      log.follow(first)
      const notes = table<number>('notes')
      const held = await first.open(notes)
      await held.set('a', 1)
      await (await w.engine()).open(notes, undefined, { takeover: true })
      await expect(held.set('a', 2)).rejects.toMatchObject({ code: 'FENCED' })
      const lease = { level: 'warn', kind: 'lease', event: 'lost', timeline: 'table/notes', epoch: 1 }
      expect(rows()).toContainEqual(expect.objectContaining(lease))
    })
  },
  ['sqlite'],
)
