// The tus protocol as a client sees it, through the handler that people mount in their own servers: every extension, every
// refusal with its status, and downloads.

import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { type UploadOptions, upload } from '../../src/layers/upload/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const patchType = 'application/offset+octet-stream'
type Headers = Record<string, string>
type Sendable = NonNullable<ConstructorParameters<typeof Response>[0]>

function mount(rp: Reprise, options: UploadOptions = {}) {
  const files = upload('files', options)
  const handler = files.handler(rp, { path: '/files', authorize: (request) => request.headers.get('x-user') ?? true })
  const ask = (method: string, path: string, headers: Headers = {}, body?: Sendable) =>
    handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: { 'tus-resumable': '1.0.0', ...headers },
        ...(body !== undefined && { body, duplex: 'half' }),
      }),
    )
  return {
    files,
    ask,
    handler,
    async create(length: number | null, headers: Headers = {}, body?: Sendable) {
      const said: Headers = length === null ? { 'upload-defer-length': '1' } : { 'upload-length': String(length) }
      const response = await ask('POST', '/files', { ...said, ...headers }, body)
      expect(response.status, await response.clone().text()).toBe(201)
      return response.headers.get('location')!
    },
    patch: (path: string, from: number, bytes: Sendable, headers: Headers = {}) =>
      ask('PATCH', path, { 'upload-offset': String(from), 'content-type': patchType, ...headers }, bytes),
    async offset(path: string) {
      return Number((await ask('HEAD', path)).headers.get('upload-offset'))
    },
    async bytes(path: string, headers: Headers = {}) {
      const response = await handler(new Request(`http://localhost${path}`, { headers }))
      return Buffer.from(await response.arrayBuffer())
    },
  }
}

async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as { code: string }).code
}

onEveryStore(
  'an upload',
  (world) => {
    test('is created, sent in pieces, queried, and read back', async () => {
      const rp = await (await world()).engine()
      const { create, patch, offset, bytes, ask } = mount(rp)
      const whole = randomBytes(700_000)
      const path = await create(whole.length, { 'upload-metadata': 'filename w6kudHh0,private' })
      expect(await offset(path)).toBe(0)
      const cuts = [0, 1, 200_000, 200_001, 699_999, whole.length]
      for (let i = 1; i < cuts.length; i++) {
        const response = await patch(path, cuts[i - 1]!, whole.subarray(cuts[i - 1], cuts[i]))
        expect([response.status, response.headers.get('upload-offset')]).toEqual([204, String(cuts[i])])
      }
      const head = await ask('HEAD', path)
      expect(Object.fromEntries(head.headers)).toMatchObject({
        'upload-length': '700000',
        'upload-offset': '700000',
        'upload-metadata': 'filename w6kudHh0,private',
        'cache-control': 'no-store',
      })
      expect((await bytes(path)).equals(whole)).toBe(true)
    })

    test('refuses invalid requests, with a status and a code', async () => {
      const rp = await (await world()).engine()
      const { ask, create, patch, offset } = mount(rp, {
        maxBytes: 1000,
        accept: ({ metadata }) => metadata.filetype !== 'text/html' || 'no pages',
      })
      const path = await create(10)
      const told = async (response: Response) => [response.status, await codeOf(response)]
      expect(await told(await ask('POST', '/files', { 'upload-length': '1001' }))).toEqual([413, 'LIMIT_EXCEEDED'])
      expect(await told(await ask('POST', '/files', {}))).toEqual([400, 'INVALID_ARGUMENT'])
      expect(await told(await ask('POST', '/files', { 'upload-length': 'x' }))).toEqual([400, 'INVALID_ARGUMENT'])
      expect(
        await told(await ask('POST', '/files', { 'upload-length': '1', 'upload-metadata': 'filetype dGV4dC9odG1s' })),
      ).toEqual([422, 'REFUSED'])
      expect(
        await told(await ask('POST', '/files', { 'upload-length': '1', 'upload-metadata': `a ${'A'.repeat(5000)}` })),
      ).toEqual([413, 'LIMIT_EXCEEDED'])
      expect(await told(await patch(path, 3, 'abc'))).toEqual([409, 'CONFLICT'])
      expect(await told(await patch(path, 0, 'more than ten bytes'))).toEqual([413, 'LIMIT_EXCEEDED'])
      const unannounced = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('more than ten bytes'))
          controller.close()
        },
      })
      expect(await told(await patch(path, 0, unannounced))).toEqual([413, 'LIMIT_EXCEEDED'])
      expect(await told(await patch(path, 0, 'abc', { 'content-type': 'text/plain' }))).toEqual([
        415,
        'INVALID_ARGUMENT',
      ])
      expect(await told(await ask('PATCH', path, { 'content-type': patchType }, 'abc'))).toEqual([
        400,
        'INVALID_ARGUMENT',
      ])
      expect(await told(await patch(`/files/${'0'.repeat(40)}`, 0, 'abc'))).toEqual([404, 'NOT_FOUND'])
      for (const id of ['x', '..%2f..', '%00', 'a'.repeat(3000), "';DROP TABLE heads", `${'a'.repeat(40)}~1`]) {
        expect((await ask('HEAD', `/files/${id}`)).status).toBe(404)
        expect((await ask('DELETE', `/files/${id}`)).status).toBe(404)
        expect((await patch(`/files/${id}`, 0, 'abc')).status).toBe(404)
      }
      expect((await ask('POST', '/files', { 'tus-resumable': '0.2.0', 'upload-length': '1' })).status).toBe(412)
      expect((await ask('PUT', path)).status).toBe(405)
      expect(await offset(path)).toBe(0)
      expect(await told(await ask('GET', path))).toEqual([409, 'CONFLICT'])
    })

    test('keeps what arrived of a body that was cut off', async () => {
      const rp = await (await world()).engine()
      const { create, patch, offset, bytes } = mount(rp)
      const whole = randomBytes(300_000)
      const path = await create(whole.length)
      let pulls = 0
      const torn = new ReadableStream({
        pull(controller) {
          if (pulls++ < 3) controller.enqueue(new Uint8Array(whole.subarray((pulls - 1) * 50_000, pulls * 50_000)))
          else controller.error(new Error('the line is dead'))
        },
      })
      expect((await patch(path, 0, torn)).status).toBe(400)
      const kept = await offset(path)
      expect(kept).toBe(150_000)
      expect((await patch(path, kept, whole.subarray(kept))).status).toBe(204)
      expect((await bytes(path)).equals(whole)).toBe(true)
    })

    test('is taken over by a second request, here and in another process, and the first can write no more', async () => {
      const shared = await world()
      const [one, two] = [mount(await shared.engine()), mount(await shared.engine())]
      for (const other of [one, two]) {
        const path = await one.create(100)
        let go: (value: unknown) => void = () => undefined
        const waits = new Promise((resolve) => {
          go = resolve
        })
        let pulls = 0
        const slow = new ReadableStream({
          async pull(controller) {
            pulls += 1
            if (pulls === 2) await waits
            controller.enqueue(new Uint8Array(30).fill(pulls))
            if (pulls === 3) controller.close()
          },
        })
        const first = one.patch(path, 0, slow)
        await until(() => pulls >= 2)
        const at = await other.offset(path)
        expect((await other.patch(path, at, new Uint8Array(100 - at).fill(9))).status).toBe(204)
        go(null)
        expect((await first).status).toBe(409)
        const found = await other.bytes(path)
        expect([...found]).toEqual([...new Array(at).fill(1), ...new Array(100 - at).fill(9)])
      }
    })

    test('checks a checksum before a byte counts', async () => {
      const rp = await (await world()).engine()
      const { create, patch, offset } = mount(rp)
      const bytes = randomBytes(1000)
      for (const algorithm of ['sha1', 'sha256', 'sha512', 'md5']) {
        const path = await create(2000)
        const digest = createHash(algorithm).update(bytes).digest('base64')
        const wrong = await patch(path, 0, randomBytes(1000), { 'upload-checksum': `${algorithm} ${digest}` })
        expect([wrong.status, await codeOf(wrong)]).toEqual([460, 'CHECKSUM_MISMATCH'])
        expect(await offset(path)).toBe(0)
        expect((await patch(path, 0, bytes, { 'upload-checksum': `${algorithm} ${digest}` })).status).toBe(204)
        expect(await offset(path)).toBe(1000)
      }
      expect((await patch(await create(1), 0, 'a', { 'upload-checksum': 'crc32 AAAA' })).status).toBe(400)
    })

    test('is made of parts, in their order, and shares their chunks', async () => {
      const rp = await (await world()).engine()
      const { create, patch, bytes, ask } = mount(rp)
      const wholes = [randomBytes(300_000), randomBytes(5), randomBytes(0), randomBytes(200_000)]
      const paths: string[] = []
      for (const whole of wholes) {
        const path = await create(whole.length, { 'upload-concat': 'partial' })
        if (whole.length > 0) expect((await patch(path, 0, whole)).status).toBe(204)
        paths.push(path)
      }
      const unfinished = await create(5, { 'upload-concat': 'partial' })
      expect((await ask('POST', '/files', { 'upload-concat': `final;${unfinished}` })).status).toBe(400)
      expect((await ask('POST', '/files', { 'upload-concat': 'final;/files/nothing' })).status).toBe(400)
      const chunks = async () => (await rp.collect({ dryRun: true })).chunks
      const before = await chunks()
      // Clients name parts by their whole addresses, or by their paths.
      const named = paths.map((path, i) => (i % 2 === 0 ? path : `http://localhost${path}`)).join(' ')
      const made = await ask('POST', '/files', { 'upload-concat': `final;${named}` })
      expect([made.status, made.headers.get('upload-offset')]).toEqual([201, '500005'])
      const path = made.headers.get('location')!
      expect((await ask('HEAD', path)).headers.get('upload-concat')).toBe(`final;${paths.join(' ')}`)
      expect((await bytes(path)).equals(Buffer.concat(wholes))).toBe(true)
      expect((await chunks()).liveBytes - before.liveBytes).toBeLessThan(20_000)
      expect((await patch(path, 500_005, '')).status).toBe(403)
      for (const part of paths) expect((await ask('DELETE', part)).status).toBe(204)
      await rp.collect()
      expect((await bytes(path)).equals(Buffer.concat(wholes))).toBe(true)
    })

    test('may declare its length late, and contain its first bytes', async () => {
      const rp = await (await world()).engine()
      const { create, patch, ask, bytes } = mount(rp)
      const late = await create(null, { 'content-type': patchType }, 'first ')
      expect((await ask('HEAD', late)).headers.get('upload-defer-length')).toBe('1')
      expect((await patch(late, 6, 'second', { 'upload-length': '3' })).status).toBe(400)
      expect((await patch(late, 6, 'second', { 'upload-length': '12' })).status).toBe(204)
      expect(String(await bytes(late))).toBe('first second')
      const whole = await create(5, { 'content-type': patchType }, 'whole')
      expect(String(await bytes(whole))).toBe('whole')
      const empty = await create(0)
      expect((await bytes(empty)).length).toBe(0)
      expect((await patch(whole, 5, '')).status).toBe(204)
    })

    test('is deleted, or expires, and then is gone: its chunks too', async () => {
      const rp = await (await world()).engine()
      const { create, patch, ask } = mount(rp, { expires: '60ms' })
      const path = await create(300_000)
      await patch(path, 0, randomBytes(200_000))
      await until(async () => (await rp.list({ prefix: 'upload/', status: 'removed' })).length === 1)
      const gone = await ask('HEAD', path)
      expect(gone.status).toBe(410)
      expect(await codeOf(await patch(path, 200_000, 'abc'))).toBe('UPLOAD_GONE')
      const lasting = mount(rp)
      const other = await lasting.create(200_000)
      await lasting.patch(other, 0, randomBytes(200_000))
      expect((await ask('DELETE', other)).status).toBe(204)
      expect([(await ask('HEAD', other)).status, (await ask('DELETE', other)).status]).toEqual([410, 410])
      await rp.collect()
      const { chunks } = await rp.collect()
      expect(chunks.live).toBe(0)
    })

    test('is read by ranges, by a client that has a part of it already', async () => {
      const rp = await (await world()).engine()
      const { create, patch, handler } = mount(rp)
      const whole = randomBytes(600_000)
      const path = await create(whole.length, {
        'upload-metadata': `filename ${Buffer.from('../a"b\r\n.txt').toString('base64')}`,
      })
      await patch(path, 0, whole)
      const get = (headers: Headers = {}, method = 'GET') =>
        handler(new Request(`http://localhost${path}`, { headers, method }))
      const first = await get()
      const etag = first.headers.get('etag')!
      expect(first.headers.get('content-disposition')).toBe("attachment; filename*=UTF-8''.._a%22b__.txt")
      expect(Buffer.from(await first.arrayBuffer()).equals(whole)).toBe(true)
      for (const [from, to] of [
        [0, 0],
        [1, 599_999],
        [250_000, 470_000],
        [599_999, 599_999],
      ] as const) {
        const part = await get({ range: `bytes=${from}-${to}`, 'if-range': etag })
        expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes ${from}-${to}/600000`])
        expect(Buffer.from(await part.arrayBuffer()).equals(whole.subarray(from, to + 1))).toBe(true)
      }
      expect((await get({ range: 'bytes=5-', 'if-range': '"other"' })).status).toBe(200)
      expect((await get({ range: 'bytes=600000-' })).status).toBe(416)
      expect((await get({ 'if-none-match': etag })).status).toBe(304)
      for (const [tag, status] of [
        [etag, 200],
        ['*', 200],
        [`"x", ${etag}`, 200],
        ['"x"', 412],
        [`W/${etag}`, 412],
      ] as const)
        expect([tag, (await get({ 'if-match': tag })).status]).toEqual([tag, status])
      const head = await get({}, 'HEAD')
      expect([head.status, head.headers.get('content-length'), head.headers.get('accept-ranges')]).toEqual([
        ...[200, '600000', 'bytes'],
      ])
    })

    test('calls onComplete, which starts a workflow in the commit that completes it', async () => {
      const rp = await (await world()).engine()
      const calls: string[] = []
      const publish = workflow('publish', async (_ctx, input: { size: number }) => input.size * 2)
      let failures = 2
      const { create, patch } = mount(rp, {
        starts: [publish],
        retry: { backoff: 5, attempts: 3 },
        async onComplete(file, ctx) {
          calls.push(`${ctx.attempt}`)
          ctx.start(publish, { size: file.size })
          if (failures-- > 0) throw new Error('not yet')
          const hash = createHash('sha1')
          for await (const piece of file.read()) hash.update(piece)
          return { sha1: hash.digest('hex'), by: file.by }
        },
      })
      const path = await create(5, { 'x-user': 'ann' })
      await patch(path, 0, 'hello')
      await until(async () => (await rp.list({ prefix: 'upload/', status: 'completed' })).length === 1)
      expect(calls).toEqual(['1', '2', '3'])
      const [run, ...more] = await rp.list({ prefix: 'workflow/' })
      expect([run!.timeline, more]).toEqual([`workflow/publish/${path.slice('/files/'.length)}`, []])
      expect(await rp.run(publish, { size: 5 }, { id: path.slice('/files/'.length) }).result()).toBe(10)
    })

    test('that onComplete gave up on waits for a person, and is tried again', async () => {
      const rp = await (await world()).engine()
      let isBroken = true
      const { create, patch } = mount(rp, {
        retry: { attempts: 1 },
        onComplete() {
          if (isBroken) throw new Error('no disk')
        },
      })
      const path = await create(5)
      await patch(path, 0, 'hello')
      const find = async (status: string) => (await rp.list({ prefix: 'upload/', status }))[0]
      await until(async () => (await find('failed')) !== undefined)
      isBroken = false
      const head = (await find('failed'))!
      const model = hostOf(rp).models.find(head.timeline)!
      const retry = model.actions!.retry as (target: unknown) => Promise<unknown>
      await retry({ engine: rp, head })
      await until(async () => (await find('completed')) !== undefined)
      await expect(retry({ engine: rp, head: (await find('completed'))! })).rejects.toThrow('has not failed')
    })
  },
  ['memory', 'sqlite', 'postgres'],
)

describe('a handler', () => {
  test('keeps the bytes of a body that stalls, and answers 408', async () => {
    const { open } = await import('../../src/engine/api/open.ts')
    const rp = await open('memory:')
    const handler = upload('files').handler(rp, { path: '/up', authorize: () => true, stillMs: 20 })
    const ask = (method: string, path: string, headers: Headers, body?: ReadableStream<Uint8Array>) =>
      handler(
        new Request(`http://localhost${path}`, {
          method,
          headers: { 'tus-resumable': '1.0.0', ...headers },
          ...(body && { body, duplex: 'half' }),
        } as RequestInit),
      )
    const path = (await ask('POST', '/up', { 'upload-length': '6' })).headers.get('location')!
    const stalled = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(Buffer.from('abc')) })
    const response = await ask('PATCH', path, { 'upload-offset': '0', 'content-type': patchType }, stalled)
    expect([response.status, await codeOf(response)]).toEqual([408, 'TIMEOUT'])
    expect((await ask('HEAD', path, {})).headers.get('upload-offset')).toBe('3')
    await rp.close()
  })

  test('admits only callers that authorize accepts, and allows other sites only if configured', async () => {
    const { open } = await import('../../src/engine/api/open.ts')
    const rp = await open('memory:')
    const files = upload('files')
    const asked: unknown[] = []
    const handler = files.handler(rp, {
      path: '/up',
      origins: ['https://app.example.com'],
      authorize(request, what) {
        asked.push(what)
        const user = request.headers.get('x-user')
        return user !== null && (what.by === null || what.by === user) ? user : null
      },
    })
    const ask = (method: string, path: string, user: string | null, headers: Headers = {}) =>
      handler(
        new Request(`http://localhost${path}`, {
          method,
          headers: { 'tus-resumable': '1.0.0', ...(user !== null && { 'x-user': user }), ...headers },
        }),
      )
    expect((await ask('POST', '/up', null, { 'upload-length': '3' })).status).toBe(403)
    const made = await ask('POST', '/up', 'ann', { 'upload-length': '3' })
    const path = made.headers.get('location')!
    for (const method of ['HEAD', 'GET', 'DELETE', 'PATCH']) expect((await ask(method, path, 'bob')).status).toBe(403)
    expect((await ask('HEAD', path, 'ann')).status).toBe(200)
    expect(asked).toContainEqual({ action: 'write', id: path.slice(4), by: 'ann' })
    const about = await ask('OPTIONS', '/up', null, { origin: 'https://app.example.com' })
    expect(about.headers.get('tus-extension')).toBe(
      'creation,creation-with-upload,creation-defer-length,termination,checksum,concatenation,expiration',
    )
    expect(about.headers.get('access-control-allow-origin')).toBe('https://app.example.com')
    const other = await ask('OPTIONS', '/up', null, { origin: 'https://evil.example.com' })
    expect(other.headers.get('access-control-allow-origin')).toBe(null)
    expect(() => files.handler(rp, { path: '/up' } as never)).toThrow('authorize is required')
    await rp.close()
  })
})
