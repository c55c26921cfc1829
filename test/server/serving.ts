// `reprise serve` as a child process that can be killed, and a client that repeats a request until there is an answer.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject } from 'vitest'
import { bin } from '../cli/support.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { pause } from '../support/until.ts'

export type Cleanups = (() => Promise<unknown> | unknown)[]

export interface Place {
  readonly folder: string
  readonly url: string
  readonly port: number
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function placeOn(kind: string, cleanups: Cleanups): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-serve-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  if (kind === 'sqlite') return { folder, url: `sqlite:${join(folder, 'store.db')}`, port }
  const schema = newSchemaName()
  const url = new URL(inject('postgresUrl'))
  cleanups.push(() => dropSchema(inject('postgresUrl'), schema))
  url.searchParams.set('schema', schema)
  return { folder, url: url.href, port }
}

export interface Running {
  readonly child: ChildProcess
  said(): string
  kill(): Promise<void>
}

/** Resolves when it prints its address. */
export async function startServe(
  { folder, url, port }: Place,
  cleanups: Cleanups,
  more: readonly string[] = [],
  env: NodeJS.ProcessEnv = process.env,
): Promise<Running> {
  const args = [bin, 'serve', '--port', String(port), '--url', url, '--token-file', 'tokens.json', ...more]
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  let said = ''
  await new Promise<void>((resolve, reject) => {
    const hear = (piece: Buffer) => {
      said += piece
      if (/at http:/.test(said)) resolve()
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    void closed.then(() => reject(new Error(`reprise serve ended: ${said}`)))
  })
  const kill = async () => {
    child.kill('SIGKILL')
    await closed
  }
  cleanups.push(kill)
  return { child, said: () => said, kill }
}

export function tokenIn(folder: string): string {
  const file = join(folder, 'tokens.json')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  return (JSON.parse(readFileSync(file, 'utf8')) as { tokens: { token: string }[] }).tokens[0]!.token
}

export class Client {
  readonly #base: string
  readonly #token: string

  constructor(port: number, token: string) {
    this.#base = `http://127.0.0.1:${port}`
    this.#token = token
  }

  // biome-ignore lint/suspicious/noExplicitAny: what the server answers, looked at by the test.
  async ask(path: string, body?: unknown, key?: string): Promise<{ status: number; value: any }> {
    const response = await fetch(this.#base + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, value: await response.json() }
  }

  /** Repeated under its key until there is an answer. */
  // biome-ignore lint/suspicious/noExplicitAny: what the server answers, looked at by the test.
  async insist(path: string, body?: unknown, key?: string): Promise<any> {
    for (;;) {
      try {
        const { status, value } = await this.ask(path, body, key)
        if (status < 300) return value
        if (value.remedy !== 'retry' && value.code !== 'OUTCOME_UNKNOWN') throw new Error(JSON.stringify(value))
      } catch (error) {
        // The connection was cut: the outcome is unknown here.
        if (!(error instanceof TypeError)) throw error
      }
      await pause(20)
    }
  }

  async append(timeline: string, key: string): Promise<void> {
    const path = `/v1/timelines/${encodeURIComponent(timeline)}/entries`
    await this.insist(path, { entries: [{ type: 'added', data: { key } }] }, key)
  }

  async keysOf(timeline: string): Promise<string[]> {
    const keys: string[] = []
    for (let after: number | null = 0; after !== null; ) {
      const { value } = await this.ask(
        `/v1/timelines/${encodeURIComponent(timeline)}/history?after=${after}&limit=1000`,
      )
      keys.push(...value.entries.map(({ data }: { data: { key: string } }) => data.key))
      after = value.next
    }
    return keys
  }
}
