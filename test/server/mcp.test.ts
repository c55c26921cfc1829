// The tools for language models, called by the official client: over HTTP as a token, and over stdin and stdout.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { binIn, workFolder } from '../cli/support.ts'
import { secret, startServer, type TestServer } from './support.ts'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const flow = workflow('ann-flow', async (ctx) => {
  await ctx.step('one', () => 1)
  return await ctx.signal('go')
})

async function served(mcp?: 'read' | 'act'): Promise<TestServer> {
  const here = await startServer({ definitions: [flow], ...(mcp && { mcp }) })
  cleanups.push(() => here.close())
  await here.rp.run(flow, { id: 'one' })
  await expect.poll(async () => (await here.rp.head(run))?.seq).toBeGreaterThan(1)
  await here.ask('/v1/timelines/bob%2Fx/entries', { body: { entries: [{ type: 'a' }] } })
  return here
}

/** A client that asks the handler itself. */
async function clientOf(here: TestServer, as: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL('http://127.0.0.1:4400/mcp'), {
    requestInit: { headers: { authorization: `Bearer ${secret(as)}` } },
    fetch: (url, init) => here.server(new Request(url, init)),
  })
  await client.connect(transport as unknown as Parameters<Client['connect']>[0])
  cleanups.push(() => client.close())
  return client
}

// biome-ignore lint/suspicious/noExplicitAny: what a tool answers, looked at by the test.
async function use(client: Client, name: string, given: Record<string, unknown> = {}): Promise<any> {
  const { content, isError } = await client.callTool({ name, arguments: given })
  const value = JSON.parse((content as { text: string }[])[0]!.text)
  return isError ? { isError, ...value } : value
}

const run = 'workflow/ann-flow/one'

describe('over HTTP', () => {
  it("shows the data in the token's scope, and changes nothing unless enabled", async () => {
    const here = await served('read')
    const client = await clientOf(here, 'ann')
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['list_runs', 'show_timeline', 'read_history', 'diff_states', 'explain_error']),
    )
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true)
    expect((await use(client, 'list_runs', { kind: 'workflow' })).runs).toMatchObject([{ timeline: run }])
    expect((await use(client, 'list_timelines')).timelines.map((each: { timeline: string }) => each.timeline)).toEqual([
      run,
    ])
    expect(await use(client, 'show_timeline', { timeline: run })).toMatchObject({ kind: 'workflow' })
    expect((await use(client, 'read_history', { timeline: run, limit: 1 })).entries).toMatchObject([
      { type: 'started' },
    ])
    expect((await use(client, 'diff_states', { timeline: run, from: 1 })).changes.length).toBeGreaterThan(0)
    expect(tools.find(({ name }) => name === 'diff_states')!.inputSchema.required).toEqual(['timeline', 'from'])
    expect((await use(client, 'list_dead_letters', { timeline: run })).detail).toMatch(/workflow.* has no dead letters/)
    expect(await use(client, 'explain_error', { code: 'FENCED' })).toMatchObject({ code: 'FENCED' })
    expect(await use(client, 'show_timeline', { timeline: 'bob/x' })).toMatchObject({
      isError: true,
      code: 'NOT_FOUND',
    })
    expect(await use(client, 'list_workers')).toMatchObject({ isError: true, code: 'FORBIDDEN' })
    expect(await use(client, 'read_history', { timeline: run, more: 1 })).toMatchObject({ code: 'INVALID_ARGUMENT' })
    const { isError } = await client.callTool({ name: 'signal', arguments: { timeline: run, name: 'go' } })
    expect(isError).toBe(true)
  })

  it('has the documentation as resources, and reads no other file', async () => {
    const client = await clientOf(await served('read'), 'ann')
    const { resources } = await client.listResources()
    const uris = resources.map(({ uri }) => uri)
    expect(uris).toEqual(expect.arrayContaining(['reprise://docs/guides/jobs.md', 'reprise://skills/reprise/SKILL.md']))
    expect(uris.filter((uri) => uri.includes('decisions'))).toEqual([])
    const { contents } = await client.readResource({ uri: 'reprise://docs/guides/jobs.md' })
    expect(contents).toMatchObject([{ mimeType: 'text/markdown', text: expect.stringMatching(/^# Jobs/) }])
    for (const path of ['package.json', 'docs/../package.json', 'docs/proofs.md', 'docs/guides/none.md']) {
      await expect(client.readResource({ uri: `reprise://${path}` })).rejects.toThrow('there is no page')
    }
  })

  it('acts where enabled, within the role', async () => {
    const here = await served('act')
    const reader = await clientOf(here, 'reader')
    expect(await use(reader, 'signal', { timeline: run, name: 'go' })).toMatchObject({ code: 'FORBIDDEN' })
    const owner = await clientOf(here, 'owner')
    expect(await use(owner, 'fork', { timeline: run, to: 'two', seq: 1 })).toMatchObject({ parent: run })
    expect(await use(owner, 'signal', { timeline: run, name: 'go', value: { ok: 1 } })).toMatchObject({ facts: {} })
    expect((await here.ask(`/v1/timelines/${encodeURIComponent(run)}/result?waitMs=5000`)).value.result).toEqual({
      ok: 1,
    })
    expect(await use(owner, 'retry', { timeline: run })).toMatchObject({ isError: true, code: 'ENDED' })
  })

  it('does not exist unless enabled, and needs a token', async () => {
    const here = await served()
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    expect((await here.ask('/mcp', { body: message })).status).toBe(404)
    const there = await served('read')
    expect((await there.ask('/mcp', { body: message, as: null })).status).toBe(401)
    expect((await there.ask('/mcp')).status).toBe(405)
  })
})

it('over stdin and stdout it is a process that only looks, or acts with --act', async () => {
  const folder = workFolder()
  cleanups.push(() => folder.remove())
  const url = `sqlite:${folder.path}/store.db`
  const rp = await open(url)
  await (
    await rp.run(
      workflow('quick', () => 'done'),
      { id: 'a' },
    )
  ).result()
  await rp.close()
  for (const [flags, hasFork] of [
    [[], false],
    [['--act'], true],
  ] as const) {
    const client = new Client({ name: 'test', version: '1' })
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [binIn(folder.path), 'mcp', '--url', url, ...flags],
      cwd: folder.path,
    })
    await client.connect(transport)
    const { tools } = await client.listTools()
    expect(tools.some(({ name }) => name === 'fork')).toBe(hasFork)
    expect((await use(client, 'list_runs')).runs).toMatchObject([{ timeline: 'workflow/quick/a', status: 'completed' }])
    if (hasFork) expect(await use(client, 'fork', { timeline: 'workflow/quick/a', to: 'b' })).toMatchObject({ seq: 2 })
    await client.close()
  }
}, 60_000)
