// A recorder for the Vercel AI SDK: middleware that records every model call and returns recorded answers, including
// streams, when the program runs again, and tools that are effects. Calls are recognised by their content, not by their
// time: the nth call with the same content is the nth recorded one. A reader that disconnects does not stop a stream: it is
// read to its end and recorded, so nothing is generated or paid for twice.

import type { LanguageModelMiddleware, Tool, ToolExecutionOptions } from 'ai'
import { type Coordinate, timelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { type Effect, listEffects } from '../../core/history/effects.ts'
import { ownerOf } from '../../core/history/inheritance.ts'
import { checkOptions, checkValues, namesOf } from '../../core/options.ts'
import type { Effects } from '../../engine/history/effects.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Entity, type Fold, type OpenOptions, opens } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { recorderKind } from './model.ts'

type Wrap<K extends 'wrapGenerate' | 'wrapStream'> = NonNullable<LanguageModelMiddleware[K]>
type GenerateResult = Awaited<ReturnType<Wrap<'wrapGenerate'>>>
type StreamResult = Awaited<ReturnType<Wrap<'wrapStream'>>>
type StreamPart = StreamResult['stream'] extends ReadableStream<infer Part> ? Part : never

/** Undoes a call. `key` is the same for every attempt. */
export type CompensateCall = (
  input: never,
  output: never,
  context: { readonly key: string },
) => Promise<unknown> | unknown

/** How a tool can be undone, and its handling if a crash left the outcome unknown. */
export type EffectTool = {
  /** For an unknown outcome after a crash. Default: 'hold', and 'retry' for read-only and idempotent tools. */
  readonly inDoubt?: 'retry' | 'hold'
} & (
  | { readonly kind: 'compensatable'; readonly compensate: CompensateCall }
  | { readonly kind: 'idempotent'; readonly compensate?: CompensateCall }
  | { readonly kind: 'read-only' | 'irreversible'; readonly compensate?: never }
)

export interface RecorderOptions {
  /** A call that is similar to a recorded one: refuse it (a person decides), or make it. Default: 'conflict'. */
  readonly similarCalls?: 'conflict' | 'new'
}

const known = namesOf<RecorderOptions>()('similarCalls')

interface RunState {
  readonly calls: number
  /** Number of rollbacks: after each, the program repeats its calls of models and tools. */
  readonly rollbacks?: number
  /** A rollback was started and is not finished. */
  readonly isRollingBack?: boolean
}

const fold: Fold<RunState> = {
  version: 'ai-sdk 1',
  initial: () => ({ calls: 0 }),
  apply(state, { type }) {
    if (type === 'rollback.asked') return { ...state, isRollingBack: true }
    if (type !== 'rolled-back') return state
    return { ...state, rollbacks: (state.rollbacks ?? 0) + 1, isRollingBack: false }
  },
  checkpoint: { every: 200 },
}

/** Defines recorded runs. @example const recorder = await rp.open(record('chat'), 'conversation-7') */
export function record(name: string, options: RecorderOptions = {}): Entity<Recorder, string> {
  const prefix = `ai-sdk/${checkName('recorder', name)}/`
  checkOptions(`recorder ${name}`, options, known)
  checkValues(`recorder ${name}`, options, { similarCalls: ['conflict', 'new'] })
  return {
    name,
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      if (id === undefined) throw new RepriseError('INVALID_ARGUMENT', `open(${name}, id): the id is missing`)
      engine.declare({ ...recorderKind, name, scope: prefix, fold: fold as Fold<unknown> })
      return new Recorder(engine, id, await engine.openTimeline(timelineId(prefix + id), fold, open), options)
    },
  }
}

export class Recorder {
  readonly id: string
  readonly #engine: Host
  readonly #open: OpenTimeline<RunState>
  readonly #options: RecorderOptions
  readonly #counts = new Map<string, number>()
  /** Effects of an earlier run of the program, or not undone by a rollback, that were not requested again yet. */
  #unclaimed: Map<string, Effect>
  readonly #tools = new Map<string, EffectTool>()
  readonly #underWay = new Set<Promise<unknown>>()

  /** @internal Opened by the engine: `rp.open(record(…), id)`. */
  constructor(engine: Host, id: string, open: OpenTimeline<RunState>, options: RecorderOptions) {
    this.id = id
    this.#engine = engine
    this.#open = open
    this.#options = options
    this.#unclaimed = this.#standing()
  }

  get timeline(): string {
    return this.#open.id
  }

  get coordinate(): Coordinate {
    return this.#open.coordinate
  }

  get effects(): Effects {
    return this.#open.effects
  }

  /** @example wrapLanguageModel({ model, middleware: recorder.middleware }) */
  get middleware(): LanguageModelMiddleware {
    return {
      specificationVersion: 'v3',
      wrapGenerate: async ({ doGenerate, params, model }) => {
        const id = this.#identify('generate', [model.provider, model.modelId, requestOf(params)])
        return await this.#open.effects.run(`model ${model.modelId}`, async () => keepable(await doGenerate()), { id })
      },
      wrapStream: async ({ doStream, params, model }) => {
        const id = this.#identify('stream', [model.provider, model.modelId, requestOf(params)])
        const known = this.#open.effects.get(id)
        if (known?.outcome === 'done') return { stream: streamOf(known.result as StreamPart[]) }
        return await this.#stream(id, `model ${model.modelId}`, doStream)
      },
    }
  }

  /** Wraps tools as effects: done once for the same input, with an idempotency key, undone by `undo`. */
  tools<T extends Record<string, Tool>>(tools: T, kinds: { readonly [K in keyof T]: EffectTool }): T {
    const wrapped = Object.entries(tools).map(([name, tool]) => {
      const kind = kinds[name]
      const { execute } = tool
      if (!execute || !kind) return [name, tool]
      checkKind(name, kind)
      this.#tools.set(name, kind)
      return [
        name,
        {
          ...tool,
          execute: (input: unknown, options: ToolExecutionOptions) => this.#call(name, kind, execute, input, options),
        },
      ]
    })
    return Object.fromEntries(wrapped) as T
  }

  /**
   * Undoes the tools' effects, last first; returns which were undone and which could not be. Afterwards the program starts
   * over: models and tools are called again, except for calls that could not be undone: those return their recorded result.
   * If it is interrupted, or a compensation fails, every other call is refused until `undo` is called again.
   */
  async undo(): Promise<{ readonly undone: readonly string[]; readonly cannot: readonly string[] }> {
    await this.settle()
    if (!this.#open.state.isRollingBack) await this.#open.write([{ type: 'rollback.asked', data: null }])
    const undone: string[] = []
    const cannot: string[] = []
    for (const effect of [...this.#standing().values()].sort((a, b) => b.endedSeq! - a.endedSeq!)) {
      const kind = this.#tools.get(effect.name.slice(5))
      // Effects of the fork's original are the original's to undo.
      if (kind?.kind === 'read-only' || ownerOf(this.#open.inherited, effect.intendedSeq) !== null) continue
      const undo = kind?.compensate as
        | ((input: unknown, output: unknown, context: { key: string }) => unknown)
        | undefined
      if (!undo) {
        cannot.push(effect.id)
        continue
      }
      await this.#open.effects.compensate(effect.id, (each, key) => undo(each.input, each.result, { key }))
      undone.push(effect.id)
    }
    await this.#open.write([{ type: 'rolled-back', data: null }])
    this.#counts.clear()
    this.#unclaimed = this.#standing()
    return { undone, cannot }
  }

  /** Waits for streams whose readers disconnected. */
  async settle(): Promise<void> {
    await Promise.allSettled([...this.#underWay])
  }

  async close(): Promise<void> {
    await this.settle()
    await this.#open.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #call(
    name: string,
    kind: EffectTool,
    execute: NonNullable<Tool['execute']>,
    input: unknown,
    options: ToolExecutionOptions,
  ): Promise<unknown> {
    const id = this.#identify(`tool ${name}`, input)
    const retries =
      (kind.inDoubt ?? (kind.kind === 'read-only' || kind.kind === 'idempotent' ? 'retry' : 'hold')) === 'retry'
    if (!this.#unclaimed.delete(id)) {
      const standing = kind.kind === 'read-only' ? undefined : this.#claimStanding(id)
      if (standing) return standing.result
      this.#checkSimilar(name, kind, id)
    }
    return await this.#open.effects.run(
      `tool ${name}`,
      async ({ key }) =>
        plain(
          await execute(input, { ...options, experimental_context: { ...contextOf(options), idempotencyKey: key } }),
        ),
      {
        id,
        input: plain(input),
        reversal: kind.compensate ? 'compensate' : kind.kind === 'irreversible' ? 'irreversible' : 'none',
        inDoubt: retries ? 'retry' : 'hold',
      },
    )
  }

  /** Tool calls that were made and not undone. */
  #standing(): Map<string, Effect> {
    const done = listEffects(this.#open.ledger).filter(
      ({ name, outcome, state }) => outcome === 'done' && state !== 'compensated' && name.startsWith('tool '),
    )
    return new Map(done.map((effect) => [effect.id, effect]))
  }

  /** A call from before a rollback that could not undo it: it is not repeated. */
  #claimStanding(id: string): Effect | undefined {
    for (const [key, effect] of this.#unclaimed) {
      if (isOfThisRun(key, this.#open.state) || contentOf(key) !== contentOf(id)) continue
      this.#unclaimed.delete(key)
      return effect
    }
    return undefined
  }

  /** Prevents a silent second charge: this tool has a recorded call with other input that this run did not request. */
  #checkSimilar(name: string, kind: EffectTool, id: string): void {
    if (kind.kind === 'read-only' || this.#options.similarCalls === 'new' || this.#open.effects.get(id)) return
    for (const effect of this.#unclaimed.values()) {
      if (effect.name !== `tool ${name}` || effect.outcome !== 'done') continue
      throw new RepriseError('CONFLICT', `${name} was already called with other input; the first call is kept`, {
        tool: name,
        recorded: { id: effect.id, input: effect.input, result: effect.result },
      })
    }
  }

  async #stream(id: string, name: string, doStream: () => PromiseLike<StreamResult>): Promise<StreamResult> {
    let started: (result: StreamResult) => void = () => undefined
    let refused: (error: unknown) => void = () => undefined
    const first = new Promise<StreamResult>((resolve, reject) => {
      started = resolve
      refused = reject
    })
    const whole = this.#open.effects.run(
      name,
      async () => {
        const { stream, ...rest } = await doStream()
        const pipe = makePipe()
        started({ ...rest, stream: pipe.stream })
        return await drain(stream, pipe)
      },
      { id },
    )
    this.#underWay.add(whole)
    whole.catch(refused).finally(() => this.#underWay.delete(whole))
    return await first
  }

  /** The id of the nth call with this content since the last rollback. */
  #identify(kind: string, content: unknown): string {
    const { isRollingBack, rollbacks = 0 } = this.#open.state
    if (isRollingBack) {
      throw new RepriseError('CONFLICT', `${this.#open.id}: an undo was interrupted; call undo() again to finish it`)
    }
    const { codec, hash } = this.#engine
    const digest = toHex(hash(codec.encode([kind, plain(content)]))).slice(0, 32)
    const count = this.#counts.get(digest) ?? 0
    this.#counts.set(digest, count + 1)
    return `${rollbacks > 0 ? `${rollbacks}~` : ''}${kind} ${digest} ${count}`
  }
}

const knownKind = namesOf<EffectTool>()('kind compensate inDoubt')

/** Repeats the compiler's checks, for programs without type checking. */
function checkKind(name: string, given: EffectTool): void {
  checkOptions(`tool ${name}`, given, knownKind)
  const { kind }: { readonly kind: string } = given
  const hasUndo = typeof given.compensate === 'function'
  const why =
    kind === 'compensatable' && !hasUndo
      ? 'a compensatable tool must have a compensation'
      : hasUndo && (kind === 'irreversible' || kind === 'read-only')
        ? `a tool that is ${kind} has nothing to compensate`
        : null
  if (why) throw new RepriseError('INVALID_ARGUMENT', `tool ${name}: ${why}`, { tool: name })
}

function isOfThisRun(id: string, { rollbacks = 0 }: RunState): boolean {
  return (/^(\d+)~/.exec(id)?.[1] ?? '0') === String(rollbacks)
}

/** The content of a call: its id without the rollbacks before it and the number after it. */
function contentOf(id: string): string {
  return id.replace(/^\d+~/, '').replace(/ \d+$/, '')
}

interface Pipe {
  readonly stream: ReadableStream<StreamPart>
  put(part: StreamPart): void
  end(error?: unknown): void
}

function makePipe(): Pipe {
  let controller: ReadableStreamDefaultController<StreamPart> | null = null
  const stream = new ReadableStream<StreamPart>({
    start: (made) => {
      controller = made
    },
    cancel: () => {
      controller = null
    },
  })
  return {
    stream,
    put: (part) => controller?.enqueue(part),
    end: (error) => (error === undefined ? controller?.close() : controller?.error(error)),
  }
}

/** Reads to the end, whether or not the pipe still has a reader. An error part is a failure: it is not replayed. */
async function drain(stream: ReadableStream<StreamPart>, pipe: Pipe): Promise<StreamPart[]> {
  const parts: StreamPart[] = []
  let failure: unknown = null
  try {
    for await (const part of stream as unknown as AsyncIterable<StreamPart>) {
      parts.push(part)
      pipe.put(part)
      if (part.type === 'error') failure = part.error
    }
  } catch (error) {
    pipe.end(error)
    throw error
  }
  pipe.end()
  if (failure !== null) throw failure instanceof Error ? failure : new Error(String(failure))
  return plain(parts) as StreamPart[]
}

function streamOf(parts: readonly StreamPart[]): ReadableStream<StreamPart> {
  return new ReadableStream<StreamPart>({
    start(controller) {
      for (const part of parts) controller.enqueue(part)
      controller.close()
    },
  })
}

/** The parameters of a call, without those that differ from run to run. */
function requestOf(params: object): unknown {
  const { abortSignal: _signal, headers: _headers, ...rest } = params as Record<string, unknown>
  return rest
}

/** Drops the raw request and response: they are large, and repeat the content. */
function keepable(result: GenerateResult): GenerateResult {
  const { request: _request, response, ...rest } = result
  const { headers: _headers, body: _body, ...about } = response ?? {}
  return plain({ ...rest, ...(response && { response: about }) }) as GenerateResult
}

/** Plain data: no functions, no prototypes, no undefined fields. */
function plain(value: unknown): unknown {
  if (typeof value === 'function' || typeof value === 'symbol') return undefined
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Date || value instanceof Uint8Array || value instanceof Map || value instanceof Set) return value
  if (value instanceof URL) return value.href
  if (Array.isArray(value)) return value.map(plain)
  const entries = Object.entries(value).flatMap(([key, item]) => {
    const made = plain(item)
    return made === undefined ? [] : [[key, made] as const]
  })
  return Object.fromEntries(entries)
}

function contextOf(options: ToolExecutionOptions): object {
  const context: unknown = options.experimental_context
  return typeof context === 'object' && context !== null ? context : {}
}
