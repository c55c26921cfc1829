// reprise serve: the HTTP API of a store, until it is interrupted. Loads the server and its dependencies only here.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { driverMissing } from '../../core/driver-missing.ts'
import type { Duration } from '../../core/duration.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { keepHouse } from '../../engine/tools/housekeeping/housekeeping.ts'
import { checkDefinitions, type WorkflowDefinition } from '../../layers/workflow/index.ts'
import { makeDue } from '../../layers/workflow/queue/due.ts'
import { sizeOf } from '../byte-size.ts'
import type { Command, Options } from '../command.ts'
import { duration, flag, text } from '../command.ts'
import { devChannel } from '../dev-channel.ts'
import { exit, UsageError } from '../exit.ts'
import { onInterrupt } from '../interrupt.ts'
import { registerKnown } from '../models.ts'
import { loadModule } from '../module.ts'
import type { Output } from '../output.ts'
import { logFormat, ServeLog } from '../serve-log.ts'
import { serveSettings } from '../serve-settings.ts'
import { openEngine, patienceOf, shownUrl, urlOf } from '../store.ts'
import { takeUp, workable } from './work.ts'

const defaultPort = 4400
export const defaultTokens = '.reprise/server-tokens.json'

const serve: Command = async ({ options, output, isVerbose }) => {
  const log = new ServeLog(logFormat(options), output, isVerbose)
  const { host, port, origins } = addressOf(options)
  const readOnly = flag(options, 'read-only')
  const [server, { isLoopback, listen }, { readOrMakeTokens }, { defaultServerLimits }, { warmUp }] = await loadServer()
  const file = tokenFileOf(options)
  if (!isLoopback(host) && (file === undefined || origins.length === 0)) {
    throw new UsageError(
      `${host} can be reached from outside: name the token file with --token-file, and its public address with --origin`,
      'prefer a TLS proxy in front of the loopback address: docs/guides/server.md',
    )
  }
  const tokenFile = file ?? defaultTokens
  const { tokens, isNew } = readOrMakeTokens(tokenFile)
  if (!isLoopback(host) && isNew) output.note(`created ${tokenFile}: anyone who can read it has access`)
  const where = { url: text(options, 'url'), namespace: text(options, 'namespace') }
  const isWorking = flag(options, 'work')
  if (isWorking && (readOnly || text(options, 'module') === undefined)) {
    throw new UsageError('--work needs --module FILE, and a writable store')
  }
  const mcp = mcpOf(options)
  const engineOf = async (namespace: string | undefined) =>
    await openEngine({
      url: where.url,
      namespace,
      ...{ blobs: text(options, 'blobs'), keys: text(options, 'keys'), patience: patienceOf(options) },
      ...{ create: !readOnly, readOnly, worker: 'serve' },
    })
  const module = text(options, 'module')
  const definitions = module === undefined ? [] : Object.values(await loadModule(module))
  const dev = devChannel()
  await dev?.turn()
  const engine = await engineOf(where.namespace)
  const namespaces: Record<string, Reprise> = {}
  try {
    for (const name of new Set(tokens.flatMap((token) => token.namespaces ?? []))) {
      namespaces[name] = await engineOf(name)
      await registerKnown(namespaces[name], module)
    }
    await registerKnown(engine, module)
    const cacheKeep = cacheKeepOf(options)
    const settings = serveSettings(options, { url: urlOf(where), host, port, tokenFile })
    const logging = log.requests && { log: log.requests }
    const given = { tokens, readOnly, origins, definitions, namespaces, cacheKeep, settings, ...logging }
    for (const each of [engine, ...Object.values(namespaces)]) log.follow(each)
    const handler = server.serve(engine, { ...given, ...(mcp && { mcp }) })
    if (isWorking) workHere(engine, definitions, module!, output)
    if (dev) void tryCode(engine, definitions).catch(() => undefined)
    const listening = await listen(handler, { host, port, limits: defaultServerLimits, ...logging })
    warmUp(handler)
    dev?.serves()
    // The code in the link works once: it is printed only for a person who is present.
    const isSeen = (output.isTerminal || flag(options, 'open')) && !dev?.isReload
    const link = isSeen ? `${listening.url}${handler.link(tokens[0]!.name)}` : null
    const shown = { url: listening.url, store: shownUrl(urlOf(where)), tokenFile, readOnly }
    const interruption = onInterrupt(output, dev ? null : 'closing')
    // A file or a log is stored: there the link would be readable until it is used.
    const address = output.isTerminal && link !== null ? link : listening.url
    output.result(shown, () => output.line(`${dev?.isReload ? 'reloaded,' : 'serving'} ${shown.store} at ${address}`))
    if (link !== null && flag(options, 'open')) openBrowser(link, output)
    await (dev ? Promise.race([interruption.requested, dev.over]) : interruption.requested)
    await Promise.all([listening.close(), handler.close()])
    interruption.off()
    return exit.ok
  } finally {
    dev?.close()
    await Promise.all([engine, ...Object.values(namespaces)].map((each) => each.close()))
  }
}

export default serve

function tokenFileOf(options: Options): string | undefined {
  const file = text(options, 'token-file')
  if (file === undefined || existsSync(dirname(resolve(file)))) return file
  throw new UsageError(`--token-file: the folder of ${file} does not exist`, 'create it, or correct the path')
}

function mcpOf(options: Options): 'read' | 'act' | undefined {
  const mcp = text(options, 'mcp')
  if (mcp !== undefined && mcp !== 'read' && mcp !== 'act') throw new UsageError('--mcp must be read or act')
  return mcp
}

function cacheKeepOf(options: Options): { readonly unused?: Duration; readonly bytes?: number } {
  const [unused, size] = [duration(options, 'cache-unused'), text(options, 'cache-bytes')]
  return {
    ...(unused !== undefined && { unused }),
    ...(size !== undefined && { bytes: sizeOf(size, '--cache-bytes') }),
  }
}

/** Executes due work of these definitions, as `reprise work` does. */
function workHere(engine: Reprise, definitions: readonly unknown[], file: string, output: Output): void {
  takeUp(engine, workable(definitions), file, output)
  keepHouse(hostOf(engine))
}

/** Replays waiting runs with the edited code, so that divergence is reported at once instead of later. */
async function tryCode(engine: Reprise, definitions: readonly unknown[]): Promise<void> {
  const flows = definitions.filter((each) => (each as { kind?: unknown } | null)?.kind === 'workflow')
  const { diverging } = await checkDefinitions(engine, flows as WorkflowDefinition[], { limit: 1000 })
  for (const { timeline } of diverging) {
    const head = await engine.head(timeline)
    if (head) await makeDue(hostOf(engine), head)
  }
}

function addressOf(options: Options): {
  readonly host: string
  readonly port: number
  readonly origins: readonly string[]
} {
  const port = Number(text(options, 'port') ?? defaultPort)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new UsageError('--port must be a number up to 65535')
  const origins = (options.origin ?? []) as readonly string[]
  return { host: text(options, 'host') ?? '127.0.0.1', port, origins }
}

export async function loadServer() {
  try {
    return await Promise.all([
      import('../../server/index.ts'),
      import('../../server/listen.ts'),
      import('../../server/token-file.ts'),
      import('../../server/limits.ts'),
      import('../../server/serve.ts'),
    ])
  } catch (error) {
    throw driverMissing('the server', ['hono', '@hono/node-server'], error)
  }
}

export function openBrowser(url: string, output: Output): void {
  const [command, ...args] =
    process.platform === 'darwin' ? ['open'] : process.platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open']
  const child = spawn(command!, [...args, url], { stdio: 'ignore', detached: true })
  child.once('error', () => output.note(`--open: no browser was opened, because ${command} is not installed`))
  child.unref()
}
