// reprise rollback to before a logical error, and reprise mark: the command first lists the undone entries, and acts only with
// --yes.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const app = `
import { timeline } from 'reprise'
export const account = timeline('account', {
  initial: () => ({ balance: 0 }),
  apply: (state, entry) => ({ balance: state.balance + entry.by }),
  valid: ({ balance }) => (balance < 0 ? 'the balance is ' + balance : true),
})
`

let folder: ReturnType<typeof workFolder>
const at = () => ({ cwd: folder.path })
const inFolder = (file: string) => pathToFileURL(join(folder.path, file)).href
let checkpoint: string

beforeEach(async () => {
  folder = workFolder()
  writeFileSync(join(folder.path, 'app.mjs'), app)
  writeFileSync(join(folder.path, 'where.mjs'), 'export default ({ balance }) => balance !== 12\n')
  writeFileSync(join(folder.path, 'none.mjs'), 'export const a = 1\n')
  const { open } = await import(inFolder('node_modules/reprise/dist/index.js'))
  const { account } = await import(inFolder('app.mjs'))
  const rp = (await open(`sqlite:${join(folder.path, '.reprise/reprise.db')}`)) as Reprise
  const ann = await rp.open(account as never, 'ann')
  const open2 = ann as { append(e: object): Promise<void>; checkpoint(): Promise<{ id: string }> }
  for (const by of [5, 7]) await open2.append({ type: 'moved', by })
  checkpoint = (await open2.checkpoint()).id
  for (const by of [-20, 1]) await open2.append({ type: 'moved', by })
  await rp.close()
})
afterEach(() => folder.remove())

it('finds where the state went wrong, shows the entries that would be undone, and undoes them with --yes', async () => {
  const refused = await cli(['rollback', 'account/ann', '--until-valid'], at())
  expect(refused.code).toBe(2)
  const shown = await cli(['rollback', 'account/ann', '--until-valid', '--module', 'app.mjs'], at())
  expect(shown.code).toBe(2)
  expect(shown.stdout).toContain('back to 2, before 3 (moved')
  expect(shown.stdout).toContain('the balance is -8')
  expect(shown.stdout).toContain('2 entries would be discarded: 2 moved')
  expect(shown.stderr).toContain('nothing was changed')
  const planned = await json<{ plan: { to: number } }>(['rollback', 'account/ann', '--before', '4'], at())
  expect([planned.code, planned.value.plan.to]).toEqual([2, 3])
  const done = await json<{ to: { seq: number } }>(
    ['rollback', 'account/ann', '--until-valid', '--module', 'app.mjs', '--yes'],
    at(),
  )
  expect([done.code, done.value.to.seq]).toEqual([0, 2])
})

it('takes a predicate of a file, a time, and one way only', async () => {
  const where = ['rollback', 'account/ann', '--where', 'where.mjs', '--module', 'app.mjs']
  expect((await cli(where, at())).stderr).toContain('nothing to undo')
  const none = await cli(['rollback', 'account/ann', '--where', 'none.mjs', '--module', 'app.mjs'], at())
  expect(none.stderr).toContain('exports no function')
  const late = await cli(['rollback', 'account/ann', '--before-time', '2999-01-01T00:00:00Z'], at())
  expect(late.stderr).toContain('nothing to undo')
  const early = await cli(['rollback', 'account/ann', '--before-time', '2020-01-01T00:00:00Z'], at())
  expect(early.stdout).toContain('back to 0, before 1')
  expect((await cli(['rollback', 'account/ann@1', '--before', '2'], at())).code).toBe(2)
  expect((await cli(['rollback', 'account/ann', '--before-time', 'tomorrow'], at())).code).toBe(2)
})

it('A4.7: marks a checkpoint bad and removes the mark', async () => {
  const bad = ['mark', 'account/ann', checkpoint, '--bad', 'made by the import', '--by', 'ann']
  const told = { timeline: 'account/ann', checkpoint, bad: 'made by the import', by: 'ann' }
  expect(await json(bad, at())).toEqual({ code: 0, value: told })
  expect((await cli(['checkpoints', 'account/ann'], at())).stdout).toContain('marked bad by ann: made by the import')
  expect((await cli(['mark', 'account/ann', checkpoint], at())).code).toBe(2)
  expect((await cli(['mark', 'account/ann', checkpoint, '--good'], at())).stdout).toContain('is used again')
  expect((await cli(['checkpoints', 'account/ann'], at())).stdout).not.toContain('marked bad')
})
