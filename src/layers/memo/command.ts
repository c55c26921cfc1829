// Commands, remembered: what they wrote and said, by a digest of the command, its declared files and variables. A hit puts the outputs
// in place and says again what was said; the command itself does not run.

import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { StateTimeline } from '../../engine/checkpoint/state-timeline.ts'
import { readStream } from '../../engine/checkpoint/stored-value.ts'
import { checkName, type Entity, type OpenOptions, opens } from '../../engine/definition.ts'
import type { Host } from '../../engine/host.ts'
import { type Described, describes } from '../../engine/model.ts'
import type { Envelope, Provenance, Remembered } from './entry.ts'
import type { Explanation } from './explain.ts'
import { anchored, type FileDigests } from './files.ts'
import { type Key, keyOf } from './key.ts'
import { memoModel } from './model.ts'
import { CapturedOutputs, type OutputFile, restoreOutputs } from './outputs.ts'
import { checkRemembrance, Remembering, type Remembrance } from './remembering.ts'
import { SeenFilesStore } from './seen-files.ts'

export interface CommandOptions extends Remembrance {
  /** A line for the shell, or a program and its arguments. */
  readonly cmd: string | readonly string[]
  /** Files that it reads, as patterns below `directory`: ['src/**', 'package.json']. */
  readonly inputs: readonly string[]
  /** Files that it writes: ['dist/**']. Empty: it is remembered for its result alone. */
  readonly outputs?: readonly string[]
  /** Environment variables that it reads. */
  readonly env?: readonly string[]
  /** Where it runs, and where inputs and outputs lie; the working directory if left out. */
  readonly directory?: string
  /** Raise it to make earlier results count no more. */
  readonly version?: string | number
}

const known = namesOf<CommandOptions>({
  cmd: true,
  inputs: true,
  outputs: true,
  env: true,
  directory: true,
  version: true,
  ttl: true,
  errors: true,
  scope: true,
  keep: true,
})

export interface CommandDefinition extends Entity<CommandHandle, undefined>, Described {
  readonly kind: 'memo'
  readonly name: string
  readonly prefix: string
  readonly options: CommandOptions
}

/**
 * @example
 * const build = command('build', { cmd: 'npm run build', inputs: ['src/**', 'package.json'], outputs: ['dist/**'], env: ['NODE_ENV'] })
 * const { exitCode, from } = await (await rp.open(build)).run()
 */
export function command(name: string, options: CommandOptions): CommandDefinition {
  checkName('command', name)
  checkOptions(`command ${name}`, options, known)
  checkCommand(name, options)
  const model = memoModel(name)
  return {
    [describes]: model,
    kind: 'memo',
    name,
    prefix: model.scope,
    options,
    async [opens](engine: Host, _id: undefined, _options: OpenOptions) {
      engine.declare(model)
      return engine.once(this, () => new CommandHandle(engine, name, options))
    },
  }
}

function checkCommand(name: string, options: CommandOptions): void {
  const { cmd, inputs, outputs } = options
  const isLine = typeof cmd === 'string' ? cmd.trim() !== '' : Array.isArray(cmd) && cmd.length > 0
  if (!isLine)
    throw new RepriseError('INVALID_ARGUMENT', `command ${name}: cmd must be a line or a list of words`, { name })
  if (!Array.isArray(inputs)) {
    const what = `command ${name}: inputs must be a list of patterns; an empty one says that it reads no files`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }
  for (const pattern of [...inputs, ...(outputs ?? [])]) anchored(pattern)
  checkRemembrance(`command ${name}`, options)
}

/** What it said, in the order in which it was said. */
export interface Said {
  readonly to: 'stdout' | 'stderr'
  readonly bytes: Uint8Array
}

export interface CommandResult {
  readonly exitCode: number
  readonly from: 'store' | 'computed'
  readonly said: readonly Said[]
  readonly outputs: readonly string[]
  /** They were there already, and are the same. */
  readonly isInPlace: boolean
  /** Why nothing was kept, if so. */
  readonly notKept: string | null
  readonly provenance: Provenance
}

export interface CommandRunOptions {
  readonly signal?: AbortSignal
  /** Run it whatever is there. */
  readonly refresh?: boolean
  /** Called as it says something, also when that is said again. */
  readonly onSaid?: (said: Said) => void
}

const knownRun = namesOf<CommandRunOptions>({ signal: true, refresh: true, onSaid: true })

interface CommandValue {
  readonly exitCode: number
  readonly said: readonly Said[]
  readonly files: readonly OutputFile[]
}

/** What is said beyond this is not kept. */
const saidBytesMax = 16 * 1024 * 1024

export class CommandHandle {
  readonly name: string
  readonly #options: CommandOptions
  readonly #directory: string
  readonly #remembering: Remembering
  readonly #seen: SeenFilesStore

  constructor(host: Host, name: string, options: CommandOptions) {
    this.name = name
    this.#options = options
    this.#directory = resolve(options.directory ?? '.')
    const isFailure = ({ outcome }: Envelope) =>
      outcome.kind === 'value' && (outcome.value as CommandValue).exitCode !== 0
    this.#remembering = new Remembering(host, `command ${name}`, name, options, isFailure)
    this.#seen = new SeenFilesStore(host.kernel, this.#directory)
  }

  /** Its result: put in place, or made now and remembered. A failure is a result as well, with its exit code. */
  async run(options: CommandRunOptions = {}): Promise<CommandResult> {
    this.#remembering.check()
    checkOptions(`command ${this.name}`, options, knownRun)
    const digests = await this.#seen.load()
    try {
      return await this.#run(await this.#key(digests), digests, options)
    } finally {
      await this.#seen.save(digests)
    }
  }

  /** Hit or miss, and which part of the key is another than last time. Runs nothing. */
  async explain(): Promise<Explanation> {
    this.#remembering.check()
    const digests = await this.#seen.load()
    const key = await this.#key(digests)
    await this.#seen.save(digests)
    return await this.#remembering.explain(key)
  }

  /** True: there was one. */
  async forget(): Promise<boolean> {
    this.#remembering.check()
    return await this.#remembering.forget(await this.#key(await this.#seen.load()))
  }

  /** Waits for what is running. */
  close(): Promise<void> {
    return this.#remembering.close()
  }

  get #kernel() {
    return this.#remembering.host.kernel
  }

  async #run(key: Key, digests: FileDigests, options: CommandRunOptions): Promise<CommandResult> {
    const found = options.refresh ? null : await this.#remembering.find(key)
    let executed: { notKept: string | null } | null = null
    const remembered =
      found?.remembered ??
      (await this.#remembering.compute(key, options, async (id, taken) => {
        const made = await this.#execute(id, taken, key, digests, options)
        executed = made
        return made.remembered
      }))
    this.#remembering.used(remembered)
    const { outcome, ...provenance } = remembered.envelope
    const { exitCode, said, files } = (outcome as { readonly value: CommandValue }).value
    const given = { exitCode, said, outputs: files.map(({ path }) => path), provenance }
    const own = executed as { readonly notKept: string | null } | null
    if (own) return { ...given, from: 'computed', isInPlace: true, notKept: own.notKept }
    for (const each of said) options.onSaid?.(each)
    // A failure has no outputs; and what nobody could keep lies where the one who made it left it.
    if (exitCode !== 0 || !remembered.record) return { ...given, from: 'store', isInPlace: false, notKept: null }
    const { isInPlace } = await restoreOutputs(
      this.#directory,
      this.#options.outputs ?? [],
      files,
      () => readStream(this.#kernel, remembered.stream),
      digests,
      this.#kernel.limits,
    )
    return { ...given, from: 'store', isInPlace, notKept: null }
  }

  async #key(digests: FileDigests): Promise<Key> {
    const { cmd, inputs, outputs = [], env = [], version = '' } = this.#options
    return keyOf(this.#kernel, {
      name: this.name,
      version: String(version),
      // What was built for one platform is no result for another.
      args: { cmd, outputs, platform: process.platform, arch: process.arch },
      files: await digests.of(inputs),
      env: Object.fromEntries(env.map((name) => [name, process.env[name]])),
    })
  }

  async #execute(
    id: TimelineId,
    taken: StateTimeline,
    key: Key,
    digests: FileDigests,
    options: CommandRunOptions,
  ): Promise<{ readonly remembered: Remembered; readonly notKept: string | null }> {
    const kernel = this.#kernel
    const started = kernel.clock.elapsed()
    const { exitCode, said } = await execute(this.#options.cmd, this.#directory, options)
    const outputs = exitCode === 0 ? (this.#options.outputs ?? []) : []
    const captured = new CapturedOutputs(this.#directory, outputs, kernel.limits)
    const by = await kernel.worker.register()
    const envelope = (): Envelope => ({
      parts: key.parts,
      computedAt: kernel.clock.now(),
      tookMs: Math.round(kernel.clock.elapsed() - started),
      by,
      for: null,
      outcome: { kind: 'value', value: { exitCode, said, files: captured.files } satisfies CommandValue },
    })
    if (exitCode !== 0 && this.#options.errors === undefined) {
      const remembered = { timeline: id, record: null, envelope: envelope(), stream: null }
      return { remembered, notKept: `it ended with ${exitCode}` }
    }
    let notKept: string | null = null
    const remembered = await this.#remembering.publish(taken, {
      id,
      envelope,
      source: { [Symbol.asyncIterator]: () => captured.stream() },
      isReadOnce: false,
      isSteady: async () => (await this.#key(digests)).hex === key.hex,
      problem: (error) => {
        notKept = (error as Error).message
        this.#remembering.problem(error)
      },
    })
    return { remembered, notKept }
  }
}

async function execute(
  cmd: string | readonly string[],
  directory: string,
  { signal, onSaid }: CommandRunOptions,
): Promise<{ readonly exitCode: number; readonly said: readonly Said[] }> {
  const options = {
    cwd: directory,
    stdio: ['inherit', 'pipe', 'pipe'] as ['inherit', 'pipe', 'pipe'],
    ...(signal && { signal }),
  }
  const child =
    typeof cmd === 'string' ? spawn(cmd, { ...options, shell: true }) : spawn(cmd[0]!, cmd.slice(1), options)
  const said: Said[] = []
  let bytes = 0
  const listen = (to: Said['to']) => (piece: Buffer) => {
    const each = { to, bytes: new Uint8Array(piece) }
    bytes += piece.length
    if (bytes <= saidBytesMax) said.push(each)
    onSaid?.(each)
  }
  child.stdout.on('data', listen('stdout'))
  child.stderr.on('data', listen('stderr'))
  return await new Promise((done, fail) => {
    child.on('error', (error) => {
      const what = `${typeof cmd === 'string' ? cmd : cmd.join(' ')} cannot be run: ${error.message}`
      fail(new RepriseError(signal?.aborted ? 'ABORTED' : 'INVALID_ARGUMENT', what, {}, error))
    })
    child.on('close', (code, killed) => done({ exitCode: code ?? 128 + signalNumber(killed), said }))
  })
}

function signalNumber(name: NodeJS.Signals | null): number {
  return { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 }[name as string] ?? 0
}
