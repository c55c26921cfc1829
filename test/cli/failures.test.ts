// Failed work has its reason in every place where a person reads: `ls`, `show`, `doctor` (with its exit code) and the metrics.
// One row per model; the process that failed has ended by then.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { open, type Reprise } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { pipeline, printSink, type Source } from '../../src/layers/pipeline/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { failingTimelines } from '../../src/operations/failures.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { controller, informer, resource } from '../../src/resources.ts'
import { Metrics } from '../../src/server/metrics.ts'
import { until } from '../support/fixture.ts'
import { cli, workFolder } from './support.ts'

const account = aggregate('account', {
  initial: () => ({ count: 0 }),
  evolve: { added: ({ count }: { count: number }) => ({ count: count + 1 }) },
  decide: { add: () => ({ type: 'added' as const }) },
})
const site = resource('site')
const broken = (reason: string) => () => {
  throw new Error(reason)
}
const noTopic: Source<number> = { open: async () => broken('the topic is gone')() }

/** Fails, and resolves when no more records follow. */
const failing: Readonly<Record<string, { timeline: string; reason: string; fail(rp: Reprise): Promise<unknown> }>> = {
  pipeline: {
    timeline: 'pipeline/orders',
    reason: 'the topic is gone',
    fail: (rp) =>
      rp
        .run(
          pipeline('orders', (p) => void p.from('in', noTopic).to('out', printSink())),
          {},
        )
        .result(),
  },
  job: {
    timeline: 'job/papers',
    reason: 'the list is gone',
    fail: (rp) => rp.run(job('papers', { source: broken('the list is gone'), each: async () => undefined })).result(),
  },
  projection: {
    timeline: 'projection/sums@1-1',
    reason: 'an unlucky event',
    async fail(rp) {
      await (await rp.open(account, 'ann')).do('add')
      const on = { added: broken('an unlucky event') as () => undefined }
      await (await rp.open(projection('sums', { from: [account], initial: () => ({}), on }))).catchUp()
    },
  },
  controller: {
    timeline: 'controller/scaler',
    reason: 'no quota left',
    async fail(rp) {
      await (await rp.open(site)).create({ name: 'a', spec: {} })
      await rp.open(controller('scaler', { watch: [site], retry: { attempts: 1 }, reconcile: broken('no quota left') }))
      await untilNoted(rp, 'controller/scaler')
    },
  },
  informer: {
    timeline: 'informer/mailer',
    reason: 'no mail server',
    async fail(rp) {
      await rp.open(informer('mailer', { of: site, retry: { attempts: 1 }, handle: broken('no mail server') }))
      await untilNoted(rp, 'informer/mailer')
    },
  },
  agent: {
    timeline: 'agent/support/ann',
    reason: 'the model is away',
    fail: async (rp) =>
      await (await rp.open(agent('support', { model: broken('the model is away') }), 'ann')).turn('hi'),
  },
}

async function untilNoted(rp: Reprise, timeline: string): Promise<void> {
  await until(async () => (await failingTimelines(rp)).some((each) => each.timeline === timeline))
}

describe('failed work', () => {
  const folder = workFolder()
  const at = { cwd: folder.path }
  const store = ['--url', 'sqlite:store.db']
  const shown = { ls: '', doctor: '', metrics: '' }
  let doctorCode: number | null = null

  beforeAll(async () => {
    const rp = await open(`sqlite:${folder.path}/store.db`, { housekeeping: false })
    rp.events.on('problem', () => undefined)
    for (const { fail } of Object.values(failing)) await fail(rp).catch(() => undefined)
    await rp.close()
    shown.ls = (await cli(['ls', ...store], at)).stdout
    const doctor = await cli(['doctor', '--json', ...store], at)
    shown.doctor = doctor.stdout
    doctorCode = doctor.code
    const other = await open(`sqlite:${folder.path}/store.db`, { housekeeping: false })
    await declareKinds(other)
    const metrics = new Metrics(hostOf(other).kernel.events, Date.now)
    shown.metrics = await metrics.write(other)
    metrics.close()
    await other.close()
  }, 120_000)
  afterAll(() => folder.remove())

  it.each(Object.entries(failing))(
    'of a %s has its reason on ls, show, doctor and a metric',
    async (kind, { timeline, reason }) => {
      const line = shown.ls.split('\n').find((each) => each.includes(timeline))
      expect(line).toContain(reason)
      expect((await cli(['show', timeline, ...store], at)).stdout).toContain(reason)
      expect(shown.doctor).toContain(reason)
      expect(doctorCode).not.toBe(0)
      expect(shown.metrics).toContain(`reprise_failing_timelines{kind="${kind}"} 1`)
    },
  )
})

it('due work that no worker takes has its reason on ls and show', async () => {
  const folder = workFolder()
  try {
    const rp = await open(`sqlite:${folder.path}/store.db`, { housekeeping: false })
    const waits = workflow('waits', async (ctx) => void (await ctx.signal('go')))
    await rp.run(waits, { id: 'late' })
    await rp.run(waits, { id: 'fine' })
    const statusOf = async (id: string) => (await rp.head(`workflow/waits/${id}`))?.status
    await until(async () => (await statusOf('late')) === 'waiting' && (await statusOf('fine')) === 'waiting')
    await rp.close()
    const other = await open(`sqlite:${folder.path}/store.db`, { housekeeping: false })
    const host = hostOf(other)
    await host.change((await other.head('workflow/waits/late'))!, { wakeup: host.now() - 300_000 })
    await other.close()
    const at = { cwd: folder.path }
    const lines = (await cli(['ls', '--url', 'sqlite:store.db'], at)).stdout.split('\n')
    const reason = /due since \d+m ago, but no worker executes it/
    expect(lines.find((line) => line.includes('waits/late'))).toMatch(reason)
    expect(lines.find((line) => line.includes('waits/fine'))).not.toMatch(reason)
    const show = async (id: string) =>
      (await cli(['show', `workflow/waits/${id}`, '--url', 'sqlite:store.db'], at)).stdout
    expect(await show('late')).toMatch(reason)
    expect(await show('fine')).not.toMatch(reason)
  } finally {
    folder.remove()
  }
})
