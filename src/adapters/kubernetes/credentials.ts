// The credentials of a request to an API server: its address, its trusted certificates, and the client's identity.

import { readFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { RepriseError } from '../../core/errors.ts'

export interface Credentials {
  readonly server: URL
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Readonly<Record<string, unknown>>
  /** Set if the connection goes through a proxy. */
  readonly proxy?: { readonly url: string; readonly agent: Agent }
}

export type Connect = () => Promise<Credentials>

/** Reads a credential from a file. It is read on demand: other programs replace it while this process runs. */
export async function readSecret(what: string, path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const why = `kubernetes: ${what} cannot be read: ${(error as Error).message}`
    throw new RepriseError('STORE_UNREACHABLE', why, { path }, error)
  }
}
