// `reprise dev` as a person uses it: files change while runs are in flight, well and badly.

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { bin, cli, root } from '../cli/support.ts'
import { type Cleanups, Client, placeOn, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const flow = (first: string, answer: string) => `
import { appendFileSync } from 'node:fs'
import { workflow } from '${root}dist/layers/workflow/index.js'
export const greet = workflow('greet', async (ctx, name) => {
  await ctx.step('${first}', () => appendFileSync('calls.txt', name + '\\n'))
  await ctx.signal('go')
  return '${answer} ' + name
})
`

it('restarts when a file changes: runs continue, broken code is rejected, and a divergence is reported', async () => {
  const place = await placeOn('sqlite', cleanups)
  const file = join(place.folder, 'flow.mjs')
  writeFileSync(file, flow('one', 'hello'))
  const args = [bin, 'dev', 'flow.mjs', '--port', String(place.port), '--url', place.url, '--token-file', 'tokens.json']
  const child = spawn(process.execPath, args, { cwd: place.folder, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = new Promise<number | null>((resolve) => void child.once('close', resolve))
  cleanups.push(async () => {
    child.kill('SIGKILL')
    await closed
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece: Buffer) => {
      said += piece
    })
  }
  /** Waits for text that follows the output so far. */
  const hears = async (words: RegExp, act: () => unknown = () => undefined) => {
    const from = said.length
    await act()
    await expect.poll(() => said.slice(from), { timeout: 60_000, interval: 20 }).toMatch(words)
  }
  await expect.poll(() => said, { timeout: 60_000 }).toMatch(/serving/)
  const client = new Client(place.port, tokenIn(place.folder))
  const run = (id: string) => `/v1/timelines/${encodeURIComponent(`workflow/greet/${id}`)}`
  const status = async (id: string) => (await client.insist(run(id))).status
  const calls = () => readFileSync(join(place.folder, 'calls.txt'), 'utf8').trimEnd().split('\n')
  for (const id of ['ann', 'bob']) await client.insist('/v1/runs', { name: 'greet', id, input: id }, id)
  await expect.poll(() => calls().length, { timeout: 60_000 }).toBe(2)

  await hears(/reloaded/, () => writeFileSync(file, flow('one', 'good day')))
  await client.insist(`${run('ann')}/signal`, { name: 'go' }, 's1')
  expect(await client.insist(`${run('ann')}/result?waitMs=20000`)).toMatchObject({ result: 'good day ann' })

  await hears(/keeps running; save again/, () => writeFileSync(file, 'export const greet = ('))
  expect((await client.ask('/healthz')).status).toBe(200)

  await hears(/ctx\.patch/, () => writeFileSync(file, flow('uno', 'hello')))
  await expect.poll(() => status('bob'), { timeout: 60_000 }).toBe('diverged')

  await hears(/reloaded/, () => writeFileSync(file, flow('one', 'welcome')))
  await client.insist(`${run('bob')}/signal`, { name: 'go' }, 's2')
  expect(await client.insist(`${run('bob')}/result?waitMs=20000`)).toMatchObject({ result: 'welcome bob' })
  expect(calls().sort()).toEqual(['ann', 'bob'])

  // Data that a step writes is not a source, unless a source imports it.
  writeFileSync(join(place.folder, 'report.json'), '{"n":1}')
  await new Promise((resolve) => setTimeout(resolve, 1000))
  writeFileSync(join(place.folder, 'words.json'), '{}')
  const importing = `import words from './words.json' with { type: 'json' }\n${flow('one', 'welcome')}`
  await hears(/reloaded/, () => writeFileSync(file, importing))
  await hears(/words\.json changed[\s\S]*reloaded/, () => writeFileSync(join(place.folder, 'words.json'), '{"n":2}'))
  expect(said).not.toMatch(/report\.json changed/)

  // A reload does not act as Ctrl-C, and no line names its run twice.
  expect(said).not.toMatch(/Ctrl-C again/)
  expect(said).not.toMatch(/(workflow\/greet\/\w+): \1/)
  child.kill('SIGINT')
  expect(await closed).toBe(0)
}, 180_000)

it('ends with the reason where the port is taken', async () => {
  const place = await placeOn('sqlite', cleanups)
  writeFileSync(join(place.folder, 'flow.mjs'), flow('one', 'hello'))
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(place.port, '127.0.0.1', resolve))
  cleanups.push(() => taken.close())
  const args = ['dev', 'flow.mjs', '--port', String(place.port), '--url', place.url, '--token-file', 'tokens.json']
  const ended = await cli(args, { cwd: place.folder })
  expect([ended.code, ended.stderr]).toEqual([
    2,
    expect.stringMatching(/127\.0\.0\.1:\d+ is in use: choose another port/),
  ])
})
