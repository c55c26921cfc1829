// Shared parts of the tests of cache levels: machines with stores of their own, a real server, and a level in memory with hooks
// for faults.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { afterEach, expect } from 'vitest'
import { open, type Reprise, type RepriseError } from '../../src/index.ts'
import { type CacheLevel, memo, type RemoteLevel } from '../../src/layers/memo/index.ts'
import { type AccessToken, serve } from '../../src/server/index.ts'

export const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A separate machine: a store of its own. */
export async function machine(
  url = 'memory:',
): Promise<Reprise & { readonly problems: string[]; readonly codes: string[] }> {
  const rp = await open(url, { housekeeping: false })
  cleanups.push(() => rp.close())
  const [problems, codes]: [string[], string[]] = [[], []]
  rp.events.on('problem', ({ error }) => {
    problems.push((error as RepriseError).message)
    codes.push((error as RepriseError).code)
  })
  return Object.assign(rp, { problems, codes })
}

const secret = (name: string) => name.padEnd(40, '-')
const tokens: readonly AccessToken[] = [
  { name: 'owner', token: secret('owner'), role: 'write' },
  { name: 'looks', token: secret('looks'), role: 'read', cache: { scope: 'main' } },
  { name: 'pull', token: secret('pull'), role: 'write', cache: { scope: 'pull-7' } },
]

/** A real server at a real port, with the requests it received. */
export async function served(): Promise<{
  at(name: string): RemoteLevel
  readonly asked: string[]
  stop(): Promise<void>
}> {
  const rp = await machine()
  const server = serve(rp, { tokens })
  cleanups.push(() => server.close())
  const asked: string[] = []
  const node = createServer(async (incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming
    asked.push(`${method} ${url.split('/').at(-1)}`)
    const body = method === 'PUT' ? { body: Readable.toWeb(incoming) as ReadableStream, duplex: 'half' as const } : {}
    const request = new Request(`http://127.0.0.1${url}`, {
      method,
      headers: headers as Record<string, string>,
      ...body,
    })
    const answer = await server(request)
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers))
    outgoing.end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve))
  const { port } = node.address() as AddressInfo
  let stopped: Promise<void> | null = null
  const stop = () => {
    stopped ??= new Promise((resolve) => {
      node.close(() => resolve())
      node.closeAllConnections()
    })
    return stopped
  }
  cleanups.push(stop)
  return { at: (name) => ({ url: `http://127.0.0.1:${port}`, token: secret(name), timeout: '1h' }), asked, stop }
}

export const squaring = (
  remote: RemoteLevel | readonly RemoteLevel[] | undefined,
  calls: number[] = [],
  more: object = {},
) =>
  memo('square', {
    version: 1,
    cacheBytes: 0,
    ...(remote && { remote }),
    ...more,
    run: (n: number) => {
      calls.push(n)
      return { square: n * n }
    },
  })

/** A level in memory, with hooks for faults. */
export class Shelf implements CacheLevel {
  readonly name: string
  readonly timeout = '1h'
  readonly kept = new Map<string, Buffer>()
  readonly asked: string[] = []
  scope = 'main'
  onGet: (bytes: Buffer) => AsyncIterable<Uint8Array> | Promise<never> = (bytes) => pieces(bytes)
  onPut: () => Promise<void> = async () => undefined

  constructor(name = 'shelf') {
    this.name = name
  }

  async access() {
    return { scope: this.scope, mayWrite: true }
  }

  async get(key: string) {
    this.asked.push('get')
    const bytes = this.kept.get(key)
    return bytes ? { scope: this.scope, body: await this.onGet(bytes) } : null
  }

  async put(key: string, body: AsyncIterable<Uint8Array>) {
    this.asked.push('put')
    await this.onPut()
    const parts: Uint8Array[] = []
    for await (const part of body) parts.push(part)
    this.kept.set(key, Buffer.concat(parts))
  }
}

export async function* pieces(bytes: Buffer, size = 1000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** A shelf on which some machine left the square of 3. */
export async function filled(name?: string): Promise<Shelf> {
  const shelf = new Shelf(name)
  const here = await (await machine()).open(squaring(shelf))
  await here.call(3)
  await here.close()
  expect(shelf.kept.size).toBe(1)
  return shelf
}
