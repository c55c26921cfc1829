// Ctrl-C while something outside does not answer: a run that has read nothing stops; one that has to wait prints for what.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { live, workFolder } from './support.ts'

let folder: ReturnType<typeof workFolder>
beforeEach(() => {
  folder = workFolder()
})
afterEach(() => folder.remove())

const module = `
import { generatedSource, pipeline } from 'reprise/pipeline'
const never = () => new Promise(() => setInterval(() => undefined, 1000))
const sink = (prepare) => ({
  open: async () => ({
    pending: 0, write: () => undefined, cut: () => prepare, commit: async () => undefined,
    rejoin: () => undefined, close: never,
  }),
})
export const listing = pipeline('listing', (p) => {
  p.from('orders', { partitions: never, open: never }, { keyed: true }).to('out', sink(async () => null))
})
export const opening = pipeline('opening', (p) => {
  p.from('orders', { open: never }).to('out', sink(async () => null))
})
export const cutting = pipeline('cutting', (p) => {
  p.from('orders', generatedSource((n) => n, { count: 1e9 })).to('out', sink(never))
}, { checkpoint: { every: '1h' } })
`

it('stops though a source does not open, and shows that it waits for it', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'flows.mjs'), module)
  const run = live(['run', 'flows.mjs', 'opening', '--report', 'json'], { cwd })
  await run.until(/"waitsFor":\["opening the source orders \(pipeline\/opening, \ds\)"\]/)
  const ended = await run.end('SIGINT')
  expect(ended).toMatchObject({ code: 130, signal: null })
  expect(ended.stdout).toContain('opening: stopped')
})

it.each([
  ['once', 130],
  ['twice', 130],
])('stops threads though a source does not list its partitions: Ctrl-C %s', async (times, code) => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'flows.mjs'), module)
  const run = live(['run', 'flows.mjs', 'listing', '--threads', '2', '--report', 'json'], { cwd })
  await run.until(/"waitsFor":\["thread \d: listing the partitions of the source orders \(pipeline\/listing, \ds\)"/)
  if (times === 'twice') run.signal('SIGINT')
  const ended = await run.end('SIGINT')
  expect(ended).toMatchObject({ code, signal: null })
})

it('prints the call that a savepoint waits for, and a second Ctrl-C ends it', async () => {
  const cwd = folder.path
  writeFileSync(join(cwd, 'flows.mjs'), module)
  const run = live(['run', 'flows.mjs', 'cutting', '--report', 'json'], { cwd })
  await run.until(/"records":[1-9]/)
  run.signal('SIGINT')
  await run.until(
    /still waiting for checkpoint 1 for the sink out \(pipeline\/cutting, \ds\); press Ctrl-C again to stop at once/,
  )
  expect(await run.end('SIGINT')).toMatchObject({ code: 130, signal: null })
})
