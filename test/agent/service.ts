// Starts the outside service in a process of its own, and runs programs that may be killed.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export type Kind = 'look' | 'set' | 'pay' | 'mail' | 'gift'

/** The facts that the service has about one run. */
export interface Report {
  readonly calls: Readonly<Record<string, { readonly kind: Kind; readonly count: number }>>
  /** Calls whose key was used for another intent. */
  readonly confused: readonly { readonly key: string; readonly intent: string; readonly first: string }[]
  /** Keys, in the order of the calls. */
  readonly order: readonly string[]
  readonly undone: Readonly<Record<string, number>>
  readonly undoOrder: readonly string[]
  readonly models: readonly { readonly key: string; readonly from: number; readonly words: number }[]
}

export interface Service {
  readonly url: string
  report(run: string): Promise<Report>
  ask(run: string, act: string, body: object): Promise<unknown>
  stop(): Promise<void>
}

export async function startService(): Promise<Service> {
  const child = spawn(process.execPath, [pathOf('service')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const port = await new Promise<string>((resolve) => {
    child.stdout.once('data', (line) => resolve(String(line).trim()))
  })
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    report: async (run) => (await (await fetch(`${url}/${run}`)).json()) as Report,
    ask: async (run, act, body) =>
      await (await fetch(`${url}/${run}/${act}`, { method: 'POST', body: JSON.stringify(body) })).json(),
    async stop() {
      const ended = new Promise((resolve) => child.once('close', resolve))
      child.stdin.end()
      await ended
    },
  }
}

export interface Ended {
  readonly signal: string | null
  readonly out: string
}

/** A program of this folder (or of the one given), run to its end. Fails if it ends by itself with an error. */
export async function runProgram(program: string, args: readonly string[], folder = './programs'): Promise<Ended> {
  const child = spawn(process.execPath, [pathOf(program, folder), ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let errors = ''
  child.stdout.on('data', (piece) => {
    out += piece
  })
  child.stderr.on('data', (piece) => {
    errors += piece
  })
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.on('close', (...both) => resolve(both))
  })
  if (code !== 0 && signal === null) throw new Error(`${program} ended with ${code}: ${errors}`)
  return { signal, out: out.trim() }
}

function pathOf(program: string, folder = './programs'): string {
  return fileURLToPath(new URL(`${folder}/${program}.mjs`, import.meta.url))
}
