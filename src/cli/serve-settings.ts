// The sources of the settings of `reprise serve`, for the page and the API: the command line, an environment variable, or the
// default. Files and addresses are named; their contents and credentials are not.

import type { ServerSetting } from '../server/index.ts'
import type { Options } from './command.ts'
import { text } from './command.ts'

interface Started {
  readonly url: string
  readonly host: string
  readonly port: number
  readonly tokenFile: string
}

export function serveSettings(options: Options, { url, host, port, tokenFile }: Started): ServerSetting[] {
  const keys = text(options, 'keys') ?? process.env.REPRISE_KEYS
  const blobs = text(options, 'blobs') ?? process.env.REPRISE_BLOBS
  const row = (name: string, value: unknown, option: string, variable?: string): ServerSetting => ({
    name,
    value,
    ...fromOf(options, option, variable),
  })
  return [
    row('store', withoutSecrets(url), 'url', 'REPRISE_URL'),
    row('blobs', blobs === undefined ? null : withoutSecrets(blobs), 'blobs', 'REPRISE_BLOBS'),
    ...(text(options, 'namespace') === undefined ? [] : [row('namespace', text(options, 'namespace'), 'namespace')]),
    row('encryption', keys === undefined ? false : `keys of ${keys}`, 'keys', 'REPRISE_KEYS'),
    row('access', `tokens of ${tokenFile}`, 'token-file'),
    row('host', host, 'host'),
    row('port', port, 'port'),
    row('origins', ((options.origin ?? []) as readonly string[]).map(withoutSecrets), 'origin'),
    row('readOnly', options['read-only'] === true, 'read-only'),
    row('definitions', text(options, 'module') ?? null, 'module'),
    row('work', options.work === true, 'work'),
    row('log', text(options, 'log') ?? 'text', 'log'),
    row('mcp', text(options, 'mcp') ?? null, 'mcp'),
    cacheKeep(options),
  ]
}

function cacheKeep(options: Options): ServerSetting {
  const given = ['cache-unused', 'cache-bytes'].filter((each) => options[each] !== undefined)
  if (given.length === 0) return { name: 'cacheKeep', value: null, from: 'default' }
  const value = Object.fromEntries(given.map((each) => [each.replace('cache-', ''), text(options, each)]))
  return { name: 'cacheKeep', value, from: 'command line', by: given.map((each) => `--${each}`).join(', ') }
}

function fromOf(options: Options, option: string, variable?: string): Pick<ServerSetting, 'from' | 'by'> {
  if (options[option] !== undefined) return { from: 'command line', by: `--${option}` }
  // An empty variable is treated as unset, as for the command line.
  if (variable !== undefined && process.env[variable]) return { from: 'environment', by: variable }
  return { from: 'default' }
}

/** Without credentials and query: each may contain a password. Errs on the side of removing too much. */
export function withoutSecrets(url: string): string {
  return url.replace(/:\/\/.*@/s, '://').replace(/[?#].*/s, '')
}
