// The bench runner as its users call it: one process, its stdout, its exit code. No time is asserted.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import {
  compared,
  comparedTable,
  figuresTable,
  quotedTable,
  readFigures,
  record,
  withTable,
} from '../bench/figures.mjs'

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

it('reports a missed target and still succeeds', () => {
  expect(results().get('missed')).toMatchObject({ value: 2, baseline: null, ratio: null, met: false })
  const { status, stdout } = bench('self')
  expect(status).toBe(0)
  expect(stdout).toMatch(/^missed .* value ≤ 1 +MISSED$/m)
})

it('lets the two sides of a pair take turns at going first', () => {
  expect(results('--only', 'takes-turns', '--runs', '6').get('takes-turns')).toMatchObject({ value: 1, ratio: 1 })
})

it('runs only the requested bench, and judges no target on fewer than five runs', () => {
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

describe('the recorded figures', () => {
  const pages = new URL('../', import.meta.url)
  const read = (page: string, folder = pages) => readFileSync(new URL(page, folder), 'utf8')

  it('are those of the tables in bench/README.md, README.md and the pages that compare, and README.md quotes no others', () => {
    const recorded = readFigures()
    for (const [page, table] of [
      ['bench/README.md', figuresTable(recorded)],
      ['README.md', quotedTable(recorded)],
      ...Object.keys(compared).map((each) => [each, comparedTable(recorded, each)] as const),
    ] as const) {
      expect(read(page)).toBe(withTable(read(page), table))
    }
    const prose = read('README.md').replace(/<!-- figures -->[\s\S]*<!-- \/figures -->/, '')
    expect(prose.match(/\b[\d.]+ (?:times|×)|of their speed|\b[\d,]+ (?:runs|entries|items)\/s/g)).toBeNull()
    expect(
      read('bench/README.md')
        .replace(/<!-- figures -->[\s\S]*<!-- \/figures -->/, '')
        .split('\n').length,
    ).toBeLessThan(80)
  })

  it('are replaced by those of a suite that was run with --record, with date, commit and condition', () => {
    const root = pathToFileURL(`${mkdtempSync(join(tmpdir(), 'figures-'))}/`)
    for (const folder of ['bench', 'docs']) mkdirSync(new URL(folder, root))
    for (const page of ['README.md', 'bench/README.md', 'bench/figures.json', ...Object.keys(compared)])
      writeFileSync(new URL(page, root), read(page))
    const result = {
      ...{ name: 'cli-start', unit: 'ms', baseline: 100, ratio: 0.2 },
      spread: 0.1,
      met: true,
      target: null,
    }
    record('job', [{ ...result, value: 20 }], 0, new URL('bench/', root))
    const { figures } = readFigures(new URL('bench/', root))
    const made = figures.filter((each: { bench: string }) => each.bench === 'cli-start')
    expect(made).toMatchObject([{ suite: 'job', value: 20, ratio: 0.2, condition: 'quiet', target: 'reported' }])
    expect(made[0].commit).toMatch(/^[0-9a-f]{8}$/)
    expect(figures.length).toBe(readFigures().figures.length)
    expect(read('README.md', root)).toContain('20 ms, baseline 100, ratio 0.2 (quiet machine')
    expect(read('bench/README.md', root)).toContain('| `cli-start` | 20 ms | 100 | 0.2 | 10 % | reported | yes |')
    rmSync(root, { recursive: true })
  })

  it('are not recorded from fewer than five runs', () => {
    expect(bench('self', '--runs', '2', '--record')).toMatchObject({ status: 2, stdout: '' })
  })
})
