// Uploads through serve(): the same tokens, roles and scopes as every other route. And onComplete in a process that is killed
// while it runs: another continues, and a recorded completion happened once.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { open } from '../../src/index.ts'
import { upload } from '../../src/layers/upload/index.ts'
import { serve } from '../../src/server/index.ts'
import { root } from '../cli/support.ts'
import { type Cleanups, placeOn, startServe, tokenIn } from '../server/serving.ts'
import { until } from '../support/fixture.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const tus = { 'tus-resumable': '1.0.0' }
const patch = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' }

test('needs a token of the right role and scope', async () => {
  const rp = await open('memory:')
  cleanups.push(() => rp.close())
  const definitions = [upload('photos', { maxBytes: 100 }), upload('videos')]
  const tokens = [
    { name: 'all', token: 'a'.repeat(32), role: 'write' as const },
    { name: 'looks', token: 'b'.repeat(32), role: 'read' as const },
    { name: 'photos', token: 'c'.repeat(32), role: 'write' as const, scopes: ['upload/photos'] },
  ]
  const handler = serve(rp, { tokens, definitions })
  cleanups.push(() => handler.close())
  const ask = (method: string, path: string, who: number | null, headers: Record<string, string> = {}, body?: string) =>
    handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: { ...headers, ...(who !== null && { authorization: `Bearer ${tokens[who]!.token}` }) },
        ...(body !== undefined && { body }),
      }),
    )
  const make = (name: string, who: number | null) =>
    ask('POST', `/v1/uploads/${name}`, who, { ...tus, 'upload-length': '5' })
  expect((await make('photos', null)).status).toBe(401)
  expect((await make('photos', 1)).status).toBe(403)
  expect((await make('videos', 2)).status).toBe(404)
  expect((await make('nothing', 0)).status).toBe(404)
  const about = await ask('OPTIONS', '/v1/uploads/photos', null)
  expect([about.status, about.headers.get('tus-max-size')]).toEqual([204, '100'])
  const path = (await make('photos', 2)).headers.get('location')!
  expect(path).toMatch(/^\/v1\/uploads\/photos\/[0-9a-f]{40}$/)
  expect((await ask('PATCH', path, 1, patch, 'hello')).status).toBe(403)
  expect((await ask('PATCH', path, 2, patch, 'hello')).status).toBe(204)
  expect((await ask('HEAD', path, 1, tus)).headers.get('upload-offset')).toBe('5')
  expect(await (await ask('GET', path, 1)).text()).toBe('hello')
  const video = (await make('videos', 0)).headers.get('location')!
  for (const method of ['GET', 'HEAD', 'DELETE']) expect((await ask(method, video, 2, tus)).status).toBe(404)
  expect((await ask('PATCH', video, 2, patch, 'hello')).status).toBe(404)
  for (const bad of ['x', '..%2F..%2Fetc', '%00', 'a'.repeat(500)]) {
    for (const method of ['GET', 'HEAD', 'PATCH', 'DELETE']) {
      const { status } = await ask(method, `/v1/uploads/photos/${bad}`, 0, patch)
      expect(status).toBeGreaterThanOrEqual(400)
      expect(status).toBeLessThan(500)
    }
  }
})

test('onComplete of a process that is killed is done by the next one, and recorded once', async () => {
  const place = await placeOn('sqlite', cleanups)
  const code = `
import { appendFileSync } from 'node:fs'
import { upload } from '${root}dist/layers/upload/index.js'
import { workflow } from '${root}dist/layers/workflow/index.js'
export const after = workflow('after', async (ctx) => { await ctx.step('once', () => appendFileSync('runs.txt', 'run\\n')) })
export const files = upload('files', {
  starts: [after],
  async onComplete(file, ctx) {
    appendFileSync('calls.txt', 'call\\n')
    if (process.env.HANG) await new Promise((resolve) => setTimeout(resolve, 3_600_000))
    ctx.start(after)
  },
})
`
  writeFileSync(join(place.folder, 'files.mjs'), code)
  const more = ['--module', 'files.mjs', '--work']
  const first = await startServe(place, cleanups, more, { ...process.env, HANG: '1' })
  const at = `http://127.0.0.1:${place.port}`
  const headers = { ...tus, authorization: `Bearer ${tokenIn(place.folder)}` }
  const made = await fetch(`${at}/v1/uploads/files`, {
    method: 'POST',
    headers: { ...headers, 'upload-length': '5', 'content-type': patch['content-type'] },
    body: 'hello',
  })
  const { readFileSync, existsSync } = await import('node:fs')
  const lines = (name: string) =>
    existsSync(join(place.folder, name)) ? readFileSync(join(place.folder, name), 'utf8').trim().split('\n').length : 0
  await until(() => lines('calls.txt') === 1)
  // It is being completed: a status request disturbs nothing.
  const head = await fetch(at + made.headers.get('location'), { method: 'HEAD', headers })
  expect(head.headers.get('upload-offset')).toBe('5')
  await first.kill()
  await startServe(place, cleanups, more)
  await until(() => lines('runs.txt') === 1)
  const id = encodeURIComponent(`upload/files/${made.headers.get('location')!.split('/').at(-1)}`)
  await until(async () => {
    const shown = (await (await fetch(`${at}/v1/timelines/${id}`, { headers })).json()) as { status: string }
    return shown.status === 'completed'
  })
  expect([lines('calls.txt'), lines('runs.txt')]).toEqual([2, 1])
}, 60_000)
