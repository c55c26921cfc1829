// RepriseSaver: a checkpoint saver for LangGraph.js. Each thread is one timeline; a put writes only the changed channels: only
// the added items of a list that grew, and nothing for a text that is already stored. It works on every store, also
// with several processes on one thread.

import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
  type SerializerProtocol,
  WRITES_IDX_MAP,
} from '@langchain/langgraph-checkpoint'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import { checkFirstSegment } from '../../engine/model/id-prefixes.ts'
import { packId, type ThreadState, threadFold } from './fold.ts'
import { threadKind } from './model.ts'
import { packChannel } from './names.ts'
import { Portable } from './portable.ts'
import { type PruneOptions, planPrune } from './prune.ts'
import { prepareCheckpoint } from './put.ts'
import { exact, type Found, newest, type Query, select } from './select.ts'
import { Threads } from './threads.ts'
import { type Taken, TupleMaker, takeTuples } from './tuple.ts'

/** Identifies a checkpoint; the part of LangChain's RunnableConfig that a saver reads. */
export interface Config {
  readonly configurable?: Readonly<Record<string, unknown>>
}

export interface RepriseSaverOptions {
  /** First segment of the timelines' ids. Default: 'langgraph'. */
  readonly name?: string
  /** A custom serializer for values. The default one keeps Date, BigInt, NaN, Map, Set and bytes, and stores less. */
  readonly serde?: SerializerProtocol
  /** Threads that were not written for this long are hidden from readers, and `expire` removes them. */
  readonly ttl?: Duration
  /** Number of threads that this process keeps open. Default: 100. */
  readonly openThreadsMax?: number
}

const known = namesOf<RepriseSaverOptions>()('name serde ttl openThreadsMax')

/** Number of tuples that a list reads from the state at once. */
const pageSize = 32

/** @example const graph = builder.compile({ checkpointer: new RepriseSaver(await open()) }) */
export class RepriseSaver extends BaseCheckpointSaver {
  readonly #engine: Host
  readonly #threads: Threads
  readonly #portable: Portable
  readonly #tuples: TupleMaker
  readonly #customSerde: SerializerProtocol | null
  readonly #ttlMs: number | null

  constructor(rp: Engine, options: RepriseSaverOptions = {}) {
    super(options.serde)
    checkOptions('saver', options, known)
    const engine = hostOf(rp)
    const { hash, limits } = engine
    const name = checkFirstSegment('saver', options.name ?? 'langgraph', 'langgraph')
    const prefix = `${name}/`
    this.#engine = engine
    this.#customSerde = options.serde ?? null
    this.#ttlMs = options.ttl === undefined ? null : toMs(options.ttl, 'ttl')
    this.#portable = new Portable(hash, limits)
    this.#threads = new Threads(engine, prefix, this.#portable, options.openThreadsMax ?? 100)
    this.#tuples = new TupleMaker(this.#portable, this.#customSerde, (current) => this.getNextVersion(current))
    engine.declare({ ...threadKind, name, scope: prefix, fold: threadFold as Fold<unknown> })
  }

  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const { threadId, ns = '', id } = read(config)
    if (threadId === undefined || (await this.#isExpired(threadId))) return undefined
    return await this.#threads.use(threadId, async (thread) => {
      const taken = await thread.look((state) => {
        const found = id === undefined ? newest(state, ns) : exact(state, ns, id)
        return found ? takeTuples(thread, state, [found], this.#portable) : []
      })
      // A caller that reads one tuple continues from it: the next put recognises these objects.
      return taken?.[0] && (await this.#tuples.make(threadId, taken[0], thread.lists))
    })
  }

  override async *list(config: Config, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { threadId, ns, id } = read(config)
    const before = options.before === undefined ? undefined : read(options.before as Config).id
    const filter = Object.entries(options.filter ?? {}).map(
      ([key, value]) => [key, this.#portable.encode(value).bytes] as const,
    )
    const threads = threadId === undefined ? this.#threads.all() : [threadId]
    let left = options.limit ?? Number.POSITIVE_INFINITY
    for await (const each of threads) {
      if (left <= 0) return
      if (await this.#isExpired(each)) continue
      for await (const tuple of this.#listThread(each, { ns, id, before, filter }, left)) {
        left -= 1
        yield tuple
      }
    }
  }

  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<{ configurable: { thread_id: string; checkpoint_ns: string; checkpoint_id: string } }> {
    const { threadId, ns = '', id: parent = null } = read(config)
    if (threadId === undefined) throw missing('put a checkpoint', 'thread_id')
    checkId(checkpoint.id, 'checkpoint.id')
    const serialized = await this.#serialize(Object.entries(checkpoint.channel_values))
    await this.#threads.use(threadId, (thread) =>
      thread.write((state) =>
        prepareCheckpoint(
          { state, ns, parent, checkpoint, metadata, newVersions, serialized },
          this.#portable,
          thread.lists,
          thread.leaves,
        ),
      ),
    )
    return { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpoint.id } }
  }

  override async putWrites(config: Config, writes: PendingWrite[], taskId: string): Promise<void> {
    const { threadId, ns = '', id } = read(config)
    if (threadId === undefined) throw missing('put writes', 'thread_id')
    if (id === undefined) throw missing('put writes', 'checkpoint_id')
    checkId(taskId, 'taskId')
    if (writes.length === 0) return
    const serialized = await this.#serialize(writes.map(([, value], i) => [String(i), value]))
    const encoded = writes.map(([channel, value], i) => {
      const [type, bytes] = serialized?.get(String(i)) ?? [undefined, undefined]
      const made = bytes ? { bytes, leaves: new Map() } : this.#portable.encode(value)
      return { index: WRITES_IDX_MAP[channel] ?? i, channel, type, ...made }
    })
    await this.#threads.use(threadId, (thread) =>
      thread.write((state) => {
        const leaves = thread.leaves.draft(state.leaves)
        const rows = encoded.map(({ index, channel, type, ...one }) => {
          const row = [index, packChannel(channel), leaves.pack(one)]
          return type === undefined ? row : [...row, type]
        })
        const data = [ns, packId(id), packId(taskId), rows, leaves.brought]
        return { entry: { type: 'writes', data }, done: ({ first }) => thread.leaves.written(leaves, first) }
      }),
    )
  }

  override async deleteThread(threadId: string): Promise<void> {
    checkId(threadId, 'thread_id')
    await this.#threads.use(threadId, (thread) => thread.remove())
  }

  /** Keeps the newest checkpoints of each namespace of a thread and everything they need; frees the space of the rest. */
  async prune(threadId: string, options: PruneOptions = {}): Promise<{ readonly checkpoints: number }> {
    checkId(threadId, 'thread_id')
    return await this.#threads.use(threadId, async (thread) => {
      if ((await thread.read()) === null) return { checkpoints: 0 }
      const removed = await thread.writeAlone((state) => {
        const data = planPrune(state, options)
        const isNothing = data.every((part) => part.length === 0)
        return { entry: isNothing ? null : { type: 'pruned', data }, done: () => data[0].length }
      })
      if (removed > 0) await thread.settle()
      return { checkpoints: removed }
    })
  }

  /** Removes the threads that outlived the `ttl`; returns their number. */
  async expire(): Promise<number> {
    if (this.#ttlMs === null) return 0
    let removed = 0
    for await (const threadId of this.#threads.all(this.#engine.now() - this.#ttlMs)) {
      await this.deleteThread(threadId)
      removed += 1
    }
    return removed
  }

  /** Closes the threads that this saver holds open. The engine stays open. */
  async end(): Promise<void> {
    await this.#threads.close()
  }

  async #isExpired(threadId: string): Promise<boolean> {
    if (this.#ttlMs === null) return false
    const head = await this.#threads.head(threadId)
    return head !== null && head.updatedAt < this.#engine.now() - this.#ttlMs
  }

  async #serialize(values: readonly (readonly [string, unknown])[]): Promise<Map<string, [string, Uint8Array]> | null> {
    const serde = this.#customSerde
    if (!serde) return null
    return new Map(await Promise.all(values.map(async ([key, value]) => [key, await serde.dumpsTyped(value)] as const)))
  }

  /** Lists in pages: a page is read from the state at once, and only its tuples are made. */
  async *#listThread(threadId: string, query: Query, limit: number): AsyncGenerator<CheckpointTuple> {
    let below: Found | null = null
    for (let left = limit; left > 0; ) {
      const wanted = Math.min(left, pageSize)
      const page: readonly Taken[] = await this.#threads.use(threadId, async (thread) => {
        const view = (state: ThreadState) =>
          takeTuples(thread, state, select(state, query, wanted, below), this.#portable)
        return (await thread.look(view)) ?? []
      })
      for (const taken of page) yield await this.#tuples.make(threadId, taken, null)
      if (page.length < wanted) return
      left -= page.length
      below = page[page.length - 1]!.found
    }
  }
}

function read(config: Config): { threadId?: string; ns?: string; id?: string } {
  const { thread_id, checkpoint_ns, checkpoint_id, thread_ts } = config.configurable ?? {}
  const id = checkpoint_id || thread_ts
  return {
    ...(thread_id !== undefined && { threadId: checkId(thread_id, 'thread_id') }),
    ...(checkpoint_ns !== undefined && { ns: checkText(checkpoint_ns, 'checkpoint_ns') }),
    ...(id !== undefined && id !== '' && { id: checkId(id, 'checkpoint_id') }),
  }
}

function checkId(value: unknown, what: string): string {
  const text = checkText(value, what)
  if (text === '') throw new RepriseError('INVALID_ARGUMENT', `${what} must not be empty`)
  return text
}

function checkText(value: unknown, what: string): string {
  if (typeof value === 'string' && !value.includes('\0')) return value
  throw new RepriseError('INVALID_ARGUMENT', `${what} must be text without NUL`, { what })
}

function missing(act: string, field: string): RepriseError {
  return new RepriseError(
    'INVALID_ARGUMENT',
    `to ${act}, configurable.${field} is required: { configurable: { ${field} } }`,
  )
}
