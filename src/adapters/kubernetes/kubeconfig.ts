// Reads kubeconfig files as kubectl does: several files are merged and the first mention of a name wins, paths are relative
// to their file, and a context names a cluster and a user. Kubernetes' own client library parses the files, runs the plugins of
// a user and renews their credentials. Unsupported fields that would change the client's identity are refused, not ignored.

import { readFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { homedir } from 'node:os'
import { delimiter, dirname, isAbsolute, resolve } from 'node:path'
import type { KubeConfig } from '@kubernetes/client-node'
import { driverMissing } from '../../core/driver-missing.ts'
import { RepriseError } from '../../core/errors.ts'
import { isJsonObject } from '../../layers/resource/rules/json.ts'
import { type Connect, type Credentials, readSecret } from './credentials.ts'

export interface Kubeconfig {
  /** A file. Needs the package @kubernetes/client-node. Default: KUBECONFIG or ~/.kube/config. */
  readonly kubeconfig?: string
  /** Default: the file's current context. */
  readonly context?: string
}

type Fields = Record<string, unknown>
interface Named {
  readonly name: string
  readonly fields: Fields
}
interface File {
  readonly clusters: readonly Named[]
  readonly users: readonly Named[]
  readonly contexts: readonly Named[]
  readonly current: string | undefined
}

/** The cluster and the user of a context. */
interface Chosen {
  readonly cluster: Fields
  readonly user: Fields
}

interface Loaded {
  readonly config: KubeConfig
  readonly chosen: Chosen
}

const pathsOf = { cluster: ['certificate-authority'], user: ['client-certificate', 'client-key', 'tokenFile'] }
/** Fields of a user that change the client's identity. */
const refused = ['as-uid', 'as-groups', 'as-user-extra']

export function byKubeconfig(given: Kubeconfig, env: NodeJS.ProcessEnv): Connect {
  let loading: Promise<Loaded> | null = null
  return async () => {
    loading ??= load(given, env)
    try {
      return await credentialsOf(await loading)
    } catch (error) {
      // Read again next time: the file may have been fixed.
      loading = null
      throw error
    }
  }
}

async function credentialsOf({ config, chosen: { cluster, user } }: Loaded): Promise<Credentials> {
  const made: Fields = {}
  await config.applyToHTTPSOptions(made).catch((error: unknown) => {
    const { command } = (user.exec ?? {}) as { readonly command?: unknown }
    const who = command === undefined ? 'the entries of the kubeconfig' : `the plugin ${String(command)}`
    const what = `kubernetes: ${who} returned no credentials: ${(error as Error).message.trim()}`
    throw new RepriseError('STORE_UNREACHABLE', what, {}, error)
  })
  const { ca, cert, key, servername, rejectUnauthorized, auth } = made
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries((made.headers ?? {}) as Fields)) headers[name] = String(value).trim()
  if (typeof auth === 'string') headers.Authorization = `Basic ${Buffer.from(auth).toString('base64')}`
  if (typeof user.tokenFile === 'string')
    headers.Authorization = `Bearer ${await readSecret('the token', user.tokenFile)}`
  const proxy = cluster['proxy-url']
  return {
    server: new URL(String(cluster.server)),
    headers,
    tls: { ca, cert, key, servername, ...(rejectUnauthorized !== undefined && { rejectUnauthorized }) },
    ...(typeof proxy === 'string' && { proxy: { url: proxy, agent: made.agent as Agent } }),
  }
}

async function load({ kubeconfig, context }: Kubeconfig, env: NodeJS.ProcessEnv): Promise<Loaded> {
  const { KubeConfig, loadYaml } = await import('@kubernetes/client-node').catch((error: unknown) => {
    throw driverMissing('reading a kubeconfig', ['@kubernetes/client-node'], error)
  })
  const listed = env.KUBECONFIG?.split(delimiter).filter((each) => each !== '') ?? []
  const usual = listed.length > 0 ? listed : [resolve(env.HOME || env.USERPROFILE || homedir(), '.kube/config')]
  const paths = kubeconfig === undefined ? usual : [kubeconfig]
  const files: File[] = []
  for (const path of paths) {
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      // As in kubectl, some of several files may be missing.
      if (error.code === 'ENOENT' && paths.length > 1) return null
      throw invalid(`the kubeconfig ${path} cannot be read: ${error.message}`, error)
    })
    if (text !== null) files.push(fileOf(path, parse(path, text, loadYaml)))
  }
  const chosen = choose(files, context, paths.join(delimiter))
  const config = new KubeConfig()
  config.loadFromString(JSON.stringify(asOneFile(chosen)))
  return { config, chosen }
}

function parse(path: string, text: string, loadYaml: (text: string) => unknown): Fields {
  let value: unknown
  try {
    value = loadYaml(text)
  } catch (error) {
    throw invalid(`the kubeconfig ${path} cannot be parsed: ${(error as Error).message}`, error)
  }
  // The library returns an instance of its own class.
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  throw invalid(`the kubeconfig ${path} must hold clusters, users and contexts`)
}

function fileOf(path: string, value: Fields): File {
  const folder = dirname(resolve(path))
  const named = (list: string, field: 'cluster' | 'user' | 'context'): Named[] => {
    const entries = value[list] ?? []
    if (!Array.isArray(entries)) throw invalid(`the kubeconfig ${path}: ${list} must be a list`)
    return entries.map((entry: unknown) => {
      const { name, [field]: fields } = (entry ?? {}) as Fields
      if (typeof name !== 'string') throw invalid(`the kubeconfig ${path}: each of ${list} must have a name`)
      return { name, fields: field === 'context' ? ((fields ?? {}) as Fields) : located(folder, field, fields ?? {}) }
    })
  }
  const current = value['current-context']
  return {
    clusters: named('clusters', 'cluster'),
    users: named('users', 'user'),
    contexts: named('contexts', 'context'),
    current: typeof current === 'string' && current !== '' ? current : undefined,
  }
}

function located(folder: string, of: 'cluster' | 'user', fields: object): Fields {
  const found: Fields = { ...fields }
  for (const name of pathsOf[of]) {
    const path = found[name]
    if (typeof path === 'string' && path !== '') found[name] = resolve(folder, path)
  }
  const { exec } = found as { readonly exec?: { readonly command?: unknown } }
  // A command without a slash is looked up in PATH.
  if (typeof exec?.command === 'string' && exec.command.includes('/') && !isAbsolute(exec.command)) {
    found.exec = { ...exec, command: resolve(folder, exec.command) }
  }
  return found
}

function choose(files: readonly File[], context: string | undefined, where: string): Chosen {
  const find = (of: 'clusters' | 'users' | 'contexts', name: unknown) =>
    files.flatMap((file) => file[of]).find((each) => each.name === name)?.fields
  const wanted = context ?? files.find(({ current }) => current !== undefined)?.current
  const known = files.flatMap(({ contexts }) => contexts.map(({ name }) => name)).join(', ') || 'none'
  if (wanted === undefined) throw invalid(`${where} has no current-context: pass context (there are: ${known})`)
  const found = find('contexts', wanted)
  if (!found) throw invalid(`${where} has no context ${wanted} (there are: ${known})`)
  const cluster = find('clusters', found.cluster)
  if (!cluster)
    throw invalid(`context ${wanted} of ${where} names a cluster that does not exist: ${String(found.cluster)}`)
  if (!/^https?:[/][/]/.test(String(cluster.server)) || !URL.canParse(String(cluster.server))) {
    throw invalid(`cluster ${String(found.cluster)} of ${where} must have an address with http or https as its server`)
  }
  const user = found.user === undefined || found.user === '' ? {} : find('users', found.user)
  if (!user) throw invalid(`context ${wanted} of ${where} names a user that does not exist: ${String(found.user)}`)
  const unknown = refused.find((name) => user[name] !== undefined)
  if (unknown) throw invalid(`user ${String(found.user)} of ${where}: ${unknown} is not supported`)
  return { cluster, user: withPlugin(user, cluster) }
}

/** Passes the same information to a plugin as kubectl does; a plugin cannot be interactive here. */
function withPlugin(user: Fields, cluster: Fields): Fields {
  if (!isJsonObject(user.exec)) return user
  const exec = user.exec as Fields
  if (exec.interactiveMode === 'Always') {
    throw invalid(
      `the plugin ${String(exec.command)} requires a terminal (interactiveMode: Always), but this process has none`,
    )
  }
  const shownFields = [
    'server',
    'tls-server-name',
    'insecure-skip-tls-verify',
    'certificate-authority-data',
    'proxy-url',
  ]
  const about = Object.fromEntries(shownFields.flatMap((name) => (name in cluster ? [[name, cluster[name]]] : [])))
  const spec = { interactive: false, ...(exec.provideClusterInfo === true && { cluster: about }) }
  const info = { apiVersion: exec.apiVersion, kind: 'ExecCredential', spec }
  const env = [
    ...((exec.env as unknown[] | undefined) ?? []),
    { name: 'KUBERNETES_EXEC_INFO', value: JSON.stringify(info) },
  ]
  return { ...user, exec: { ...exec, env } }
}

/** Without TLS, the library needs an explicit flag; without a user, it drops the trusted certificates. */
function asOneFile({ cluster, user }: Chosen): Fields {
  const isPlain = String(cluster.server).startsWith('http:')
  return {
    clusters: [{ name: 'it', cluster: { ...cluster, ...(isPlain && { 'insecure-skip-tls-verify': true }) } }],
    users: [{ name: 'it', user }],
    contexts: [{ name: 'it', context: { cluster: 'it', user: 'it' } }],
    'current-context': 'it',
  }
}

function invalid(what: string, cause?: unknown): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `kubernetes: ${what}`, {}, cause)
}
