// npm run prove: killed, it resumes; a failed proof is discarded and repeated; another page or commit keeps the rows of the
// table.

import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, expect, it } from 'vitest'
import { begin, end, rowsOf, updatePage } from '../scripts/prove-page.mjs'
import { temporaryFolder } from './support/fixture.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
let folder: string
beforeEach(() => {
  folder = temporaryFolder('prove')
  writeFileSync(join(folder, 'page.md'), `before\n${begin}\n| a |\n|---|\n${end}\nafter\n`)
})

const lines = () =>
  existsSync(join(folder, 'log')) ? readFileSync(join(folder, 'log'), 'utf8').trim().split('\n') : []
const page = () => readFileSync(join(folder, 'page.md'), 'utf8')

async function prove(args: readonly string[], killAfter = Number.POSITIVE_INFINITY) {
  const places = ['--store', join(folder, 'prove.db'), '--page', join(folder, 'page.md')]
  const plan = ['--plan', join(root, 'test/programs/prove-plan.mjs')]
  const child = spawn(process.execPath, [join(root, 'scripts/prove.mjs'), ...places, ...plan, ...args], {
    env: { ...process.env, PROVE_FOLDER: folder },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (said += String(piece)))
  const watch = setInterval(() => lines().length >= killAfter && child.kill('SIGKILL'), 20)
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.once('close', (...ended) => resolve(ended as [number | null, string | null])),
  )
  clearInterval(watch)
  return { code, signal, said }
}

it('killed in the middle, it resumes, and each slice counts once', async () => {
  expect((await prove(['--only', 'quick'], 3)).signal).toBe('SIGKILL')
  expect(lines().length).toBeLessThan(6)
  const { code, said } = await prove(['--only', 'quick'])
  expect(code, said).toBe(0)
  // At most the slice in flight was run again.
  expect(lines().length).toBeLessThanOrEqual(7)
  expect([...new Set(lines())].sort()).toEqual(['0', '10', '2', '4', '6', '8'])
  expect(page()).toMatch(
    /\| quick \| G1 \| 12 of 12 quick ones \| 0 \| 1–12 \| [0-9a-f]{10}(\+changes)? \| \d{4}-\d\d-\d\d \|/,
  )
  expect([page().startsWith('before\n'), page().endsWith('\nafter\n')]).toEqual([true, true])
  // A repetition has nothing left to do.
  await prove(['--only', 'quick'])
  expect(lines().length).toBeLessThanOrEqual(7)
})

it('a failed slice is discarded, prints how to repeat it, and is retried by the next run', async () => {
  const first = await prove(['--only', 'failing'])
  expect(first.code).toBe(1)
  expect(first.said).toContain('repeat it: node -e')
  expect(first.said).toMatch(/failed: it ended with 3: because of the moon/)
  const [place] = readdirSync(join(folder, 'prove.db-failures'))
  expect(readFileSync(join(folder, 'prove.db-failures', place!), 'utf8')).toContain('because of the moon')
  expect(page()).toContain('| 0 of 1 failing ones | 1 | none |')
  // A run that wants something else leaves it alone.
  expect((await prove(['--only', 'other'])).said).not.toContain('/failing/')
  expect(page()).toContain('| 0 of 1 failing ones | 1 | none |')
  writeFileSync(join(folder, 'mended'), '')
  expect((await prove(['--only', 'failing'])).said).toContain('failing: 1 of 1')
  expect(page()).toContain('| 1 of 1 failing ones | 1 |')
})

it('a slice that is interrupted has not failed: it is left to the next run', async () => {
  const { said } = await prove(['--only', 'interrupted'])
  expect(said).toContain('was interrupted')
  expect(said).toContain('1 of 1 slices are left')
  expect(page()).toContain('| 0 of 1 of them | 0 | none |')
  writeFileSync(join(folder, 'mended'), '')
  expect((await prove(['--only', 'interrupted'])).code).toBe(0)
  expect(page()).toContain('| 1 of 1 of them | 0 | 1–1 |')
})

it('ends when its time is over, and counts what passed until then', async () => {
  const { said } = await prove(['--only', 'lingering', '--for', '2s', '--grace', '50ms'])
  expect(said).toContain('the time is over')
  // One of them ends by itself, if there is time for it.
  const done = Number(/lingering: (\d) of 3/.exec(said)?.[1] ?? 0)
  expect([0, 1]).toContain(done)
  expect(said).toContain(`${3 - done} of 3 slices are left`)
  if (done === 1) expect(page()).toContain('| 1 of 3 lingering ones | 0 | 1–1 |')
})

it('runs a share of a real proof', async () => {
  const { code, said } = await prove(['--only', 'simulation', '--share', '0.00002'])
  expect(code, said).toBe(0)
  expect(page()).toContain('20 of 1,000,000 seeds of the simulation')
})

it('keeps the rows of other commits, and no more than three of a proof', () => {
  const proofs = [{ id: 'p', promises: 'G1', what: 'trials', target: 10, size: 5 }]
  const path = join(folder, 'page.md')
  for (const commit of ['c1', 'c2', 'c3', 'c4']) {
    const slice = { proof: 'p', commit, from: 0, count: 5, at: '2026-01-01', isOk: true, failures: 0 }
    updatePage(path, rowsOf(proofs, [slice]))
  }
  const kept = page().match(/^\| p \|.*$/gm)!
  expect(kept.map((line) => line.split('|')[6]!.trim())).toEqual(['c4', 'c3', 'c2'])
})

it('names the seeds that passed, not those in between', () => {
  const proofs = [{ id: 'p', promises: 'G1', what: 'trials', target: 20, size: 5 }]
  const slice = { proof: 'p', commit: 'c', count: 5, at: '2026-01-01', failures: 0 }
  const passed = [0, 5, 15].map((from) => ({ ...slice, from, isOk: true }))
  updatePage(join(folder, 'page.md'), rowsOf(proofs, [...passed, { ...slice, from: 10, isOk: false, failures: 2 }]))
  expect(page()).toContain('| p | G1 | 15 of 20 trials | 2 | 1–10, 16–20 | c | 2026-01-01 |')
})

it('the page of the proofs has the place for it, and names existing proofs', () => {
  const text = readFileSync(join(root, 'docs/proofs.md'), 'utf8')
  expect(text).toContain(begin)
  const named = [...text.matchAll(/`(?:[^`]* )?((?:src|test)\/[^` ]+)`/g)].map(([, path]) => path!)
  expect(named.length).toBeGreaterThan(40)
  // The beginning of several names will do: vitest takes it too.
  const isThere = (path: string) =>
    existsSync(join(root, path)) ||
    readdirSync(join(root, dirname(path))).some((name) => name.startsWith(basename(path)))
  expect(named.filter((path) => !isThere(path))).toEqual([])
})
