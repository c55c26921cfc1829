// Jobs under `reprise serve --work`, as a person uses them: dead letters that are sent back are tried without a further click,
// and a job that a person stopped stays stopped until a person resumes it.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { root } from '../cli/support.ts'
import { type Cleanups, Client, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** `papers` fails for one item until a file exists; `night` does its fifth item at dawn, the next slowly, and all at noon. */
const jobs = `
import { existsSync } from 'node:fs'
import { job } from '${root}dist/layers/job/index.js'
export const papers = job('papers', {
  source: (_cursor, { input }) => input,
  key: (item) => item,
  retry: { attempts: 1 },
  each: (item) => {
    if (item === 'gone' && !existsSync('found')) throw new Error('404')
  },
})
export const night = job('night', {
  source: Array.from({ length: 20 }, (_, n) => String(n)),
  key: (item) => item,
  concurrency: 1,
  each: async (item) => {
    const passed = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
    while (Number(item) > 3 && !existsSync('dawn') && !existsSync('noon')) await passed(20)
    // Between the request of a stop and its arrival, a busy machine would otherwise do all items.
    for (let ms = 0; Number(item) > 3 && ms < 1000 && !existsSync('noon'); ms += 20) await passed(20)
  },
})
`

const wait = { timeout: 60_000, interval: 50 }

it('redriven items of a finished job are tried by the worker, also after it was killed, with the input of their round', async () => {
  const place = await placeOn('sqlite', cleanups)
  writeFileSync(join(place.folder, 'jobs.mjs'), jobs)
  const options = ['--work', '--module', 'jobs.mjs']
  const first = await startServe(place, cleanups, options)
  const client = new Client(place.port, tokenIn(place.folder))
  const path = '/v1/timelines/job%2Fpapers'
  const shown = async () => {
    const { status, attributes, statusLine } = await client.insist(path)
    return { status, done: attributes.done, dead: attributes.dead, round: attributes.round, text: statusLine.text }
  }
  await client.insist('/v1/runs', { kind: 'job', name: 'papers', input: ['a', 'gone', 'b'] }, 'start')
  await expect
    .poll(shown, wait)
    .toEqual({ status: 'completed', done: 2, dead: 1, round: 1, text: '2 done, 1 dead letter' })
  // It fails again, and is a dead letter again: it was tried.
  const letterAt = async () => (await client.insist(`${path}/dead-letters`)).letters[0]?.at
  const before = await letterAt()
  expect(before).toBeGreaterThan(0)
  await client.insist(`${path}/redrive`, { keys: ['gone'] }, 'redrive-1')
  await expect.poll(async () => ((await letterAt()) ?? 0) > before, wait).toBe(true)
  await expect.poll(shown, wait).toMatchObject({ status: 'completed', done: 2, dead: 1, round: 1 })
  // A process that dies before it has released the job leaves the request to the next worker.
  const owner = async () => (await client.insist('/v1/timelines?prefix=job/papers')).timelines[0].owner
  await expect.poll(owner, wait).toBeNull()
  await first.kill()
  writeFileSync(join(place.folder, 'found'), '')
  const reader = await startServe(place, cleanups)
  await client.insist(`${path}/redrive`, { keys: ['gone'] }, 'redrive-2')
  // No worker has the job: the item is counted, and the job is left with work.
  expect(await shown()).toMatchObject({ status: 'stopped', dead: 0, text: '2 done, 1 to be retried' })
  await reader.kill()
  await startServe(place, cleanups, options)
  await expect.poll(shown, wait).toEqual({ status: 'completed', done: 3, dead: 0, round: 1, text: '3 done' })
})

it('a job that a person stopped stays stopped, whatever the worker does, until a person resumes it', async () => {
  const place = await placeOn('sqlite', cleanups)
  writeFileSync(join(place.folder, 'jobs.mjs'), jobs)
  await startServe(place, cleanups, ['--work', '--module', 'jobs.mjs'])
  const client = new Client(place.port, tokenIn(place.folder))
  const path = '/v1/timelines/job%2Fnight'
  const shown = async () => {
    const { status, owner, wakeup, epoch } = await client.insist(path)
    return { status, owner, wakeup, epoch }
  }
  await client.insist('/v1/runs', { kind: 'job', name: 'night' }, 'start')
  await expect.poll(async () => (await client.insist(path)).statusLine.text, wait).toMatch(/^4 done/)
  await client.insist(`${path}/stop`, { reason: 'enough' }, 'stop')
  writeFileSync(join(place.folder, 'dawn'), '')
  await expect.poll(shown, wait).toMatchObject({ status: 'stopped', owner: null, wakeup: null })
  const { epoch } = await shown()
  // The same worker does other work from its beginning to its end meanwhile.
  await client.insist('/v1/runs', { kind: 'job', name: 'papers', input: ['a'] }, 'other')
  await expect.poll(async () => (await client.insist('/v1/timelines/job%2Fpapers')).status, wait).toBe('completed')
  expect(await shown()).toEqual({ status: 'stopped', owner: null, wakeup: null, epoch })
  writeFileSync(join(place.folder, 'noon'), '')
  const { text } = await client.insist(`${path}/retry`, {}, 'resume')
  expect(text).toBe('night is due: a worker that has it resumes it (reprise work FILE)')
  await expect.poll(async () => (await shown()).status, wait).toBe('completed')
  expect((await client.insist(path)).attributes.done).toBe(20)
  const again = await client.ask(`${path}/retry`, {}, 'again')
  expect([again.status, again.value.code]).toEqual([400, 'INVALID_ARGUMENT'])
})
