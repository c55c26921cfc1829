// The bench runner as its users call it: one process, its stdout, its exit code. No time is asserted.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const runner = fileURLToPath(new URL('../bench/run.mjs', import.meta.url))

function bench(...options: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [runner, ...options], { encoding: 'utf8' })
  return { status, stdout, stderr }
}

function results(...options: string[]) {
  const { status, stdout } = bench('self', '--json', ...options)
  expect(status).toBe(0)
  const { suite, results } = JSON.parse(stdout)
  expect(suite).toBe('self')
  return new Map<string, Record<string, unknown>>(results.map((result: { name: string }) => [result.name, result]))
}

it('with --json prints one object, and medians with a ratio that is the median of the ratios of single runs', () => {
  const all = results()
  expect(all.get('median-of-ratios')).toMatchObject({
    ...{ value: 6, unit: 'op/s', baseline: 8, ratio: 0.9 },
    ...{ runs: 5, target: { ratioMin: 0.7 }, met: true },
  })
  expect(all.get('details')).toMatchObject({ met: true, details: { stallMs: 22 } })
})

it('says that a target is missed and still ends well', () => {
  expect(results().get('missed')).toMatchObject({ value: 2, baseline: null, ratio: null, met: false })
  const { status, stdout } = bench('self')
  expect(status).toBe(0)
  expect(stdout).toMatch(/^missed .* value ≤ 1 +MISSED$/m)
})

it('lets the two sides of a pair take turns at going first', () => {
  expect(results('--only', 'takes-turns', '--runs', '6').get('takes-turns')).toMatchObject({ value: 1, ratio: 1 })
})

it('runs only the bench that is asked for, and judges no target on fewer than five runs', () => {
  const all = results('--only', 'missed', '--runs', '2')
  expect([...all.keys()]).toEqual(['missed'])
  expect(all.get('missed')).toMatchObject({ runs: 2, met: null })
})

it('reports a skipped bench with its reason', () => {
  expect(results().get('skipped')).toMatchObject({ value: null, skipped: 'no such machine' })
})

it.each([
  ['an unknown suite', ['nonsense', '--json']],
  ['a path for a suite', ['../bench/self']],
  ['a helper for a suite', ['measure']],
  ['no suite', []],
  ['an unknown bench', ['self', '--only', 'nonsense']],
  ['an unknown option', ['self', '--fast']],
  ['no runs', ['self', '--runs', '0']],
])('refuses %s with exit code 2 and nothing on stdout', (_name, options) => {
  const { status, stdout, stderr } = bench(...options)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr).toContain('suites:')
})
