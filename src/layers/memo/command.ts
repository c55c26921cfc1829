// Caches commands: their output files and printed output, keyed by a digest of the command, its declared files and variables.
// A hit restores the outputs and prints the output again; the command itself does not run.

import { resolve } from 'node:path'
import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Entity, type OpenOptions, opens } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { readStream } from '../../engine/writing/stored-value.ts'
import { type CommandCheck, checkHermetic } from './check.ts'
import { type CommandOptions, checkCommand } from './command-options.ts'
import { type HeldDirectory, inDirectory } from './directory-lock.ts'
import { damage, type Envelope, type Provenance, type Remembered } from './entry.ts'
import { execute, type OutputPiece } from './execute.ts'
import type { Explanation } from './explain.ts'
import { InputFiles } from './input-files.ts'
import { isSteady, type Key, keyOf, toolPart } from './key.ts'
import { Remembering } from './memo-entries.ts'
import { memoModel } from './model.ts'
import { isOutput, outputsNow, whyNotKept } from './output-rules.ts'
import {
  CapturedOutputs,
  clearLeftovers,
  type OutputFile,
  restoreOutputs,
  type SetAside,
  setOutputsAside,
} from './outputs.ts'
import { toolDigest } from './path-programs.ts'
import type { Frame } from './transfer-format.ts'

export interface CommandDefinition extends Entity<CommandHandle, undefined>, Described {
  readonly kind: 'memo'
  readonly name: string
  readonly prefix: string
  readonly options: CommandOptions
}

/**
 * @example
 * const build = command('build', { cmd: 'npm run build', inputs: ['src/**', 'package.json'], outputs: ['dist/**'],
 * env: ['NODE_ENV'] })
 * const { exitCode, from } = await (await rp.open(build)).run()
 */
export function command(name: string, options: CommandOptions): CommandDefinition {
  checkName('command', name)
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
      const kept = engine.once(this, (): { handle?: CommandHandle } => ({}))
      if (!kept.handle || kept.handle.isClosed) kept.handle = new CommandHandle(engine, name, options)
      return kept.handle
    },
  }
}

export interface CommandResult {
  readonly exitCode: number
  /** `remote`: found in another level of the cache. */
  readonly from: 'store' | 'remote' | 'computed'
  /** The pieces that the command printed, in order. */
  readonly output: readonly OutputPiece[]
  readonly outputs: readonly string[]
  /** The outputs were already in place and identical. */
  readonly isInPlace: boolean
  /** The reason why nothing was stored; null if the result was stored. */
  readonly notKept: string | null
  /** Input patterns that no file matches. */
  readonly unmatched: readonly string[]
  readonly provenance: Provenance
}

export interface CommandRunOptions {
  readonly signal?: AbortSignal
  /** Runs the command even if a result is stored. */
  readonly refresh?: boolean
  /** Called for each piece of output, also when a hit prints it again. */
  readonly onOutput?: (piece: OutputPiece) => void
}

const knownRun = namesOf<CommandRunOptions>()('signal refresh onOutput')

/** A result whose outputs may still have to be restored. */
interface Obtained {
  readonly remembered: Remembered
  readonly from: CommandResult['from']
  readonly notKept: string | null
  /** The reason for the miss. */
  readonly why?: ReturnType<Remembering['whyMissed']>
}

interface CommandValue {
  readonly exitCode: number
  /** The output. The name is part of the stored format. */
  readonly said: readonly OutputPiece[]
  readonly files: readonly OutputFile[]
}

export class CommandHandle {
  readonly name: string
  readonly #options: CommandOptions
  readonly #directory: string
  readonly #remembering: Remembering

  /** @internal */
  constructor(host: Host, name: string, options: CommandOptions) {
    this.name = name
    this.#options = options
    this.#directory = resolve(options.directory ?? '.')
    const isFailure = ({ outcome }: Envelope) =>
      outcome.kind === 'value' && (outcome.value as CommandValue).exitCode !== 0
    const isFit = (frame: Frame) => isResultOf(options, frame)
    this.#remembering = new Remembering(host, `command ${name}`, name, options, isFailure, isFit)
  }

  /** Returns the result: restored, or computed now and stored. A failure is a result as well, with its exit code. */
  async run(options: CommandRunOptions = {}): Promise<CommandResult> {
    this.#remembering.check()
    checkOptions(`command ${this.name}`, options, knownRun)
    const digests = await this.#look()
    try {
      return await this.#run(await this.#key(digests), digests, options)
    } finally {
      await digests.save()
    }
  }

  /** Reports hit or miss, and the part of the key that changed since last time. Runs nothing. */
  async explain(): Promise<Explanation> {
    this.#remembering.check()
    const digests = await this.#look()
    const key = await this.#key(digests)
    await digests.save()
    return await this.#remembering.explain(key)
  }

  /** Runs the command several times, and reports undeclared inputs. */
  check(options: { readonly signal?: AbortSignal } = {}): Promise<CommandCheck> {
    this.#remembering.check()
    return checkHermetic(this.#options, options.signal)
  }

  /** Removes the stored result. True: there was one. */
  async forget(): Promise<boolean> {
    this.#remembering.check()
    return await this.#remembering.forget(await this.#key(await this.#look()))
  }

  /** Waits for commands in progress. */
  close(): Promise<void> {
    return this.#remembering.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get isClosed(): boolean {
    return this.#remembering.isClosed
  }

  /** The name of the definition. */
  get id(): string {
    return this.name
  }

  get #kernel() {
    return this.#remembering.host.kernel
  }

  /** An entry found to be damaged during the restore is a miss: and none of its files is put in place. */
  async #run(key: Key, digests: InputFiles, options: CommandRunOptions): Promise<CommandResult> {
    for (const how of ['found', 'joined', 'anew'] as const) {
      try {
        return await this.#given(await this.#obtain(how, key, digests, options), digests, options)
      } catch (error) {
        if (how === 'anew' || !isReprise(error, ...damage)) throw error
        this.#remembering.problem(error)
        this.#remembering.unfit(key, 'the stored result is damaged')
      }
    }
    throw new RepriseError('CHECKPOINT_DAMAGED', `command ${this.name}: its outputs cannot be restored`)
  }

  /** `joined`: waits for a computation in progress unless there is an intact entry. `anew`: ignores stored entries. */
  async #obtain(
    how: 'found' | 'joined' | 'anew',
    key: Key,
    digests: InputFiles,
    options: CommandRunOptions,
  ): Promise<Obtained> {
    const isFound = how === 'found' && !options.refresh
    const found = isFound ? await this.#remembering.find(key, { unverified: true }) : null
    if (found) return { remembered: found.remembered, from: 'store', notKept: null }
    const why = this.#remembering.whyMissed(key)
    let executed: { readonly notKept: string | null } | null = null
    const remembered = await this.#remembering
      .compute(key, how === 'anew' ? { ...options, refresh: true } : options, async (id, taken) => {
        const made = await this.#execute(id, taken, key, digests, options)
        executed = made
        return made.remembered
      })
      .catch((error) => {
        this.#remembering.recalled('failed', options, why)
        throw error
      })
    const own = executed as { readonly notKept: string | null } | null
    if (own) return { remembered, from: 'computed', notKept: own.notKept, why }
    return { remembered, from: remembered.envelope.origin ? 'remote' : 'store', notKept: null }
  }

  async #given(
    { remembered, from, notKept, why = null }: Obtained,
    digests: InputFiles,
    options: CommandRunOptions,
  ): Promise<CommandResult> {
    const { outcome, ...provenance } = remembered.envelope
    const { exitCode, said: output, files } = (outcome as { readonly value: CommandValue }).value
    // A failure has no outputs; the outputs of a result that could not be stored are still where the command wrote them.
    const isPut = from !== 'computed' && exitCode === 0 && remembered.record !== null
    const isInPlace = isPut
      ? await inDirectory(this.#remembering.host, this.#directory, options.signal, () => {
          clearLeftovers(this.#directory)
          return this.#restore(files, remembered, digests)
        })
      : from === 'computed'
    this.#remembering.used(remembered)
    this.#remembering.recalled(from, options, why)
    if (from !== 'computed') for (const each of output) options.onOutput?.(each)
    const outputs = files.map(({ path }) => path).sort()
    return { exitCode, from, output, outputs, isInPlace, notKept, unmatched: digests.unmatched, provenance }
  }

  /** True: all outputs were already in place. */
  async #restore(
    files: readonly OutputFile[],
    from: Pick<Remembered, 'stream' | 'envelope'>,
    digests: InputFiles,
  ): Promise<boolean> {
    const { outputs = [] } = this.#options
    const read = () => readStream(this.#kernel, from.stream)
    // Entries captured here were hashed then, and their chunks are checked on read; an entry from another store is not
    // trusted.
    const isHashed = from.envelope.origin !== undefined
    const artifact = { files, read, isHashed }
    return (await restoreOutputs(this.#directory, outputs, artifact, digests.here, this.#kernel.limits)).isInPlace
  }

  #look(): Promise<InputFiles> {
    return InputFiles.load(this.#kernel, this.#directory, this.#options.inputs)
  }

  async #key(digests: InputFiles): Promise<Key> {
    const { cmd, inputs, outputs = [], env = [], tools = [], version = '' } = this.#options
    const look = await digests.look(inputs)
    return keyOf(this.#kernel, {
      name: this.name,
      version: String(version),
      // A result built on one platform is not valid on another.
      args: { cmd, outputs, platform: process.platform, arch: process.arch },
      files: look,
      look: look.signature,
      env: Object.fromEntries([
        ...env.map((name) => [name, process.env[name]] as const),
        ...tools.map((name) => [`${toolPart}${name}`, toolDigest(name)] as const),
      ]),
    })
  }

  #execute(
    id: TimelineId,
    taken: StateTimeline,
    key: Key,
    digests: InputFiles,
    options: CommandRunOptions,
  ): Promise<{ readonly remembered: Remembered; readonly notKept: string | null }> {
    return inDirectory(this.#remembering.host, this.#directory, options.signal, (held) =>
      this.#executeAlone(held, id, taken, key, digests, options),
    )
  }

  async #executeAlone(
    held: HeldDirectory,
    id: TimelineId,
    taken: StateTimeline,
    key: Key,
    digests: InputFiles,
    options: CommandRunOptions,
  ): Promise<{ readonly remembered: Remembered; readonly notKept: string | null }> {
    const kernel = this.#kernel
    const { outputs = [], clean = false, errors } = this.#options
    const parts = await key.parts()
    clearLeftovers(this.#directory)
    const aside = clean ? await setOutputsAside(this.#directory, outputs, kernel.limits) : null
    const before = await outputsNow(this.#directory, outputs, kernel.limits)
    const started = kernel.clock.elapsed()
    let noted: Promise<unknown> = Promise.resolve()
    const onStarted = (group: number) => {
      noted = held.note(group).catch((error) => this.#remembering.problem(error))
    }
    const { exitCode, output, isTooLong, lacking } = await this.#executeBeside(aside, { ...options, onStarted })
    await noted
    const captured = new CapturedOutputs(this.#directory, exitCode === 0 ? outputs : [], kernel.limits)
    const by = await kernel.worker.register()
    const envelope = (): Envelope => ({
      parts,
      computedAt: kernel.clock.now(),
      tookMs: Math.round(kernel.clock.elapsed() - started),
      by,
      for: null,
      outcome: { kind: 'value', value: { exitCode, said: output, files: captured.files } satisfies CommandValue },
    })
    const notKept =
      exitCode !== 0
        ? errors === undefined
          ? `it ended with ${exitCode}`
          : null
        : isTooLong
          ? 'its output is larger than 16 MiB'
          : await whyNotKept(this.#directory, outputs, kernel.limits, { before, lacking, inputs: parts.files })
    if (notKept !== null) {
      return { remembered: { timeline: id, record: null, envelope: envelope(), stream: null }, notKept }
    }
    let problem: string | null = null
    const remembered = await this.#remembering.publish(key, taken, {
      id,
      envelope,
      source: { [Symbol.asyncIterator]: () => captured.stream() },
      isReadOnce: false,
      isSteady: async () => {
        await held.confirm()
        return isSteady(key, await this.#key(digests))
      },
      problem: (error) => {
        problem = (error as Error).message
        this.#remembering.problem(error)
      },
    })
    return { remembered, notKept: problem }
  }

  /** Outputs that were moved aside and not written again are restored: the program that wrote them may not write them again. */
  async #executeBeside(aside: SetAside | null, options: Parameters<typeof execute>[2]) {
    const { cmd, outputs = [] } = this.#options
    try {
      const executed = await execute(cmd, this.#directory, options)
      if (!aside || executed.exitCode !== 0) return { ...executed, lacking: [] }
      const now = await outputsNow(this.#directory, outputs, this.#kernel.limits)
      const lacking = aside.paths.filter((path) => !now.has(path))
      await aside.putBack(lacking)
      return { ...executed, lacking }
    } finally {
      await aside?.end()
    }
  }
}

/** The frame comes from another machine: every file must be a declared output, and the sizes must match the stream. */
function isResultOf({ outputs = [] }: CommandOptions, { envelope: { outcome }, streamBytes }: Frame): boolean {
  if (outcome.kind !== 'value') return false
  const { exitCode, said: output, files } = (outcome.value ?? {}) as Partial<CommandValue>
  if (exitCode !== 0 || !Array.isArray(output) || !Array.isArray(files)) return false
  const isOutputValid = output.every(
    ({ to, bytes }) => (to === 'stdout' || to === 'stderr') && bytes instanceof Uint8Array,
  )
  const areFiles = files.every(
    ({ path, mode, link, bytes, digest }: OutputFile) =>
      typeof path === 'string' &&
      isOutput(outputs, path) &&
      Number.isInteger(mode) &&
      (mode & ~0o777) === 0 &&
      (link === null || typeof link === 'string') &&
      Number.isSafeInteger(bytes) &&
      bytes >= 0 &&
      typeof digest === 'string',
  )
  return isOutputValid && areFiles && files.reduce((sum, { bytes }) => sum + bytes, 0) === (streamBytes ?? 0)
}
