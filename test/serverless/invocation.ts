// One invocation of a handler in a process of its own, which a test may kill or freeze.

import { type ChildProcess, spawn } from 'node:child_process'
import { programPath } from '../support/programs.ts'

export interface Ended {
  /** Null: it was killed. */
  readonly code: number | null
  readonly report: unknown
}

export class Invocation {
  readonly child: ChildProcess
  /** Rejects if it failed; a killed one has no report. */
  readonly ended: Promise<Ended>

  constructor(
    platform: string,
    { url, ledger, ms }: { readonly url: string; readonly ledger: string; readonly ms: number },
  ) {
    const env = { ...process.env, DATABASE_URL: url, LEDGER: ledger }
    this.child = spawn(process.execPath, [programPath('serverless'), platform, String(ms)], { env })
    const printed: string[] = []
    const complained: string[] = []
    this.child.stdout!.on('data', (text) => printed.push(String(text)))
    this.child.stderr!.on('data', (text) => complained.push(String(text)))
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject)
      this.child.on('close', (code, signal) => {
        if (signal !== null) resolve({ code: null, report: null })
        else if (code === 0) resolve({ code, report: JSON.parse(printed.join('')) })
        else reject(new Error(`the invocation ended with ${code}: ${complained.join('')}`))
      })
    })
  }
}
