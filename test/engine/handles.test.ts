// Handles of all models have the same verbs for the same things: one of each is opened and compared with the table in
// docs/decisions/handles.md, which gives the reason for a missing one.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/engine/api/timeline-definition.ts'
import { Effects } from '../../src/engine/history/effects.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { aggregate, processManager, projection } from '../../src/layers/events/index.ts'
import { exec } from '../../src/layers/exec/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { command, memo } from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { collectSink, pipeline, valueSource } from '../../src/layers/pipeline/index.ts'
import { controller, informer, resource } from '../../src/layers/resource/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, table } from '../../src/layers/table/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { newGate } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const verbs = ['id', 'timeline', 'coordinate', 'effects', 'checkpoint', 'close'] as const
type Verb = (typeof verbs)[number]

const counter = timeline('counter', {
  initial: () => 0,
  apply: (n: number, e: { type: 'added'; by: number }) => n + e.by,
})
const account = aggregate('account', {
  initial: () => ({ cents: 0 }),
  evolve: { paid: (s: { cents: number }, e: { cents: number }) => ({ cents: s.cents + e.cents }) },
  decide: { pay: (_s: { cents: number }, cents: number) => ({ type: 'paid' as const, cents }) },
})
const sums = projection('sums', { from: [account], initial: () => 0, on: { paid: (n: number) => n + 1 } })
const rows = table<number>('rows')
const program = mkdtempSync(join(tmpdir(), 'reprise-handles-'))
afterAll(() => rmSync(program, { recursive: true, force: true }))

/** How each is opened, and under which id and timeline. */
const handles: Readonly<Record<string, readonly [(rp: Reprise) => PromiseLike<object>, string, string?]>> = {
  TimelineHandle: [(rp) => rp.open(counter, 'visits'), 'visits', 'counter/visits'],
  AggregateHandle: [(rp) => rp.open(account, 'ann'), 'ann', 'events/account/ann'],
  ProjectionHandle: [(rp) => rp.open(sums), 'sums'],
  ProcessManager: [(rp) => rp.open(processManager('pays', { from: [account], on: {} })), 'pays', 'process/pays'],
  TableHandle: [(rp) => rp.open(rows, 'ann'), 'ann', 'table/rows/ann'],
  PagedTable: [(rp) => rp.open(pagedTable<number>('pages')), 'pages', 'table/pages'],
  PartitionedStore: [(rp) => rp.open(stateStore<number>('parts', { partitions: 2 })), 'parts'],
  SaveHandle: [(rp) => rp.open(save<number>('model'), 'a/b'), 'a/b', 'save/model/a/b'],
  ResourceHandle: [(rp) => rp.open(resource('sites'), 'a'), 'a', 'resource/sites/a'],
  InformerHandle: [(rp) => rp.open(informer('cache', { of: resource('sites') })), 'cache', 'informer/cache'],
  ControllerHandle: [
    (rp) => rp.open(controller('scaler', { watch: [resource('sites')], reconcile: () => undefined })),
    'scaler',
    'controller/scaler',
  ],
  Session: [(rp) => rp.open(agent('guide', { model: () => ({ content: 'hi' }) }), 's'), 's', 'agent/guide/s'],
  ConfigHandle: [(rp) => rp.open(config('routes')), 'routes'],
  JobRun: [(rp) => rp.run(job('papers', { source: ['a'], key: (each) => each, each: () => undefined })), 'papers'],
  MigrateRun: [
    (rp) => rp.run(migrations('schema', { steps: [{ id: '1', run: () => undefined }] })),
    'schema',
    'migrate/schema',
  ],
  ExecRun: [(rp) => rp.run(exec('program', { command: ['true'], state: program })), 'program', 'exec/program'],
  WorkflowRun: [
    (rp) =>
      rp.run(
        workflow('order', async () => 1),
        { id: 'o-1' },
      ),
    'o-1',
    'workflow/order/o-1',
  ],
  PipelineRun: [
    (rp) =>
      rp.run(
        pipeline('flow', (p) => p.from('numbers', valueSource([1])).to('out', collectSink())),
        {},
      ),
    'flow',
    'pipeline/flow',
  ],
  MemoHandle: [(rp) => rp.open(memo('square', { version: 1, run: (n: number) => n * n })), 'square'],
  CommandHandle: [(rp) => rp.open(command('build', { cmd: 'true', inputs: [] })), 'build'],
  Replica: [async (rp) => rp.follow(counter, 'visits'), '', 'counter/visits'],
  TableStandby: [async (rp) => rows.standby(rp, 'ann'), '', 'table/rows/ann'],
}

const page = readFileSync(new URL('../../docs/decisions/handles.md', import.meta.url), 'utf8')
const documented = page.split('\n').flatMap((line) => {
  const cells = line.split('|').map((cell) => cell.trim())
  return handles[cells[1]!] ? [{ name: cells[1]!, says: cells.slice(2, -1) }] : []
})

onEveryStore(
  'handles',
  (world) => {
    it('have the verbs of the table, under the same names', async () => {
      const rp = await (await world()).engine()
      expect(documented.map(({ name }) => name)).toEqual(Object.keys(handles))
      const held = await rp.open(counter, 'visits')
      const found: Record<string, unknown>[] = []
      for (const { name } of documented) {
        const [open, id, timelineId] = handles[name]!
        const handle = (await open(rp)) as Partial<Record<Verb | symbol, unknown>>
        expect(handle.constructor.name).toBe(name)
        found.push({ name, ...Object.fromEntries(verbs.map((verb) => [verb, verb in handle])) })
        if ('id' in handle) expect(handle.id).toBe(id)
        if ('timeline' in handle) expect(handle.timeline).toBe(timelineId)
        if ('coordinate' in handle) expect(handle.coordinate).toMatchObject({ timeline: timelineId })
        if ('effects' in handle) expect(handle.effects).toBeInstanceOf(Effects)
        if ('checkpoint' in handle && 'coordinate' in handle) {
          const made = await (handle as { checkpoint(): Promise<object> }).checkpoint()
          expect(made).toMatchObject({ coordinate: { timeline: timelineId }, kind: 'full' })
        }
        if (!('close' in handle)) continue
        expect(Symbol.asyncDispose in handle, `await using ${name}`).toBe(true)
        await (handle as { close(): Promise<void> }).close()
      }
      const said = documented.map(({ name, says }) => ({
        name,
        ...Object.fromEntries(verbs.map((verb, i) => [verb, says[i] === 'yes'])),
      }))
      expect(found).toEqual(said)
      // Every `no` names its reason.
      for (const { says } of documented) {
        for (const cell of says) if (cell !== 'yes') expect(page).toContain(`\n${/^no \((\d+)\)$/.exec(cell)?.[1]}. `)
      }
      await held.close()
    })

    it('started() of everything that runs gives its handle when the work has begun', async () => {
      const rp = await (await world()).engine()
      const folder = mkdtempSync(join(tmpdir(), 'reprise-started-'))
      const { opened: done, open: isDone } = newGate()
      const program = exec('sleeper', { command: ['sleep', '60'], state: folder })
      const running = {
        job: rp.run(job('papers', { source: ['a'], key: (each) => each, each: () => done })),
        migrations: rp.run(migrations('schema', { steps: [{ id: '1', run: () => done }] })),
        workflow: rp.run(
          workflow('order', (ctx) => ctx.step('wait', () => done)),
          { id: 'o-1' },
        ),
        pipeline: rp.run(
          pipeline('flow', (p) => p.from('numbers', valueSource([1])).to('out', collectSink())),
          {},
        ),
        exec: rp.run(program),
      }
      for (const [kind, run] of Object.entries(running)) expect([kind, await run.started()]).toEqual([kind, await run])
      // Each of them started by itself: the waiting ones still wait.
      expect((await running.job).status().status).toBe('running')
      expect(await rp.head('migrate/schema')).toMatchObject({ status: 'running' })
      await (await running.exec).stop({ killSignal: 'SIGKILL' })
      isDone()
      await Promise.all([running.job.result(), running.migrations.result(), running.workflow.result()])
      const none = workflows(rp)
        .of(workflow('order', () => done))
        .get('o-2')
      await expect(none.started()).rejects.toMatchObject({ code: 'NOT_FOUND' })
      rmSync(folder, { recursive: true })
    })

    it('started() rejects with the reason where the work cannot begin, and stops waiting when its signal fires', async () => {
      const w = await world()
      const [rp, other] = [await w.engine(), await w.engine()]
      const { opened: done, open: isDone } = newGate()
      const definition = migrations('schema', { steps: [{ id: '1', run: () => done }] })
      const first = await rp.run(definition).started()
      await expect(other.run(definition, { wait: 0 }).started()).rejects.toMatchObject({ code: 'OWNED' })
      const waiting = await other.run(definition)
      const stop = new AbortController()
      const begun = waiting.started({ signal: stop.signal })
      stop.abort()
      await expect(begun).rejects.toMatchObject({ code: 'ABORTED' })
      isDone()
      expect([(await first.result()).status, (await waiting.result()).status]).toEqual(['completed', 'completed'])
    })
  },
  ['memory'],
)
