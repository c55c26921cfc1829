// Repeated or abbreviated input: an import that exists already, a list without the kind.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { workFolder } from './support.ts'
import { cli } from './warm.ts'

let folder: ReturnType<typeof workFolder>
beforeEach(() => {
  folder = workFolder()
  writeFileSync(
    join(folder.path, 'jobs.mjs'),
    `import { job } from 'reprise/job'
     export const papers = job('papers', { source: ['1', '2'], key: (item) => item, each: () => undefined })
     export const same = job('same', { source: ['1'], key: (item) => item, each: () => undefined })`,
  )
  writeFileSync(
    join(folder.path, 'flows.mjs'),
    `import { workflow } from 'reprise/workflow'
     export const same = workflow('same', async () => 1)`,
  )
})
afterEach(() => folder.remove())
const at = () => ({ cwd: folder.path })

it('a repeated import is reported and succeeds; another history under the id is a conflict', async () => {
  expect((await cli(['run', 'jobs.mjs', 'papers'], at())).code).toBe(0)
  expect((await cli(['export', 'papers', 'papers.rp'], at())).code).toBe(0)
  const other = ['--url', 'sqlite:other.db']
  expect((await cli(['import', 'papers.rp', ...other], at())).code).toBe(0)
  const again = await cli(['import', 'papers.rp', ...other], at())
  expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('already imported')])
  // The result is the same at its original place.
  expect((await cli(['import', 'papers.rp'], at())).code).toBe(0)
  expect((await cli(['run', 'jobs.mjs', 'same'], at())).code).toBe(0)
  const taken = await cli(['import', 'papers.rp', '--as', 'job/same'], at())
  expect([taken.code, taken.stdout]).toEqual([6, ''])
})

it('ls accepts a name without its kind if it is unambiguous, else it lists the candidates', async () => {
  for (const [file, name] of [
    ['jobs.mjs', 'papers'],
    ['jobs.mjs', 'same'],
    ['flows.mjs', 'same'],
  ] as const) {
    expect((await cli(['run', file, name], at())).code, name).toBe(0)
  }
  const listed = await cli(['ls', 'papers', '--json'], at())
  expect(JSON.parse(listed.stdout).map((head: { timeline: string }) => head.timeline)).toContain('job/papers')
  const both = await cli(['ls', 'same'], at())
  expect([both.code, both.stdout]).toEqual([2, ''])
  expect(both.stderr).toMatch(/job\/same.*workflow\/same|workflow\/same.*job\/same/)
})

it('erase takes a name, needs the whole id with --yes, and fails for a missing timeline', async () => {
  expect((await cli(['run', 'jobs.mjs', 'papers'], at())).code).toBe(0)
  const plan = await cli(['erase', 'papers'], at())
  expect([plan.code, plan.stdout]).toEqual([0, expect.stringContaining('job/papers')])
  expect((await cli(['erase', 'papers', '--yes'], at())).code).toBe(2)
  expect((await cli(['erase', 'job/nothing', '--yes'], at())).code).toBe(4)
  expect((await cli(['show', 'job/papers'], at())).code).toBe(0)
  expect((await cli(['erase', 'job/papers', '--yes'], at())).code).toBe(0)
  expect((await cli(['show', 'job/papers'], at())).code).toBe(4)
})
