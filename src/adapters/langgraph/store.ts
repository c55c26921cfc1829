// RepriseStore: the long-term memory of LangGraph.js graphs (BaseStore), shared by all threads. Each namespace is one
// timeline, so that users do not block each other; the puts of a batch to one namespace are one commit. It works on every
// store, also with several processes on one namespace. There is no vector index: a search uses a prefix and a filter.

import {
  BaseStore,
  type GetOperation,
  InvalidNamespaceError,
  type Item,
  type ListNamespacesOperation,
  type MatchCondition,
  type Operation,
  type OperationResults,
  type PutOperation,
  type SearchItem,
  type SearchOperation,
} from '@langchain/langgraph-checkpoint'
import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { type Keyed, keyed } from '../../core/keyed-state/keyed.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { SharedTimeline } from '../../engine/host/shared-timeline.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import { checkFirstSegment } from '../../engine/model/id-prefixes.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { isEqual } from '../../lib/differences.ts'
import { memoryKind } from './model.ts'
import { OpenHandles } from './open-handles.ts'

export interface RepriseStoreOptions {
  /** First segment of the timelines' ids. Default: 'langgraph-store'. */
  readonly name?: string
  /** Number of namespaces that this process keeps open. Default: 100. */
  readonly openNamespacesMax?: number
}

const known = namesOf<RepriseStoreOptions>()('name openNamespacesMax')

interface Stored {
  readonly value: Record<string, unknown>
  readonly createdAt: number
  readonly updatedAt: number
}

interface NamespaceState {
  readonly items: Keyed<Stored>
}

type Puts = readonly (readonly [key: string, value: Record<string, unknown> | null])[]

const fold: Fold<NamespaceState> = {
  version: 'langgraph-store 1',
  initial: () => ({ items: keyed() }),
  apply({ items }, { data, time }) {
    for (const [key, value] of data as Puts) {
      if (value === null) items.delete(key)
      else items.set(key, { value, createdAt: items.get(key)?.createdAt ?? time, updatedAt: time })
    }
  },
  checkpoint: { every: 200 },
  retain: { checkpoints: 2, history: 'needed' },
}

/** @example const graph = builder.compile({ checkpointer: new RepriseSaver(rp), store: new RepriseStore(rp) }) */
export class RepriseStore extends BaseStore {
  readonly #engine: Host
  readonly #prefix: string
  readonly #open: OpenHandles<SharedTimeline<NamespaceState>>

  constructor(rp: Engine, options: RepriseStoreOptions = {}) {
    super()
    checkOptions('store', options, known)
    const engine = hostOf(rp)
    this.#engine = engine
    const name = checkFirstSegment('store', options.name ?? 'langgraph-store', 'langgraph-store')
    this.#prefix = `${name}/`
    this.#open = new OpenHandles(options.openNamespacesMax ?? 100)
    engine.declare({ ...memoryKind, name, scope: this.#prefix, fold: fold as Fold<unknown> })
  }

  /** Reads see the state before the puts of the same batch; among several puts to one key, the last counts. */
  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const results: unknown[] = []
    const puts = new Map<
      string,
      { readonly namespace: readonly string[]; readonly items: Map<string, PutOperation['value']> }
    >()
    for (const operation of operations) {
      if ('namespacePrefix' in operation) results.push(await this.#search(operation))
      else if ('value' in operation) {
        checkNamespace(operation.namespace)
        const id = this.#idOf(operation.namespace)
        const group = puts.get(id) ?? { namespace: operation.namespace, items: new Map() }
        group.items.set(checkKey(operation.key), operation.value)
        puts.set(id, group)
        results.push(undefined)
      } else if ('key' in operation) results.push(await this.#get(operation))
      else results.push(await this.#listNamespaces(operation))
    }
    for (const { namespace, items } of puts.values()) await this.#put(namespace, [...items])
    return results as OperationResults<Op>
  }

  /** Closes the namespaces that this store holds open. The engine stays open. */
  override async stop(): Promise<void> {
    await this.#open.close()
  }

  async #get({ namespace, key }: GetOperation): Promise<Item | null> {
    checkNamespace(namespace)
    return await this.#use(namespace, (timeline) =>
      timeline.look(({ items }) => {
        const stored = items.get(checkKey(key))
        return stored ? itemOf(namespace, key, stored) : null
      }),
    )
  }

  async #put(namespace: readonly string[], puts: Puts): Promise<void> {
    // The same key for every attempt: a put whose answer was lost is not made twice.
    const key = newId(this.#engine.random)
    const data = structuredClone(puts)
    const isDeletion = data.every(([, value]) => value === null)
    await this.#use(namespace, async (timeline) => {
      // Deleting a missing item does not create a namespace.
      if (isDeletion && (await timeline.read()) === null) return
      await timeline.write(({ items }) => {
        const isNothing = data.every(([name, value]) => value === null && !items.has(name))
        return { entry: isNothing ? null : { type: 'put', data, key }, done: () => undefined }
      })
    })
  }

  async #search(operation: SearchOperation): Promise<SearchItem[]> {
    const { namespacePrefix, filter = {}, limit = 10, offset = 0, query } = operation
    if (query !== undefined) {
      throw new RepriseError('INVALID_ARGUMENT', 'this store has no vector index: search by prefix and filter', {
        query,
      })
    }
    const found: SearchItem[] = []
    for await (const namespace of this.#namespaces(namespacePrefix)) {
      const items = await this.#use(namespace, (timeline) =>
        timeline.look((state) =>
          [...state.items.entries()]
            .filter(([, { value }]) => matchesFilter(value, filter))
            .map(([key, stored]) => itemOf(namespace, key, stored)),
        ),
      )
      found.push(...(items ?? []))
      if (found.length >= offset + limit) break
    }
    return found.slice(offset, offset + limit)
  }

  /** A namespace stays listed after its last item was deleted. */
  async #listNamespaces(operation: ListNamespacesOperation): Promise<string[][]> {
    const { matchConditions = [], maxDepth, limit = Number.POSITIVE_INFINITY, offset = 0 } = operation
    const found = new Map<string, string[]>()
    for await (const namespace of this.#namespaces([])) {
      if (!matchConditions.every((condition) => matches(condition, namespace))) continue
      const shown = maxDepth === undefined ? namespace : namespace.slice(0, maxDepth)
      found.set(this.#idOf(shown), shown)
      if (found.size >= offset + limit) break
    }
    return [...found.values()].slice(offset, offset + limit)
  }

  async *#namespaces(prefix: readonly string[]): AsyncGenerator<string[]> {
    if (prefix.length > 0) {
      checkNamespace(prefix)
      if (await this.#engine.head(this.#idOf(prefix))) yield [...prefix]
    }
    const below = prefix.length === 0 ? this.#prefix : `${this.#idOf(prefix)}/`
    for await (const { timeline } of this.#engine.each({ prefix: below })) {
      // Labels contain no "~": an id with one is the archive of a rollback.
      if (!timeline.includes('~')) yield timeline.slice(this.#prefix.length).split('/').map(decodeURIComponent)
    }
  }

  async #use<T>(
    namespace: readonly string[],
    work: (timeline: SharedTimeline<NamespaceState>) => Promise<T>,
  ): Promise<T> {
    const id = this.#idOf(namespace)
    return await this.#open.use(id, () => new SharedTimeline(this.#engine, id, fold), work)
  }

  #idOf(namespace: readonly string[]): TimelineId {
    return timelineId(this.#prefix + namespace.map(encode).join('/'))
  }
}

function itemOf(namespace: readonly string[], key: string, { value, createdAt, updatedAt }: Stored): Item {
  return {
    namespace: [...namespace],
    key,
    // A copy for the caller: its changes do not reach the stored value.
    value: structuredClone(value),
    createdAt: new Date(createdAt),
    updatedAt: new Date(updatedAt),
  }
}

function matches({ matchType, path }: MatchCondition, namespace: readonly string[]): boolean {
  if (path.length > namespace.length) return false
  const from = matchType === 'prefix' ? 0 : namespace.length - path.length
  return path.every((label, i) => label === '*' || label === namespace[from + i])
}

function encode(label: string): string {
  return encodeURIComponent(label).replaceAll('~', '%7E')
}

function checkNamespace(namespace: readonly unknown[]): void {
  if (namespace.length === 0) throw new InvalidNamespaceError('a namespace must have at least one label')
  for (const label of namespace) {
    if (typeof label !== 'string' || label === '' || label.includes('.') || /\p{Surrogate}/u.test(label)) {
      throw new InvalidNamespaceError(`a label of a namespace must be non-empty text without periods: ${String(label)}`)
    }
  }
}

function checkKey(key: unknown): string {
  if (typeof key === 'string' && key !== '') return key
  throw new RepriseError('INVALID_ARGUMENT', 'the key of an item must be a non-empty string')
}

/** Filters of a search: a field equals a value, or has a relation to it ($eq, $ne, $gt, $gte, $lt, $lte, $in, $nin). */
const relations: Readonly<Record<string, (is: unknown, given: unknown) => boolean>> = {
  $eq: isEqual,
  $ne: (is, given) => !isEqual(is, given),
  $gt: (is, given) => Number(is) > Number(given),
  $gte: (is, given) => Number(is) >= Number(given),
  $lt: (is, given) => Number(is) < Number(given),
  $lte: (is, given) => Number(is) <= Number(given),
  $in: (is, given) => Array.isArray(given) && given.some((one) => isEqual(is, one)),
  $nin: (is, given) => !Array.isArray(given) || !given.some((one) => isEqual(is, one)),
}

export function matchesFilter(
  value: Readonly<Record<string, unknown>>,
  filter: Readonly<Record<string, unknown>>,
): boolean {
  return Object.entries(filter).every(([field, wanted]) => {
    const is = Object.hasOwn(value, field) ? value[field] : undefined
    if (!isRelation(wanted)) return isEqual(is, wanted)
    return Object.entries(wanted).every(([name, given]) => relations[name]!(is, given))
  })
}

function isRelation(wanted: unknown): wanted is Record<string, unknown> {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return false
  const names = Object.keys(wanted)
  return names.length > 0 && names.every((name) => Object.hasOwn(relations, name))
}
