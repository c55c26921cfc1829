// The command line matches ids by whole segments too: a module that declares `a` decides nothing about `ab`.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { open } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { hostOf } from '../support/host.ts'
import { cli, json, workFolder } from './support.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

it('prune, drill, ls and show reach only declared or named timelines', async () => {
  writeFileSync(
    join(folder.path, 'saves.mjs'),
    "import { save } from 'reprise/save'\nexport const few = save('a', { keep: 2 })\n",
  )
  const rp = await open(`sqlite:${join(folder.path, '.reprise/reprise.db')}`)
  for (const name of ['a', 'ab']) {
    const handle = await rp.open(save<number>(name, { keep: 8 }))
    for (let n = 0; n < 8; n++) await handle.put(n)
  }
  for (const { timeline, epoch } of await rp.list()) {
    // As in an earlier version: only the declaration of a module defines the retention.
    const operation = newOperation(hostOf(rp).kernel.random)
    await hostOf(rp).kernel.committer.submit({ operation, guard: { timeline, epoch }, attributes: { $declared: null } })
  }
  const saved = async (id: string) => (await rp.checkpoints(id)).length
  const pruned = await json<{ timelines: { timeline: string }[] }>(['prune', '--yes', '--module', 'saves.mjs'], at)
  expect(pruned.value.timelines.map((each) => each.timeline)).toEqual(['save/a'])
  expect([await saved('save/a'), await saved('save/ab')]).toEqual([2, 8])
  const drilled = await json<{ unknown: string[] }>(['drill', '--module', 'saves.mjs'], at)
  expect(drilled.value.unknown).toEqual(['save/ab'])
  // A timeline that was named, and could not be drilled, is not a success.
  expect((await cli(['drill', 'save/ab', '--module', 'saves.mjs'], at)).code).toBe(2)
  expect((await cli(['checkpoints', 'save/a', '--module', 'saves.mjs'], at)).code).toBe(0)
  const listed = async (...args: string[]) =>
    (await json<{ timeline: string }[]>(['ls', ...args], at)).value.map((each) => each.timeline)
  expect(await listed('save/a')).toEqual(['save/a'])
  expect(await listed('save')).toEqual(['save/a', 'save/ab'])
  expect(await listed('sav')).toEqual([])
  expect((await cli(['ls', 'sav'], at)).stderr).toContain(
    'matched by whole segments, and save/a only shares this beginning',
  )
  // A prefix selects the only timeline that starts with it; two matches are refused with both names.
  expect((await cli(['show', 'save/ab'], at)).code).toBe(0)
  expect((await json<{ timeline: string }>(['show', 'save/a'], at)).value.timeline).toBe('save/a')
  expect((await cli(['show', 'sav'], at)).stderr).toContain('save/a, save/ab')
  await rp.close()
})
