// Timelines as files over HTTP, and namespaces beside each other in one server.

import { afterEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { serve } from '../../src/server/index.ts'
import { at, requestOf, secret, startServer, type TestServer, type Told, tokens } from './support.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function served(options: Parameters<typeof startServer>[0] = {}): Promise<TestServer> {
  const here = await startServer(options)
  cleanups.push(() => here.close())
  return here
}

const octets = { 'content-type': 'application/octet-stream' }

describe('a timeline', () => {
  it('goes out as a file and comes in elsewhere with the same history; twice is once', async () => {
    const [here, there] = [await served(), await served()]
    for (const type of ['a', 'b', 'c']) await here.ask(`${at('ann/x')}/entries`, { body: { entries: [{ type }] } })
    const response = await here.server(requestOf(`${at('ann/x')}/export`, { as: 'ann' }))
    expect([response.status, response.headers.get('reprise-seq')]).toEqual([200, '3'])
    const file = new Uint8Array(await response.arrayBuffer())
    expect(Number(response.headers.get('content-length'))).toBe(file.length)
    const bring = (as: string, query: string, body = file) =>
      there.ask(`/v1/import${query}`, { method: 'POST', as, body, headers: octets })
    const made = await bring('ann', '?as=ann/copy')
    expect([made.status, made.value]).toMatchObject([201, { timeline: 'ann/copy', seq: 3 }])
    expect((await bring('ann', '?as=ann/copy')).value).toMatchObject({ isSame: true })
    const { value } = await there.ask(`${at('ann/copy')}/history`)
    expect(value.entries.map(({ type }: { type: string }) => type)).toEqual(['a', 'b', 'c'])
    expect((await bring('owner', '')).value.timeline).toBe('ann/x')
    expect((await bring('ann', '')).value.code).toBe('INVALID_ARGUMENT')
    expect((await bring('ann', '?as=bob/copy')).value.code).toBe('NOT_FOUND')
    expect((await bring('owner', '?as=reprise/log')).status).toBe(400)
    for (const bad of [new Uint8Array(), file.slice(0, 100), file.map((byte, i) => (i === 200 ? byte ^ 1 : byte))]) {
      const refused = await bring('owner', '?as=x/bad', new Uint8Array(bad))
      expect([refused.status, refused.value.code]).toEqual([400, 'INVALID_ARGUMENT'])
    }
    expect((await there.ask('/v1/verify', { body: {} })).value).toMatchObject({ ok: true })
  })
})

describe('a run of a workflow', () => {
  it('comes in under another id of its kind, and under none of another', async () => {
    const here = await served()
    const hello = workflow('hello', async (_ctx, name: string) => `hello ${name}`)
    await here.rp.run(hello, 'ann', { id: 'one' }).result()
    const response = await here.server(requestOf(`${at('workflow/hello/one')}/export`, { as: 'owner' }))
    const file = new Uint8Array(await response.arrayBuffer())
    const bring = (as: string) =>
      here.ask(`/v1/import?as=${as}`, { method: 'POST', as: 'owner', body: file, headers: octets })
    const made = await bring('workflow/hello/copy')
    expect([made.status, made.value]).toMatchObject([201, { timeline: 'workflow/hello/copy' }])
    expect(await here.rp.run(hello, 'ann', { id: 'copy' }).result()).toBe('hello ann')
    for (const id of ['copy', 'python/copy', 'job/copy', 'reprise/copy']) {
      const refused = await bring(id)
      expect([id, refused.status, refused.value.code]).toEqual([id, 400, 'INVALID_ARGUMENT'])
      expect(await here.rp.head(id)).toBeNull()
    }
  })

  it('refuses other values', async () => {
    const here = await served()
    await here.ask(`${at('plain/x')}/entries`, { body: { entries: [{ type: 'a' }] } })
    const response = await here.server(requestOf(`${at('plain/x')}/export`, { as: 'owner' }))
    const body = new Uint8Array(await response.arrayBuffer())
    const refused = await here.ask('/v1/import?as=workflow/hello/x', {
      ...{ method: 'POST', as: 'owner', body, headers: octets },
    })
    expect([refused.status, refused.value.code]).toEqual([400, 'INVALID_ARGUMENT'])
  })
})

describe('the progress of a job', () => {
  it('goes out as lines, and lines of a hand-written script come in', async () => {
    const here = await served()
    await here.rp.run(job('pages', { source: ['a', 'b'], key: (page) => page, each: () => undefined })).result()
    const { value } = await here.ask(`${at('job/pages')}/progress`)
    const keys = (text: string) =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).key)
        .sort()
    expect(keys(value)).toEqual(['a', 'b'])
    const lines = new TextEncoder().encode('{"url":"x"}\n{"url":"y"}\nnonsense\n')
    const told = await here.ask('/v1/jobs/others/progress?key=url', { method: 'POST', body: lines, headers: octets })
    expect(told.value).toMatchObject({ added: 2 })
    expect(keys((await here.ask(`${at('job/others')}/progress`)).value)).toEqual(['x', 'y'])
    const foreign = await here.ask('/v1/jobs/bob/progress', { method: 'POST', as: 'ann', body: lines, headers: octets })
    expect(foreign.status).toBe(404)
  })
})

describe('a namespace', () => {
  it('is reached by the tokens that name it, and others cannot learn that it exists', async () => {
    const [main, red, blue] = [await open('memory:'), await open('memory:'), await open('memory:')]
    const of = (name: string, ...namespaces: string[]) =>
      ({ name, token: secret(name), role: 'write', ...(namespaces.length > 0 && { namespaces }) }) as const
    const server = serve(main, {
      tokens: [...tokens, of('red', 'red'), of('both', 'red', 'blue'), of('ghost', 'green')],
      namespaces: { red, blue },
    })
    cleanups.push(async () => {
      await server.close()
      await Promise.all([main, red, blue].map((each) => each.close()))
    })
    const ask = async (
      path: string,
      as: string,
      namespace?: string,
      body?: object,
    ): Promise<Pick<Told, 'status' | 'value'>> => {
      const headers = namespace === undefined ? {} : { 'reprise-namespace': namespace }
      const response = await server(requestOf(path, { as, headers, ...(body && { body }) }))
      return { status: response.status, value: await response.json() }
    }
    const body = { entries: [{ type: 'a' }] }
    const path = `${at('notes/one')}/entries`
    expect((await ask(path, 'red', undefined, body)).value.seq).toBe(1)
    expect((await ask(path, 'both', 'red', body)).value.seq).toBe(2)
    expect((await ask(path, 'both', 'blue', body)).value.seq).toBe(1)
    expect((await ask(path, 'owner', undefined, body)).value.seq).toBe(1)
    expect((await ask('/v1/timelines?prefix=notes/', 'both')).value.timelines[0].seq).toBe(2)
    const refused = [
      await ask('/v1/timelines', 'owner', 'red'),
      await ask('/v1/timelines', 'red', 'blue'),
      await ask('/v1/timelines', 'red', 'green'),
      await ask('/v1/timelines', 'ghost'),
    ]
    expect(new Set(refused.map(({ status, value }) => `${status} ${value.detail}`)).size).toBe(1)
    expect(refused[0]!.status).toBe(403)
  })
})
