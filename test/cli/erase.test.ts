// reprise erase with --entries and --where, as a person uses it: it shows first, and acts with --yes.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path, env: { REPRISE_URL: 'sqlite:a.db' } }
afterAll(() => folder.remove())

const code = (importing: string) => `${importing}
export const notes = timeline('notes', {
  initial: () => ({ texts: [] }),
  apply: (state, entry) => ({ texts: [...state.texts, entry.text] }),
})
`

it('erases entries of a history that continues', async () => {
  writeFileSync(join(folder.path, 'app.mjs'), code("import { timeline } from 'reprise'"))
  const notes = timeline('notes', {
    initial: () => ({ texts: [] as string[] }),
    apply: (state, entry: { type: 'wrote'; text: string; by: string }) => ({ texts: [...state.texts, entry.text] }),
  })
  const rp = await open(`sqlite:${join(folder.path, 'a.db')}`)
  const ann = await rp.open(notes, 'ann')
  for (const text of ['one', 'a-secret', 'three'])
    await ann.append({ type: 'wrote', text, by: text === 'a-secret' ? 'ann' : 'bob' })
  await ann.close()
  await rp.close()
  const bare = await cli(['erase', 'notes/ann', '--entries', '2'], at)
  expect([bare.code, bare.stdout]).toEqual([6, expect.stringContaining('name the module')])
  const shown = await cli(['erase', 'notes/ann', '--module', 'app.mjs', '--where', 'by=ann'], at)
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining('would erase notes/ann@2')])
  expect(readFileSync(join(folder.path, 'a.db')).includes('a-secret')).toBe(true)
  expect((await cli(['erase', 'notes/ann', '--entries', 'two'], at)).code).toBe(2)
  const means = ['erase', 'notes/ann', '--module', 'app.mjs', '--where', 'by=ann', '--yes']
  const done = await json<{ entries: unknown }>(means, at)
  expect([done.code, done.value.entries]).toEqual([0, [{ timeline: 'notes/ann', seqs: [2] }]])
  expect(readFileSync(join(folder.path, 'a.db')).includes('a-secret')).toBe(false)
  const log = await cli(['log', 'notes/ann'], at)
  expect(log.stdout).toContain('$erased')
  expect((await cli(['drill', '--module', 'app.mjs'], at)).code).toBe(0)
})
