// The command line: finds the command, parses its arguments, opens the store if needed, and turns errors into one clear
// message and an exit code. Loads only modules that the command needs.

import { parseArgs } from 'node:util'
import { isReprise } from '../core/errors.ts'
import type { Renewal } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { whileAwaited } from '../engine/base/stay-alive.ts'
import { runtime } from '../lib/runtime/index.ts'
import type { Command, CommandSpec, Invocation, Options } from './command.ts'
import { commands, commonOptions } from './commands.ts'
import { reportError } from './error-report.ts'
import { exit, exitCodeOf, UsageError } from './exit.ts'
import { Output, type Terminal } from './output.ts'

const lingerMs = 3000

export async function main(argv: readonly string[]): Promise<void> {
  // `reprise log … | head` closes the pipe early: that is not an error, and the exit code stays that of the command. An
  // endless command ends (tail); a command that acts completes.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
  const code = await runCli(argv)
  // Not process.exit: pending output to a pipe must be written.
  process.exitCode = code
  endSoon()
}

/** The command has ended: an open connection delays the exit only briefly, once everything is printed. */
function endSoon(): void {
  setInterval(() => {
    if (process.stdout.writableLength === 0 && process.stderr.writableLength === 0) process.exit()
  }, lingerMs).unref()
}

/** `terminal`: for tests. */
export async function runCli(argv: readonly string[], terminal?: Terminal): Promise<number> {
  const ours = beforeSeparator(argv)
  const isJson = ours.includes('--json')
  const output = new Output(terminal ?? (isJson ? withStdoutReserved() : process), isJson)
  const isVerbose = ours.includes('--verbose')
  // The engine's timers do not keep a program alive; a command that waits must not end before its result.
  try {
    return await whileAwaited(dispatch(argv, output, isVerbose))
  } catch (error) {
    const spec = commands.find((each) => each.name === splitGlobal(argv).words[0])
    reportError(error, output, isVerbose, spec?.options)
    return exitCodeOf(error)
  }
}

/** With --json, stdout contains only the result: output of the user's own code goes to stderr. */
function withStdoutReserved(): Terminal {
  const { stdout, stderr, env } = process
  const write = stdout.write.bind(stdout)
  stdout.write = stderr.write.bind(stderr)
  const once = stdout.once.bind(stdout)
  return { stdout: { isTTY: stdout.isTTY, columns: stdout.columns, write, once }, stderr, env }
}

async function dispatch(argv: readonly string[], output: Output, isVerbose: boolean): Promise<number> {
  const { words, globals } = splitGlobal(argv)
  const [first, ...rest] = words
  if (first === '--version' || first === '-v' || first === 'version') return await version(output)
  if (first === undefined) return (await import('./help.ts')).welcome(output)
  if (first === 'help' || first === '--help' || first === '-h') return (await import('./help.ts')).help(output, rest[0])
  const spec = commands.find((each) => each.name === first)
  if (!spec) throw new UsageError(`unknown command ${first}`, suggestion(first))
  const { values, positionals } = parse(spec, [...globals, ...rest])
  if (values.help) return (await import('./help.ts')).help(output, spec.name)
  const [least, most] = spec.arguments
  if (positionals.length < least || positionals.length > most) {
    const usage = [spec.usage, ...(spec.forms ?? [])].map((form) => `reprise ${form}`).join('\n')
    throw new UsageError(`usage: ${usage}`, `reprise help ${spec.name} describes its options`)
  }
  return await call(spec, positionals, values, output, isVerbose)
}

async function call(
  spec: CommandSpec,
  args: readonly string[],
  options: Options,
  output: Output,
  isVerbose: boolean,
): Promise<number> {
  const [module, { engine, renewal }] = await Promise.all([spec.load(), openOrRenew(spec, options)])
  const invocation: Invocation = {
    args,
    options,
    output,
    env: process.env,
    stdin: process.stdin,
    isVerbose,
    renewal,
    table: { commands, commonOptions },
    get engine(): Reprise {
      if (!engine) throw new Error(`${spec.name} uses no store`)
      return engine
    },
  }
  const off = engine ? (await import('./load-line.ts')).showLoading(engine, output) : null
  try {
    return await (module.default ?? (module as Readonly<Record<string, Command>>)[spec.name]!)(invocation)
  } finally {
    off?.()
    await engine?.close().catch(() => undefined)
  }
}

async function openOrRenew(
  spec: CommandSpec,
  options: Options,
): Promise<{ readonly engine: Reprise | null; readonly renewal: Renewal | null }> {
  try {
    return { engine: await openFor(spec, options), renewal: null }
  } catch (error) {
    if (spec.renewsWith === undefined || !isReprise(error, 'STORE_DAMAGED')) throw error
    const { renewNamed } = await import('./store.ts')
    const dryRun = options[spec.renewsWith] !== true
    const { url, namespace } = options as { readonly url?: string; readonly namespace?: string }
    const renewal = await renewNamed({ url, namespace }, dryRun)
    if (!renewal) throw error
    return { engine: dryRun ? null : await openFor(spec, options), renewal }
  }
}

async function openFor(spec: CommandSpec, options: Options): Promise<Reprise | null> {
  if (spec.store === 'none' || spec.storelessWith?.some((name) => options[name] !== undefined)) return null
  const { isMissingStore, openEngine, patienceOf } = await import('./store.ts')
  const { registerKnown } = await import('./models.ts')
  const url = (options.into ?? options.url) as string | undefined
  const isEmpty = spec.mayLackStore && url === undefined && isMissingStore()
  const engine = await openEngine({
    url: isEmpty ? 'memory:' : url,
    namespace: options.namespace as string | undefined,
    blobs: options.blobs as string | undefined,
    keys: options.keys as string | undefined,
    ...('away-for' in (spec.options ?? {}) && { patience: patienceOf(options) }),
    create: spec.store === 'create',
    readOnly: spec.store === 'reading' && !spec.writesWith?.some((name) => options[name] !== undefined),
    isDryRun: options['dry-run'] === true,
    areChunksLost: options['chunks-lost'] === true,
    evenUnfinished: spec.evenUnfinished ?? false,
  })
  try {
    await registerKnown(engine, options.module as string | undefined)
    return engine
  } catch (error) {
    await engine.close().catch(() => undefined)
    throw error
  }
}

function parse(spec: CommandSpec, argv: readonly string[]): { values: Options; positionals: string[] } {
  const known = { ...commonOptions, ...spec.options }
  const config = Object.fromEntries(
    Object.entries(known).map(([name, option]) => {
      const { type, short, multiple } = option as { type: 'string' | 'boolean'; short?: string; multiple?: boolean }
      return [name, { type, ...(short && { short }), ...(multiple && { multiple }) }]
    }),
  )
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options: config,
      allowPositionals: true,
      strict: true,
    })
    return { values: values as Options, positionals }
  } catch (error) {
    throw new UsageError((error as Error).message.split(/\. |\n/)[0]!, `reprise help ${spec.name} lists its options`)
  }
}

/**
 * Common options may precede the command. `words` begins with the command.
 * @example splitGlobal(['--url', 'memory:', 'ls']) // { globals: ['--url', 'memory:'], words: ['ls'] }
 * /
 */
function splitGlobal(argv: readonly string[]): {
  readonly globals: readonly string[]
  readonly words: readonly string[]
} {
  let at = 0
  while (at < argv.length) {
    const [name, value] = argv[at]!.split(/=(.*)/s)
    const option = name!.startsWith('--') ? commonOptions[name!.slice(2) as keyof typeof commonOptions] : undefined
    // `reprise --help` and `reprise --version` are commands.
    if (!option || name === '--help' || name === '--version') break
    at += option.type === 'string' && value === undefined ? 2 : 1
  }
  return { globals: argv.slice(0, at), words: argv.slice(at) }
}

/** Arguments after `--` belong to the command to be run. */
function beforeSeparator(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--')
  return end < 0 ? argv : argv.slice(0, end)
}

function suggestion(given: string): string {
  const near = commands.map((spec) => spec.name).filter((name) => distance(name, given) <= 2 || name.startsWith(given))
  return near.length > 0 ? `did you mean ${near.join(' or ')}?` : 'reprise help lists the commands'
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    }
    row = next
  }
  return row[b.length]!
}

async function version(output: Output): Promise<number> {
  const { packageVersion } = await import('../operations/package-info.ts')
  output.result({ reprise: packageVersion(), [runtime.name]: runtime.version }, () => output.line(packageVersion()))
  return exit.ok
}
