// A recorder for the Vercel AI SDK: middleware that puts every model call on record and gives recorded answers when the
// program runs again, streams included, and tools that are effects. Calls are recognised by what is asked, not by when:
// the nth call with the same content is the nth on record. A reader that goes away does not stop a stream: it is
// read to its end and recorded, so nothing is generated or paid for twice.

import type { LanguageModelMiddleware, Tool, ToolExecutionOptions } from 'ai'
import { timelineId, toHex } from '../../core/coordinate.ts'
import { type Effect, listEffects } from '../../core/effects.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkName, type Entity, type Fold, type OpenOptions, opens } from '../../engine/definition.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { recorderKind } from './model.ts'

type Wrap<K extends 'wrapGenerate' | 'wrapStream'> = NonNullable<LanguageModelMiddleware[K]>
type GenerateResult = Awaited<ReturnType<Wrap<'wrapGenerate'>>>
type StreamResult = Awaited<ReturnType<Wrap<'wrapStream'>>>
type StreamPart = StreamResult['stream'] extends ReadableStream<infer Part> ? Part : never

/** How a tool can be undone, and what to do when a program that runs again asks for something slightly different. */
export interface EffectTool {
  readonly kind: 'read-only' | 'idempotent' | 'compensatable' | 'irreversible'
  compensate?(input: never, output: never, context: { readonly key: string }): Promise<unknown> | unknown
  /** When a crash left the outcome unknown; 'hold' unless read-only or idempotent. */
  readonly inDoubt?: 'retry' | 'hold'
}

export interface RecorderOptions {
  /** A call that is almost one on record: refuse it (a person decides), or make it. 'conflict' if left out. */
  readonly similarCalls?: 'conflict' | 'new'
}

const fold: Fold<{ calls: number }> = {
  version: 'ai-sdk 1',
  initial: () => ({ calls: 0 }),
  apply: (state) => state,
  checkpoint: { every: 200 },
}

/** A definition of recorded runs. @example const recorder = await rp.open(record('chat'), 'conversation-7') */
export function record(name: string, options: RecorderOptions = {}): Entity<Recorder> {
  const prefix = `ai-sdk/${checkName('recorder', name)}/`
  return {
    name,
    async [opens](engine: Reprise, id: string | undefined, open: OpenOptions) {
      if (id === undefined) throw new RepriseError('INVALID_ARGUMENT', `open(${name}, id): the id is missing`)
      engine.declare({ ...recorderKind, name, scope: prefix, fold: fold as Fold<unknown> })
      return new Recorder(engine, await engine.openTimeline(timelineId(prefix + id), fold, open), options)
    },
  }
}

export class Recorder {
  readonly #engine: Reprise
  readonly #open: OpenTimeline<{ calls: number }>
  readonly #options: RecorderOptions
  readonly #counts = new Map<string, number>()
  /** Done by an earlier run of the program, and not asked for again yet. */
  readonly #unclaimed: Map<string, Effect>
  readonly #tools = new Map<string, EffectTool>()
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(engine: Reprise, open: OpenTimeline<{ calls: number }>, options: RecorderOptions) {
    this.#engine = engine
    this.#open = open
    this.#options = options
    const done = listEffects(open.ledger).filter(
      (effect) => effect.outcome === 'done' && effect.name.startsWith('tool '),
    )
    this.#unclaimed = new Map(done.map((effect) => [effect.id, effect]))
  }

  get effects(): readonly Effect[] {
    return this.#open.effects.list()
  }

  /** @example wrapLanguageModel({ model, middleware: recorder.middleware }) */
  get middleware(): LanguageModelMiddleware {
    return {
      specificationVersion: 'v3',
      wrapGenerate: async ({ doGenerate, params, model }) => {
        const id = this.#identify('generate', [model.provider, model.modelId, asked(params)])
        return await this.#open.effects.run(`model ${model.modelId}`, async () => keepable(await doGenerate()), { id })
      },
      wrapStream: async ({ doStream, params, model }) => {
        const id = this.#identify('stream', [model.provider, model.modelId, asked(params)])
        const known = this.#open.effects.get(id)
        if (known?.outcome === 'done') return { stream: streamOf(known.result as StreamPart[]) }
        return await this.#stream(id, `model ${model.modelId}`, doStream)
      },
    }
  }

  /** A set of tools as effects: done once for the same input, with a key for the outside, undone by `rollback`. */
  tools<T extends Record<string, Tool>>(tools: T, kinds: { readonly [K in keyof T]: EffectTool }): T {
    const wrapped = Object.entries(tools).map(([name, tool]) => {
      const kind = kinds[name]
      const { execute } = tool
      if (!execute || !kind) return [name, tool]
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

  /** Undoes the tools' effects, last first; says what it undid and what it could not. */
  async rollback(): Promise<{ readonly undone: readonly string[]; readonly cannot: readonly string[] }> {
    await this.settle()
    const done = this.effects.filter((effect) => effect.outcome === 'done' && effect.name.startsWith('tool '))
    const undone: string[] = []
    const cannot: string[] = []
    for (const effect of [...done].sort((a, b) => b.endedSeq! - a.endedSeq!)) {
      const kind = this.#tools.get(effect.name.slice(5))
      if (kind?.kind === 'read-only') continue
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
    return { undone, cannot }
  }

  /** Waits for streams whose readers went away. */
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
    if (!this.#unclaimed.delete(id)) this.#checkSimilar(name, kind, id)
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

  /** Never a second charge in silence: a call of this tool is on record, was not asked for in this run, and differs. */
  #checkSimilar(name: string, kind: EffectTool, id: string): void {
    if (kind.kind === 'read-only' || this.#options.similarCalls === 'new' || this.#open.effects.get(id)) return
    for (const effect of this.#unclaimed.values()) {
      if (effect.name !== `tool ${name}` || effect.outcome !== 'done') continue
      throw new RepriseError('CONFLICT', `${name} was already called with other input, and that call stands`, {
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

  /** The nth call with this content. */
  #identify(kind: string, content: unknown): string {
    const { codec, hash } = this.#engine.kernel
    const digest = toHex(hash(codec.encode([kind, plain(content)]))).slice(0, 32)
    const count = this.#counts.get(digest) ?? 0
    this.#counts.set(digest, count + 1)
    return `${kind} ${digest} ${count}`
  }
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

/** To the end, whether or not somebody still reads the pipe. An error part is a failure: it is not replayed. */
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

/** What was asked, without what differs from run to run. */
function asked(params: object): unknown {
  const { abortSignal: _signal, headers: _headers, ...rest } = params as Record<string, unknown>
  return rest
}

/** Without the raw request and response: they are large, and hold what is in the content already. */
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
