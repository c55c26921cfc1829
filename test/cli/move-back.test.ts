// reprise move --back: after a move to a file, and where another store has imported that file.

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { cli, workFolder } from './support.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

it('revives a timeline that was moved to a file, unless the named store has it', async () => {
  writeFileSync(
    join(folder.path, 'fill.mjs'),
    `import { open, timeline } from 'reprise'
const counter = timeline('counter', { initial: () => 0, apply: (n) => n + 1 })
const rp = await open('sqlite:.reprise/reprise.db')
await rp.open(counter, 'x').append({ type: 'added' })
await rp.close()
`,
  )
  expect(spawnSync(process.execPath, ['fill.mjs'], { cwd: folder.path }).status).toBe(0)
  const status = async () => JSON.parse((await cli(['show', 'counter/x', '--json'], at)).stdout).status
  expect(await cli(['move', 'counter/x', 'x.reprise'], at)).toMatchObject({ code: 0 })
  expect(await status()).toBe('moved')
  expect(await cli(['move', 'counter/x', '--back'], at)).toMatchObject({ code: 0 })
  expect(await status()).not.toBe('moved')
  expect(await cli(['move', 'counter/x', 'y.reprise'], at)).toMatchObject({ code: 0 })
  expect(await cli(['import', 'y.reprise', '--url', 'sqlite:there.db'], at)).toMatchObject({ code: 0 })
  const back = await cli(['move', 'counter/x', '--back', '--to', 'sqlite:there.db'], at)
  expect(back.code).not.toBe(0)
  expect(back.stderr).toContain('move it from there')
  expect(await status()).toBe('moved')
})
