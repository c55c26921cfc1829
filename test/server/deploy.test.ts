// The files for operators name existing metrics, and are checked with the tools of this machine.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { serve } from '../../src/server/index.ts'
import { metricNames } from '../../src/server/metrics.ts'
import { root } from '../cli/support.ts'
import { hostOf } from '../support/host.ts'
import { requestOf, startServer, tokens } from './support.ts'

const text = (name: string) => readFileSync(join(root, 'deploy', name), 'utf8')

it.each(['grafana.json', 'alerts.yaml'])('%s asks for figures that the server has', (name) => {
  const asked = [...text(name).matchAll(/reprise_\w+/g)].map(([found]) => found.replace(/_(?:bucket|sum|count)$/, ''))
  expect(asked.length).toBeGreaterThan(5)
  expect(asked.filter((each) => !(metricNames as readonly string[]).includes(each))).toEqual([])
})

it('the dashboard is one that Grafana reads: each panel has its place and its question', () => {
  const { panels } = JSON.parse(text('grafana.json')) as { panels: { id: number; targets: { expr: string }[] }[] }
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  expect(panels.every(({ targets }) => targets.every(({ expr }) => expr.length > 0))).toBe(true)
})

it('A3.4: the first alert is a recovery point that no longer advances', () => {
  expect(/alert: (\w+)/.exec(text('alerts.yaml'))?.[1]).toBe('RepriseRecoveryPointStands')
})

it("promtool accepts the rules and the server's metrics", async () => {
  if (spawnSync('promtool', ['--version']).status !== 0) {
    console.warn('the rules are not checked: there is no promtool here')
    return
  }
  const rules = spawnSync('promtool', ['check', 'rules', join(root, 'deploy/alerts.yaml')], { encoding: 'utf8' })
  expect([rules.status, rules.stderr]).toEqual([0, ''])
  const here = await startServer()
  const { value } = await here.ask('/metrics')
  await here.close()
  const figures = spawnSync('promtool', ['check', 'metrics'], { input: value, encoding: 'utf8' })
  expect([figures.status, figures.stderr]).toEqual([0, ''])
  const fired = spawnSync('promtool', ['test', 'rules', join(root, 'test/server/alerts.test.yaml')], {
    encoding: 'utf8',
  })
  expect([fired.status, fired.stderr]).toEqual([0, ''])
})

it('each alert has a case in which it fires and one in which it does not', () => {
  const names = [...text('alerts.yaml').matchAll(/alert: (\w+)/g)].map(([, name]) => name!)
  const cases = readFileSync(join(root, 'test/server/alerts.test.yaml'), 'utf8')
    .split(/^ +alertname: /m)
    .slice(1)
  const seen = cases.map((each) => [/^\w+/.exec(each)![0], !/exp_alerts: \[\]/.test(each)] as const)
  const missing = names.filter((name) =>
    [true, false].some((fires) => !seen.some((at) => at[0] === name && at[1] === fires)),
  )
  expect(missing).toEqual([])
})

it('figures exist from zero, and are answered while the store is away', async () => {
  const here = await startServer()
  const before = (await here.ask('/metrics')).value as string
  expect(before).toMatch(/^reprise_drills_total\{outcome="failed"\} 0$/m)
  expect(before).toMatch(/^reprise_store_retries_total 0$/m)
  expect(before).toMatch(/^reprise_store_up 1$/m)
  const { store } = hostOf(here.rp).kernel
  const away = serve(here.rp, { tokens })
  const workers = store.workers
  store.workers = () => Promise.reject(new Error('away'))
  const response = await away(requestOf('/metrics'))
  store.workers = workers
  expect([response.status, await response.text()]).toEqual([200, expect.stringMatching(/^reprise_store_up 0$/m)])
  await away.close()
  await here.close()
  // In OpenMetrics a counter's family has its name without _total: it must not be the name of another one.
  const families = metricNames.map((name) => name.replace(/_total$/, ''))
  expect(new Set(families).size).toBe(families.length)
})

it('the container runs as a user without rights, and everything stops with time to finish', () => {
  expect(text('Dockerfile')).toMatch(/^USER node$/m)
  expect(text('kubernetes.yaml')).toMatch(/runAsNonRoot: true/)
  expect(text('reprise.service')).toMatch(/^DynamicUser=yes$/m)
  for (const name of ['compose.yaml', 'kubernetes.yaml', 'reprise.service']) expect(text(name)).toMatch(/40/)
})
