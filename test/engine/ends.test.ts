// A program that has closed its engine ends at once: none of our timers keeps it alive. Measured by the remaining timers, not
// by the clock.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/fixture.ts'

const folder = temporaryFolder('ends')

const dist = new URL('../../dist/', import.meta.url).href
const program = (url: string, options: object) => `
import { open } from '${dist}index.js'
import { workflow } from '${dist}layers/workflow/index.js'
const rp = await open(${JSON.stringify(url)}, ${JSON.stringify(options)})
await rp.run(workflow('one', async (ctx) => await ctx.step('a', () => 1))).result()
await rp.close()
// Timers that do not keep the process alive are not among them.
console.log(JSON.stringify(process.getActiveResourcesInfo().filter((each) => each === 'Timeout')))
`

it.each([
  ['memory', 'memory:', {}],
  ['SQLite', `sqlite:${join(folder, 'plain.db')}`, {}],
  ['SQLite with a mirror', `sqlite:${join(folder, 'mirrored.db')}`, { mirror: `file:${join(folder, 'mirror')}` }],
])('leaves no timer behind on %s', (_, url, options) => {
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program(url, options)], {
    encoding: 'utf8',
  })
  expect([JSON.parse(stdout || 'null'), stderr]).toEqual([[], ''])
})
