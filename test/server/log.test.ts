// The log of `reprise serve` and `reprise dev`: one row per request and per error, by name and never with a credential.

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { Output } from '../../src/cli/output.ts'
import { type LogFormat, ServeLog } from '../../src/cli/serve-log.ts'
import { RepriseError } from '../../src/core/errors.ts'
import { open } from '../../src/index.ts'
import { bin, cli, root } from '../cli/support.ts'
import { type Cleanups, Client, placeOn, startServe, tokenIn } from './serving.ts'
import { secret, startServer } from './support.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A server whose log is written to `text`. */
async function logged(format: LogFormat, isVerbose = false) {
  const written: string[] = []
  const stream = { write: (text: string) => written.push(text) }
  const log = new ServeLog(format, new Output({ stdout: stream, stderr: stream, env: {} }, false), isVerbose)
  const rp = await open('memory:', { housekeeping: false })
  log.follow(rp)
  const here = await startServer({ rp, ...(log.requests && { log: log.requests }) })
  cleanups.push(() => here.close())
  const text = () => written.join('')
  return { here, text, rows: () => rowsOf(text()) }
}

// biome-ignore lint/suspicious/noExplicitAny: rows of several kinds, looked at by the test.
function rowsOf(text: string): any[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

it('has one row per request: the route, the path without its query, the status and the name of the caller', async () => {
  const { here, text, rows } = await logged('json')
  await here.ask('/v1/timelines?prefix=hidden-in-the-query')
  await here.ask('/v1/timelines/none', { as: 'reader' })
  await here.ask('/v1/nothing', { as: 'ann' })
  await here.ask('/v1/timelines', { as: null, headers: { authorization: `Bearer ${secret('stranger')}` } })
  await here.ask('/v1/timelines', { headers: { host: 'evil.example', origin: 'https://evil.example' } })
  const common = { time: expect.stringMatching(iso), kind: 'request', method: 'GET', ms: expect.any(Number) }
  expect(rows()).toEqual([
    { ...common, level: 'info', route: 'listTimelines', path: '/v1/timelines', status: 200, principal: 'owner' },
    {
      ...{ ...common, level: 'warn', route: 'showTimeline', path: '/v1/timelines/none', status: 404 },
      ...{ principal: 'reader', code: 'NOT_FOUND' },
    },
    { ...common, level: 'warn', route: null, path: '/v1/nothing', status: 404, principal: 'ann', code: 'NOT_FOUND' },
    {
      ...{ ...common, level: 'warn', route: 'listTimelines', path: '/v1/timelines', status: 401 },
      ...{ principal: null, code: 'UNAUTHENTICATED' },
    },
    {
      ...{ ...common, level: 'warn', route: null, path: '/v1/timelines', status: 403 },
      ...{ principal: null, code: 'FORBIDDEN' },
    },
  ])
  expect(text()).not.toMatch(/hidden-in-the-query|xxxx/)
})

it('has the row of a stream when it ends', async () => {
  const { here, text, rows } = await logged('json')
  const asked = new Request('http://127.0.0.1:4400/v1/feed/stream', {
    headers: { authorization: `Bearer ${secret('owner')}` },
  })
  const response = await here.server(asked)
  const reader = response.body!.getReader()
  expect(text()).toBe('')
  await reader.cancel()
  expect(rows()).toMatchObject([{ kind: 'request', path: '/v1/feed/stream', status: 200, principal: 'owner' }])
})

it.each([false, true])('has a row per error, with the id of the response; a stack: %s', async (isVerbose) => {
  const { here, rows } = await logged('json', isVerbose)
  here.rp.list = () => Promise.reject(new TypeError('a fault of our own'))
  const { value } = await here.ask('/v1/timelines')
  here.rp.list = () => Promise.reject(new RepriseError('STORE_UNREACHABLE', 'the store is away', {}))
  await here.ask('/v1/timelines')
  const error = { level: 'error', kind: 'error' }
  const request = { level: 'error', kind: 'request', route: 'listTimelines' }
  const { instance: id } = value
  expect(rows()).toMatchObject([
    { ...error, where: `listTimelines (${id})`, code: 'BUG', id, message: 'a fault of our own' },
    { ...request, status: 500, code: 'BUG', id },
    { ...error, where: 'listTimelines', code: 'STORE_UNREACHABLE', message: expect.stringContaining('away') },
    { ...request, status: 503, code: 'STORE_UNREACHABLE' },
  ])
  const stacks = rows().map(({ stack }) => stack)
  const some = isVerbose ? expect.stringContaining('log.test') : undefined
  expect(stacks).toEqual([some, undefined, some, undefined])
})

it('as text has the unexpected errors, under the id of the response, and as none nothing', async () => {
  for (const format of ['text', 'none'] as const) {
    const { here, text } = await logged(format)
    here.rp.list = () => Promise.reject(new TypeError('a fault of our own'))
    const { value } = await here.ask('/v1/timelines')
    await here.ask('/v1/nothing')
    const line = `listTimelines (${value.instance}): a fault of our own\n`
    expect(text()).toBe(format === 'text' ? line : '')
  }
})

it('does not fail a request when the log fails', async () => {
  const problems: string[] = []
  const log = () => {
    throw new Error('disk full')
  }
  const here = await startServer({ log })
  cleanups.push(() => here.close())
  here.rp.events.on('problem', ({ where }) => problems.push(where))
  expect((await here.ask('/v1/timelines')).status).toBe(200)
  expect(problems).toEqual(['log of serve()'])
})

it('is written to stderr by reprise serve, where every line is JSON, also for input that is no HTTP', async () => {
  const place = await placeOn('sqlite', cleanups)
  const { child } = await startServe(place, cleanups, ['--log', 'json'])
  let errors = ''
  child.stderr!.on('data', (piece: Buffer) => {
    errors += piece
  })
  const token = tokenIn(place.folder)
  await new Client(place.port, token).ask('/v1/timelines?limit=1')
  const socket = connect(place.port, '127.0.0.1', () => socket.write('this is no HTTP\r\n\r\n'))
  await new Promise((resolve) => socket.resume().once('close', resolve))
  const closed = new Promise<void>((resolve) => void child.once('close', () => resolve()))
  child.kill('SIGTERM')
  await closed
  expect(rowsOf(errors)).toMatchObject([
    { kind: 'request', method: 'GET', route: 'listTimelines', path: '/v1/timelines', status: 200 },
    { kind: 'request', method: null, route: null, path: null, status: 400, code: 'INVALID_ARGUMENT' },
    { level: 'info', kind: 'note', message: expect.stringContaining('closing') },
  ])
  expect(errors).not.toContain(token)
})

it('is written by reprise dev, for itself and for its server', async () => {
  const place = await placeOn('sqlite', cleanups)
  const flow = `import { workflow } from '${root}dist/layers/workflow/index.js'
export const greet = workflow('greet', async (_ctx, name) => name)`
  writeFileSync(join(place.folder, 'flow.mjs'), flow)
  const args = ['--port', String(place.port), '--url', place.url, '--token-file', 'tokens.json', '--log', 'json']
  const child = spawn(process.execPath, [bin, 'dev', 'flow.mjs', ...args], { cwd: place.folder })
  const closed = new Promise<void>((resolve) => void child.once('close', () => resolve()))
  cleanups.push(async () => {
    child.kill('SIGTERM')
    await closed
  })
  const written = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (piece: Buffer) => {
      written[name] += piece
    })
  }
  await expect.poll(() => written.stdout, { timeout: 60_000 }).toMatch(/serving/)
  await new Client(place.port, tokenIn(place.folder)).ask('/v1/timelines')
  writeFileSync(join(place.folder, 'flow.mjs'), `${flow}\n`)
  await expect.poll(() => written.stdout, { timeout: 60_000 }).toMatch(/reloaded/)
  expect(rowsOf(written.stderr)).toMatchObject([
    { kind: 'request', route: 'listTimelines', status: 200 },
    { kind: 'note', message: 'flow.mjs changed' },
  ])
})

it('refuses another format', async () => {
  const { code, stderr } = await cli(['serve', '--log', 'xml'], { cwd: (await placeOn('sqlite', cleanups)).folder })
  expect([code, stderr]).toEqual([2, expect.stringContaining('--log must be json, text or none')])
})
