// Real processes, really killed (SIGKILL), resumed by others: graphs on RepriseSaver, and sessions with their effects
// counted by a service in this process.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { Outside } from '../support/outside.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { runProgram } from './service.ts'

const ends: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

const run = (program: string, args: readonly string[]) => runProgram(program, args, '../programs')

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-kill-'))
  ends.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const stores: Record<string, () => string> = {
  sqlite: () => `sqlite:${join(makeFolder(), 'a.db')}`,
  postgres: () => {
    const schema = newSchemaName()
    const url = inject('postgresUrl')
    ends.push(() => dropSchema(url, schema))
    const made = new URL(url)
    made.searchParams.set('schema', schema)
    return made.href
  },
}

/** Counts requests by path and key. A receiver that honours keys: equal keys mean equal intents, and the reverse. */
async function startService() {
  const counts = new Map<string, number>()
  const outside = new Outside()
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece) => {
      body += piece
    })
    request.on('end', () => {
      const { key, intent } = JSON.parse(body) as { key: string; intent?: string }
      if (intent !== undefined) outside.receive(`${request.url} ${key}`, `${request.url} ${intent}`)
      const name = `${request.url} ${key}`
      counts.set(name, (counts.get(name) ?? 0) + 1)
      response.end(JSON.stringify({ key }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => new Promise((resolve) => server.close(resolve)))
  const keys = (path: string) => [...counts].filter(([name]) => name.startsWith(`${path} `))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, keys, outside }
}

describe('G1 killed with SIGKILL', () => {
  for (const kind of ['sqlite', 'postgres']) {
    it(`a graph killed between putWrites and put does not repeat the nodes that had finished (${kind})`, async () => {
      const url = stores[kind]!()
      const file = join(makeFolder(), 'work')
      expect((await run('agent-graph', [url, file, 'kill'])).signal).toBe('SIGKILL')
      expect(JSON.parse((await run('agent-graph', [url, file])).out)).toEqual(['left', 'right', 'end'])
      expect(readFileSync(file, 'utf8').trim().split('\n').sort()).toEqual(['end', 'left', 'right'])
    })
  }

  for (const place of ['before-call', 'after-call', 'in-model', 'in-rollback']) {
    it(`a session killed ${place} is resumed: at most the call in flight comes twice, with its key`, async () => {
      const url = stores.sqlite!()
      const service = await startService()
      expect((await run('agent-session', [url, service.url, place])).signal).toBe('SIGKILL')
      const { out } = await run('agent-session', [url, service.url, 'none'])
      expect(JSON.parse(out)).toEqual({ turn: 1, content: 'done' })
      // One payment was rolled back, the other is valid.
      expect(service.keys('/pay')).toHaveLength(2)
      expect(service.keys('/undo')).toHaveLength(1)
      const repeats = ['/pay', '/undo', '/model'].flatMap(service.keys).map(([, count]) => count - 1)
      expect(repeats.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(1)
      expect(service.outside.wrong).toBeNull()
    })
  }

  it('a session killed amid parallel tools calls each once, or again with its key, and continues', async () => {
    const url = stores.sqlite!()
    const service = await startService()
    const program = (mode: string) => runProgram('parallel', [url, service.url, mode], './programs')
    expect((await program('kill')).signal).toBe('SIGKILL')
    const before = ['/quick', '/slow', '/mail', '/late'].map((path) => service.keys(path))
    expect(before.map((calls) => calls.length)).toEqual([1, 1, 1, 0])
    const { status, content, effects } = JSON.parse((await program('go')).out)
    expect([status, content]).toEqual(['completed', 'done'])
    const calls = ['/quick', '/slow', '/mail', '/late'].map((path) => service.keys(path))
    // One key per call: the service treats a repetition as the same call. Recorded and probed calls are not repeated.
    expect(calls.map((each) => each.map(([, count]) => count))).toEqual([[1], [2], [1], [1]])
    expect(new Set(calls.flat().map(([name]) => name.split(' ')[1])).size).toBe(4)
    expect(effects.map(({ outcome }: { outcome: string }) => outcome)).toEqual(['done', 'done', 'done', 'done'])
  })
})
