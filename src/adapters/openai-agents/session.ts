// RepriseSession: the conversation of an OpenAI agent as a timeline. Items are appended in one commit, a change is applied
// once even if its answer was lost, and the transactions of newer SDKs are atomic and remembered by their id.

import type { AgentInputItem, Session } from '@openai/agents'
import { timelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { type Keyed, keyed } from '../../core/keyed-state/keyed.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { SharedTimeline } from '../../engine/host/shared-timeline.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import { checkFirstSegment } from '../../engine/model/id-prefixes.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { sessionKind } from './model.ts'

export interface RepriseSessionOptions {
  /** First segment of the timeline's id. Default: 'openai-agents'. */
  readonly name?: string
}

const known = namesOf<RepriseSessionOptions>()('name')

interface State {
  readonly items: Keyed<AgentInputItem>
  /** Digest of each applied transaction, by its id. */
  readonly operations: Keyed<string>
  next: number
}

/** The fields of the SDK's transactions and rewrites that are used here. */
export interface TransactionArgs {
  readonly operationId: string
  readonly transaction:
    | { readonly type: 'append_items'; readonly items: AgentInputItem[] }
    | {
        readonly type: 'replace_suffix'
        readonly expectedSuffix: AgentInputItem[]
        readonly replacement: AgentInputItem[]
      }
}
export interface RewriteArgs {
  readonly mutations: readonly {
    readonly type: 'replace_function_call'
    readonly callId: string
    readonly replacement: AgentInputItem
  }[]
}

/** A change: items cut from the end, items added at the end, items replaced. */
interface Change {
  readonly cut?: number
  readonly add?: readonly AgentInputItem[]
  readonly put?: readonly (readonly [string, AgentInputItem])[]
  readonly operation?: readonly [string, string]
}

const fold: Fold<State> = {
  version: 'openai-agents 1',
  initial: () => ({ items: keyed(), operations: keyed(), next: 0 }),
  apply(state, entry) {
    if (entry.type === 'cleared') {
      state.items.clear()
      state.operations.clear()
      return
    }
    const { cut = 0, add = [], put = [], operation } = entry.data as Change
    for (const key of [...state.items.keys({ reverse: true, limit: cut })]) state.items.delete(key)
    for (const [key, item] of put) state.items.set(key, item)
    for (const item of add) state.items.set(String(state.next++).padStart(10, '0'), item)
    if (operation) state.operations.set(...operation)
  },
  checkpoint: { every: 1000 },
  retain: { checkpoints: 2 },
}

/** @example await run(agent, 'Hello', { session: new RepriseSession(rp, 'customer-7') }) */
export class RepriseSession implements Session {
  readonly #id: string
  readonly #engine: Host
  readonly #timeline: SharedTimeline<State>

  constructor(rp: Engine, id: string, options: RepriseSessionOptions = {}) {
    checkOptions('session', options, known)
    const engine = hostOf(rp)
    const name = checkFirstSegment('session', options.name ?? 'openai-agents', 'openai-agents')
    const prefix = `${name}/`
    this.#id = id
    this.#engine = engine
    this.#timeline = new SharedTimeline(engine, timelineId(prefix + id), fold)
    engine.declare({ ...sessionKind, name, scope: prefix, fold: fold as Fold<unknown> })
  }

  async getSessionId(): Promise<string> {
    return this.#id
  }

  /** The newest `limit` items, or all, oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    if (limit !== undefined && limit <= 0) return []
    const state = await this.#timeline.read()
    if (!state) return []
    const items = [...state.items.values({ reverse: true, ...(limit !== undefined && { limit }) })].reverse()
    // Copies for the caller: its changes do not reach the stored items.
    return items.map((item) => structuredClone(item))
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length > 0) await this.#change(() => ({ add: items }))
  }

  async popItem(): Promise<AgentInputItem | undefined> {
    let popped: AgentInputItem | undefined
    await this.#change((state) => {
      popped = [...state.items.values({ reverse: true, limit: 1 })][0]
      return popped === undefined ? null : { cut: 1 }
    })
    return popped && structuredClone(popped)
  }

  /**
   * Removes the items permanently, with their history: they can no longer be read. If a fork or a savepoint still holds them, the
   * session is empty all the same, and PINNED names the holder.
   */
  async clearSession(): Promise<void> {
    try {
      await this.#timeline.remove()
    } catch (error) {
      if (!isReprise(error, 'PINNED')) throw error
      if (await this.#timeline.read())
        await this.#timeline.writeAlone(() => ({ entry: { type: 'cleared', data: null }, done: () => undefined }))
      throw new RepriseError(
        'PINNED',
        `the session ${this.#id} is empty now, but its items can still be read: ${error.message}`,
        { session: this.#id },
        error,
      )
    }
  }

  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    await this.#change((state) => ({ cut: state.items.size, add: items }))
  }

  async applyHistoryMutations({ mutations }: RewriteArgs): Promise<void> {
    await this.#change((state) => {
      const put = mutations.flatMap(({ callId, replacement }): [string, AgentInputItem][] => {
        for (const [key, item] of state.items.entries({ reverse: true })) {
          if (item.type === 'function_call' && item.callId === callId) return [[key, replacement]]
        }
        return []
      })
      return put.length === 0 ? null : { put }
    })
  }

  async applyHistoryTransaction({ operationId, transaction }: TransactionArgs): Promise<void> {
    if (typeof operationId !== 'string' || operationId.trim() === '') {
      throw new RepriseError('INVALID_ARGUMENT', 'a transaction must have an operationId')
    }
    const digest = this.#digest(transaction)
    await this.#change((state) => {
      const known = state.operations.get(operationId)
      if (known === digest) return null
      if (known !== undefined) {
        throw new RepriseError('INVALID_ARGUMENT', 'this operationId was used for another transaction', { operationId })
      }
      const operation = [operationId, digest] as const
      if (transaction.type === 'append_items') return { add: transaction.items, operation }
      const { expectedSuffix, replacement } = transaction
      const count = expectedSuffix.length
      const actual = [...state.items.values({ reverse: true, limit: count })].reverse()
      if (actual.length !== count || this.#digest(actual) !== this.#digest(expectedSuffix)) {
        throw new RepriseError('INVALID_ARGUMENT', 'history does not end as the transaction expects', { operationId })
      }
      return { cut: count, add: replacement, operation }
    })
  }

  /** Closes the timeline; the next use opens it again. */
  async close(): Promise<void> {
    await this.#timeline.close()
  }

  /** Applies changes one after another, each to the result of the previous one. */
  async #change(make: (state: State) => Change | null): Promise<void> {
    // The same key for every attempt: a change whose answer was lost is not made twice.
    const key = newId(this.#engine.random)
    await this.#timeline.writeAlone((state) => {
      const data = make(state)
      return {
        entry: data === null ? null : { type: 'changed', data: structuredClone(data), key },
        done: () => undefined,
      }
    })
  }

  #digest(value: unknown): string {
    const { codec, hash } = this.#engine
    return toHex(hash(codec.encode(structuredClone(value))))
  }
}
