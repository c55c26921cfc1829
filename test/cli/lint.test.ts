// reprise lint: warnings for definitions, from their code and from the runs in a store.

import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { schedule, workflow } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { paceMistakes } from '../../src/operations/mistakes.ts'
import { pacesOf } from '../../src/operations/schedules.ts'
import { kitWith } from '../workflow/kits.ts'
import { cli, json, root, workFolder } from './support.ts'

const folder = workFolder()
afterAll(() => folder.remove())
const at = { cwd: folder.path }

it('ends with 3 and the reason and cure of each warning, and with 0 without one', async () => {
  const source = (key: string) => `
    import { job } from 'reprise/job'
    export const papers = job('papers', { source: [{ id: 1 }], ${key} each: () => {} })
    export const again = papers`
  writeFileSync(join(folder.path, 'wrong.mjs'), source(''))
  writeFileSync(join(folder.path, 'right.mjs'), source('key: ({ id }) => id,'))
  const wrong = await cli(['lint', 'wrong.mjs'], at)
  expect(wrong.code).toBe(3)
  expect(wrong.stdout).toMatch(
    /^job-item-key {2}wrong.mjs: job papers: .*\n {2}why: .*\n {2}cure: .*\n1 definition inspected, 1 warning\n$/,
  )
  expect(await json(['lint', 'right.mjs', 'wrong.mjs'], at)).toMatchObject({
    code: 3,
    value: { ok: false, definitions: 2, warnings: [{ file: 'wrong.mjs', rule: 'job-item-key', at: 'job papers' }] },
  })
  expect(await json(['lint', 'right.mjs'], at)).toMatchObject({ code: 0, value: { ok: true, warnings: [] } })
  expect((await cli(['lint', 'none.mjs'], at)).code).toBe(4)
})

it('uses the runs in the store, without writing to it', async () => {
  const code = `
    import { workflow } from 'reprise/workflow'
    export const seen = {}
    export const grown = new Promise((resolve) => (seen.all = resolve))
    export const polls = workflow('polls', async (ctx) => {
      const steps = (i) => Array.from({ length: 1001 }, (_, n) => () => ctx.step('poll ' + i + '-' + n, () => n))
      for (let i = 0; i < 10; i++) await ctx.parallel(steps(i))
      await ctx.step('all', () => seen.all())
      await ctx.signal('end')
    }, { durability: { window: '100ms' } })
    export const other = workflow('other', async () => 1)`
  writeFileSync(join(folder.path, 'grow.mjs'), code)
  const { open } = await import(pathToFileURL(join(root, 'dist/index.js')).href)
  const { polls, other, grown } = await import(pathToFileURL(join(folder.path, 'grow.mjs')).href)
  const rp = await open(`sqlite:${join(folder.path, '.reprise/reprise.db')}`)
  await rp.run(other, { id: 'one' }).result()
  await rp.run(polls, { id: 'one' })
  await grown
  await rp.close()
  expect(await json(['lint', 'grow.mjs'], at)).toMatchObject({
    code: 3,
    value: { warnings: [{ rule: 'workflow-growth', at: 'workflow/polls/one' }] },
  })
  const doctor = await json<{ checks: { name: string; state: string }[] }>(['doctor'], at)
  expect(doctor.value.checks.filter(({ state }) => state !== 'ok')).toMatchObject([{ name: 'workflow-growth' }])
})

it('warns about none of our examples', async () => {
  const files = readdirSync(join(root, 'examples'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|mjs)$/.test(name) && !/^(api|turborepo)\b/.test(name))
    .map((name) => join(root, 'examples', name))
  expect(files.length).toBeGreaterThan(20)
  const ran = await cli(['lint', '--url', 'memory:', ...files], at)
  expect([ran.code, ran.stdout.trimEnd().split('\n').at(-1)]).toEqual([
    0,
    expect.stringMatching(/^ok: \d\d definitions/),
  ])
})

it('compares the runs of a schedule with its period, by each overlap policy', async () => {
  const slow: Record<string, readonly [number, string[]]> = {}
  for (const [overlap, sleep] of [
    ['skip', '90m'],
    ['wait', '90m'],
    ['cancel', '90m'],
    ['allow', '90m'],
    ['skip', '59m'],
  ] as const) {
    const kit = kitWith()
    const report = workflow('report', async (ctx) => await ctx.sleep(sleep))
    kit.work(schedule('hourly', { workflow: report, every: '1h', overlap }))
    await kit.advance('12h')
    const [pace] = await pacesOf(kit.rp)
    const names = (await checkStore(kit.rp)).filter(({ name }) => name === 'schedule-too-slow').map(({ name }) => name)
    slow[`${overlap} ${sleep}`] = [paceMistakes(pace!).length, names]
  }
  const warned = [1, ['schedule-too-slow']]
  expect(slow).toEqual({
    'skip 90m': warned,
    'wait 90m': warned,
    'cancel 90m': warned,
    'allow 90m': [0, []],
    'skip 59m': [0, []],
  })
})
