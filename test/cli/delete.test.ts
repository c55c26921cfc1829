// reprise delete, as a person uses it: it shows first, wants a whole id and --yes, and refuses with its code.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

it('shows the affected timelines, and deletes only with --yes and a whole id', async () => {
  writeFileSync(
    join(folder.path, 'few.mjs'),
    `import { job } from 'reprise/job'
export const few = job('few', { source: ['a', 'b', 'c'], each: () => undefined })
`,
  )
  await cli(['run', 'few.mjs', '--report', 'none'], at)
  await cli(['rollback', 'job/few@2', '--yes'], at)
  await cli(['run', 'few.mjs', '--report', 'none'], at)
  await cli(['fork', 'job/few@1', 'job/other'], at)
  const shown = await cli(['delete', 'job/few'], at)
  expect([shown.code, shown.stdout]).toEqual([6, expect.stringContaining('forks share its history')])
  expect(shown.stdout).toContain('job/few~1')
  const refused = await json<{ error: { code: string } }>(['delete', 'job/few', '--yes'], at)
  expect([refused.code, refused.value.error.code]).toEqual([6, 'PINNED'])
  expect((await cli(['delete', 'job/few', '--forks', '--unfinished'], at)).code).toBe(0)
  expect((await cli(['show', 'job/few'], at)).code).toBe(0)
  expect((await cli(['delete', 'few', '--forks', '--unfinished', '--yes'], at)).code).toBe(2)
  const gone = await cli(['delete', 'job/few', '--forks', '--unfinished', '--yes'], at)
  expect([gone.code, gone.stderr]).toEqual([0, ''])
  expect((await json<unknown[]>(['ls'], at)).value).toEqual([])
  expect((await cli(['delete', 'job/few', '--yes'], at)).code).toBe(4)
  const doctor = await json<{ checks: { name: string; state: string }[] }>(['doctor'], at)
  expect(doctor.value.checks).toContainEqual(expect.objectContaining({ name: 'housekeeping', state: 'ok' }))
})
