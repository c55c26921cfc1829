// What a request to an API server is made with: where to, whom to trust, and who asks.

import { readFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { RepriseError } from '../../core/errors.ts'

/** What a request is made with. */
export interface Credentials {
  readonly server: URL
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Readonly<Record<string, unknown>>
  /** Connects through a proxy. */
  readonly proxy?: { readonly url: string; readonly agent: Agent }
}

export type Connect = () => Promise<Credentials>

/** A file that holds part of them. It is read when it is needed: others replace it while this process runs. */
export async function readSecret(what: string, path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const why = `kubernetes: ${what} cannot be read: ${(error as Error).message}`
    throw new RepriseError('STORE_UNREACHABLE', why, { path }, error)
  }
}
