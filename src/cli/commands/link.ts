// reprise link: a new one-time link to the dashboard of a running server.

import { RepriseError } from '../../core/errors.ts'
import type { Command } from '../command.ts'
import { flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { ask, Broken, endpointOf, expectStatus } from '../transfer.ts'
import { defaultTokens, loadServer, openBrowser } from './serve.ts'

const link: Command = async ({ args, options, output, env }) => {
  const way = endpointOf(args[0] ?? 'http://127.0.0.1:4400', options, env)
  const headers = way.headers.authorization === undefined ? await ownHeaders(text(options, 'token-file')) : {}
  const base = way.url.href.replace(/\/*$/, '/')
  try {
    const response = await expectStatus(await ask(way, new URL('v1/links', base), { method: 'POST', headers }), 201)
    const { path, until } = (await response.json()) as { readonly path: string; readonly until: number }
    const url = new URL(path, base).href
    output.result({ url, until }, () => output.line(url))
    if (flag(options, 'open')) openBrowser(url, output)
    return exit.ok
  } catch (error) {
    if (!(error instanceof Broken)) throw error
    const hint = 'Start the server with reprise serve, or pass its address.'
    throw new RepriseError('STORE_UNREACHABLE', `no server responds at ${base}: ${error.message}`, {}, error, hint)
  }
}

export default link

/** The first token of the file that the server itself created or was given. */
async function ownHeaders(file = defaultTokens): Promise<Readonly<Record<string, string>>> {
  const [, , { readTokens }] = await loadServer()
  const token = readTokens(file)?.[0]?.token
  if (token !== undefined) return { authorization: `Bearer ${token}` }
  throw new UsageError(`${file} does not exist: name the server's --token-file, or pass --token`)
}
