// A server over a store in memory or in a file, called without sockets, and tokens for it.

import { open, type Reprise } from '../../src/index.ts'
import { type AccessToken, type ServeOptions, type Server, serve } from '../../src/server/index.ts'

export const secret = (name: string) => `${name}-${'x'.repeat(40)}`

export const tokens: readonly AccessToken[] = [
  { name: 'owner', token: secret('owner'), role: 'write' },
  { name: 'reader', token: secret('reader'), role: 'read' },
  { name: 'operator', token: secret('operator'), role: 'operate' },
  { name: 'ann', token: secret('ann'), role: 'write', scopes: ['ann/', 'workflow/ann-flow', 'job/ann'] },
  { name: 'bob', token: secret('bob'), role: 'write', scopes: ['bob/', 'job/bob'] },
]

export interface Ask {
  readonly method?: string
  /** The name of a token; null: none. */
  readonly as?: string | null
  readonly body?: unknown
  readonly key?: string
  readonly headers?: Record<string, string>
}

export interface Told {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: whatever the API answers, looked at by the test.
  readonly value: any
}

export interface TestServer {
  readonly rp: Reprise
  readonly server: Server
  ask(path: string, ask?: Ask): Promise<Told>
  close(): Promise<void>
}

export async function startServer(
  options: Partial<ServeOptions> & { readonly url?: string; readonly rp?: Reprise } = {},
): Promise<TestServer> {
  const { url = 'memory:', rp: given, ...rest } = options
  const rp = given ?? (await open(url, { housekeeping: false }))
  const server = serve(rp, { ...(rest.authorize === undefined && { tokens }), ...rest } as ServeOptions)
  return {
    rp,
    server,
    ask: (path, ask) => askOf(server, path, ask),
    async close() {
      await server.close()
      await rp.close()
    },
  }
}

export function requestOf(path: string, { method, as = 'owner', body, key, headers = {} }: Ask = {}): Request {
  return new Request(`http://127.0.0.1:4400${path}`, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(as !== null && { authorization: `Bearer ${secret(as)}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(key !== undefined && { 'idempotency-key': key }),
      ...headers,
    },
    ...(body !== undefined && { body: body instanceof Uint8Array ? Buffer.from(body) : JSON.stringify(body) }),
  })
}

async function askOf(server: Server, path: string, ask?: Ask): Promise<Told> {
  const response = await server(requestOf(path, ask))
  const text = await response.text()
  const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '')
  return { status: response.status, headers: response.headers, value: isJson && text !== '' ? JSON.parse(text) : text }
}

export const at = (timeline: string) => `/v1/timelines/${encodeURIComponent(timeline)}`
