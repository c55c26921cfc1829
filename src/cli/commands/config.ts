// reprise config: the versions of a pushed configuration: list, get, apply, watch, history, back to an earlier version, the
// clients that have it, and the progress of a rollout.

import type { Duration } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import { hostOf } from '../../engine/host/host.ts'
import { isConfig } from '../../layers/config/definition.ts'
import { type ConfigDefinition, config } from '../../layers/config/index.ts'
import { sleep } from '../../lib/waiting.ts'
import { entriesAfter } from '../../operations/history.ts'
import { type Command, flag, type Invocation, text, whole } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { brief, count, when } from '../format.ts'
import { readJson } from '../json-argument.ts'
import { loadModule } from '../module.ts'
import { toJson } from '../output.ts'
import { confirm } from '../prompt.ts'

const verbs: Readonly<Record<string, (invocation: Invocation, args: readonly string[]) => Promise<number>>> = {
  ls,
  get,
  status,
  apply,
  watch,
  history,
  rollback,
  pause: (invocation, args) => steer(invocation, args, 'pause'),
  resume: (invocation, args) => steer(invocation, args, 'resume'),
  withdraw: (invocation, args) => steer(invocation, args, 'withdraw'),
}

const pollMs = 1000

const command: Command = async (invocation) => {
  const [verb, ...rest] = invocation.args
  const act = Object.hasOwn(verbs, verb!) ? verbs[verb!] : undefined
  if (!act) throw new UsageError(`choose an action: reprise config ${Object.keys(verbs).join('|')}`)
  return await act(invocation, rest)
}

export default command

async function ls({ engine, output }: Invocation): Promise<number> {
  const found: { config: string; timeline: string; versions: number }[] = []
  for await (const { timeline, seq } of hostOf(engine).each({ prefix: 'config/' })) {
    const name = idBelow('config/', timeline) ?? timeline
    if (!name.includes('/')) found.push({ config: name, timeline, versions: seq })
  }
  output.result(found, () => {
    if (found.length === 0) return output.note('no configuration')
    return output.table(
      ['CONFIGURATION', 'VERSIONS'],
      found.map((each) => [each.config, String(each.versions)]),
    )
  })
  return exit.ok
}

async function get(invocation: Invocation, args: readonly string[]): Promise<number> {
  const name = one(args, 'get NAME')
  const latest = await (await openConfig(invocation, name)).latest()
  if (!latest) throw new RepriseError('NOT_FOUND', `${name} has no version yet`, { config: name })
  const { output } = invocation
  output.result({ config: name, ...latest }, () => {
    output.line(`version ${latest.version}`)
    output.lines(toJson(latest.value, 2))
  })
  return exit.ok
}

async function status(invocation: Invocation, args: readonly string[]): Promise<number> {
  const name = one(args, 'status NAME')
  const found = await (await openConfig(invocation, name)).status()
  const { output } = invocation
  output.result({ config: name, ...found }, () => {
    const { latest, lastGood, rollout, clients, inForce, refused } = found
    output.line(`version ${latest ?? 'none'}, last good ${lastGood ?? 'none'}, ${count(clients, 'client')}`)
    for (const { version, clients: having } of inForce)
      output.line(`  ${count(having, 'client')}: version ${version ?? 'none'}`)
    if (rollout) output.line(`  rollout of version ${rollout.version}: ${rollout.status}`)
    for (const { client, refused: why } of refused)
      output.line(`  ${client} refused version ${why?.version}: ${why?.reason}`)
  })
  return exit.ok
}

async function apply(invocation: Invocation, args: readonly string[]): Promise<number> {
  if (args.length !== 2) throw new UsageError('reprise config apply NAME FILE')
  const [name, file] = args as [string, string]
  const { options, output } = invocation
  const value = await readJson(invocation, file)
  const version = await setVersion(invocation, name, value)
  const isStaged = text(options, 'stages') !== undefined
  output.result({ config: name, version }, () => {
    const how = isStaged ? ', in stages: a worker of the configuration runs the rollout' : ''
    output.line(`set ${name} to version ${version}${how}`)
  })
  return exit.ok
}

async function setVersion(invocation: Invocation, name: string, value: unknown): Promise<number> {
  const { options } = invocation
  const stages = text(options, 'stages')
  const hold = text(options, 'hold')
  const key = text(options, 'key')
  const once = key === undefined ? {} : { key }
  const handle = await openConfig(invocation, name)
  if (stages === undefined) {
    if (hold !== undefined) throw new UsageError('--hold belongs to a rollout: name its --stages')
    return await handle.set(value, once)
  }
  const shares = stages.split(',').map(Number)
  return await handle.rollout(value, { stages: shares, ...(hold !== undefined && { hold: hold as Duration }), ...once })
}

/** Follows the versions until Ctrl-C; with --once, prints the current one. */
async function watch(invocation: Invocation, args: readonly string[]): Promise<number> {
  const name = one(args, 'watch NAME')
  const { engine, options, output } = invocation
  const handle = await openConfig(invocation, name)
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  output.onClosed(() => stop.abort())
  for (let shown = 0; !stop.signal.aborted; ) {
    const latest = await handle.latest()
    if (latest && latest.version !== shown) {
      shown = latest.version
      if (output.isJson) output.json({ config: name, ...latest })
      else output.line(`version ${latest.version}  ${brief(toJson(latest.value), 120)}`)
    }
    if (flag(options, 'once')) break
    await sleep(hostOf(engine).clock, pollMs, { signal: stop.signal })
  }
  return exit.ok
}

interface SetVersion {
  readonly version: number
  readonly at: number
  readonly isStaged: boolean
  readonly value: unknown
}

async function history(invocation: Invocation, args: readonly string[]): Promise<number> {
  const found = await versionsOf(invocation, one(args, 'history NAME'))
  const { output } = invocation
  output.result(found, () => {
    for (const { version, at, isStaged, value } of found) {
      output.line(`version ${version}  ${when(at)}${isStaged ? '  in stages' : ''}  ${brief(toJson(value), 100)}`)
    }
  })
  return exit.ok
}

/** Sets the value of an earlier version as a new one: versions only go forward, since clients count on it. */
async function rollback(invocation: Invocation, args: readonly string[]): Promise<number> {
  const name = one(args, 'rollback NAME [--to VERSION]')
  const { options, output, stdin } = invocation
  const versions = await versionsOf(invocation, name)
  const to = whole(options, 'to') ?? versions.at(-2)?.version
  const found = versions.find(({ version }) => version === to)
  if (!found) {
    const what = `${name} has no version ${to ?? 'before the newest one'}: reprise config history ${name} lists them`
    throw new RepriseError('NOT_FOUND', what, { config: name })
  }
  const shown = brief(toJson(found.value), 100)
  if (
    !flag(options, 'yes') &&
    !(await confirm(`set ${name} to the value of version ${to}, ${shown}?`, stdin, output))
  ) {
    output.result({ config: name, version: null, from: to, value: found.value }, () => {
      output.line(`version ${to}: ${shown}`)
      output.note('nothing was set; add --yes to set this value')
    })
    return exit.ok
  }
  const version = await setVersion(invocation, name, found.value)
  output.result({ config: name, version, from: to, value: found.value }, () =>
    output.line(`set ${name} to version ${version}, with the value of version ${to}`),
  )
  return exit.ok
}

async function steer(
  invocation: Invocation,
  args: readonly string[],
  action: 'pause' | 'resume' | 'withdraw',
): Promise<number> {
  const [name, given] = args
  const version = Number(given)
  if (args.length !== 2 || !Number.isSafeInteger(version)) throw new UsageError(`reprise config ${action} NAME VERSION`)
  await (await openConfig(invocation, name!))[action](version)
  const { output } = invocation
  output.result({ config: name, version, action }, () =>
    output.line(`${action} of version ${version} was requested: a worker of ${name} does it`),
  )
  return exit.ok
}

async function versionsOf({ engine }: Invocation, name: string): Promise<readonly SetVersion[]> {
  const head = await engine.head(`config/${name}`)
  if (!head) throw unknown(name)
  const versions: SetVersion[] = []
  for await (const { type, time, data } of entriesAfter(engine, head, 0)) {
    if (type !== 'set') continue
    const { version, value, plan } = data as { version: number; value: unknown; plan: unknown }
    versions.push({ version, at: time, isStaged: plan !== null, value })
  }
  return versions
}

/** Reading creates no configuration: only `apply` does. */
async function openConfig({ engine, args, options }: Invocation, name: string) {
  const module = text(options, 'module')
  const exported = module === undefined ? [] : Object.values(await loadModule(module)).filter(isConfig)
  const definition: ConfigDefinition = exported.find((each) => each.name === name) ?? config(name)
  if (args[0] !== 'apply' && !(await engine.head(`config/${name}`))) throw unknown(name)
  return await engine.open(definition)
}

function unknown(name: string): RepriseError {
  return new RepriseError(
    'NOT_FOUND',
    `there is no configuration ${name} in this store: reprise config ls lists them`,
    {
      config: name,
    },
  )
}

function one(args: readonly string[], usage: string): string {
  if (args.length !== 1) throw new UsageError(`reprise config ${usage}`)
  return args[0]!
}
