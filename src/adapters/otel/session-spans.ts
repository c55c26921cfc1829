// The spans of an agent's session, from its history: one trace per turn, with the calls of the model and of tools below it.
// Names and attributes follow OpenTelemetry's conventions for generative AI. Ids are digests of places in history, so a span
// that is exported again after a crash has the same ids.

import { toHex } from '../../core/coordinate.ts'
import type { Entry } from '../../engine/model/entry.ts'

export type SpanValue = string | number | boolean

export interface SessionSpan {
  /** 32 hexadecimal digits: the turn. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  readonly parentSpanId: string | null
  readonly name: string
  readonly kind: 'internal' | 'client'
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly endedAt: number
  readonly attributes: Readonly<Record<string, SpanValue>>
  readonly events: readonly SpanEvent[]
  /** The message of a failure. */
  readonly error: string | null
}

export interface SpanEvent {
  readonly name: string
  readonly at: number
  readonly attributes: Readonly<Record<string, SpanValue>>
}

interface OpenSpan {
  readonly id: string
  readonly startedAt: number
  readonly name: string
  readonly attributes: Record<string, SpanValue>
  readonly events: SpanEvent[]
}

interface Usage {
  readonly inputTokens?: number
  readonly outputTokens?: number
  readonly cacheReadTokens?: number
  readonly cacheWriteTokens?: number
  readonly cost?: number
}

/** The fields of a session's entries that spans show. */
interface Fields extends Usage {
  readonly id: string
  readonly turn: number
  readonly tool: string
  readonly kind: string
  readonly state: string
  readonly error: string
  readonly reason: string
  readonly verdict: string
  readonly by: string
  readonly archive: string
  readonly outcome: string
  readonly answer: { readonly usage?: Usage; readonly requests?: readonly unknown[] }
  readonly usage?: Usage
  readonly settings: { readonly model?: string }
  readonly lost?: Usage
}

/** The open spans of one session: `read` takes its entries in order, and returns the spans that end with each. */
export class SessionSpans {
  readonly #timeline: string
  readonly #digest: (text: string) => Uint8Array
  readonly #calls = new Map<string, OpenSpan>()
  #turn: OpenSpan
  #model: string | undefined
  #usage: Usage = {}
  /** The sequence of the last entry that was read. */
  seq = 0

  constructor(timeline: string, digest: (text: string) => Uint8Array) {
    this.#timeline = timeline
    this.#digest = digest
    this.#turn = this.#open(`${timeline} start`, 0, '', {})
  }

  read({ seq, type, time, data }: Entry): SessionSpan[] {
    this.seq = seq
    const fields = (data ?? {}) as Fields
    const { id } = fields
    switch (type) {
      case 'turn.started':
        this.#usage = {}
        this.#turn = this.#open(`${this.#timeline}@${seq} ${time}`, time, `invoke_agent ${this.#agent}`, {
          'gen_ai.operation.name': 'invoke_agent',
          'gen_ai.agent.name': this.#agent,
          'reprise.turn': fields.turn,
        })
        return []
      case 'called':
        this.#begin(fields, time)
        return []
      case 'answered':
      case 'summarized': {
        const { usage } = type === 'answered' ? fields.answer : fields
        this.#usage = sum(this.#usage, usage)
        return this.#endCall(id, time, null, usageAttributes(usage))
      }
      case 'returned':
        return this.#endCall(id, time, null)
      case 'failed':
        return this.#endCall(id, time, fields.error)
      case 'retry':
        this.#calls.get(id)?.events.push({ name: 'retry', at: time, attributes: { 'error.message': fields.error } })
        return []
      case 'configured':
        this.#model = fields.settings.model ?? this.#model
        return []
      case 'interrupted':
        this.#note('waiting for a person', time, { 'reprise.kind': fields.kind, 'reprise.reason': fields.reason })
        return []
      case 'decided':
        this.#note('decided', time, { 'reprise.verdict': fields.verdict, 'reprise.by': fields.by })
        return []
      case 'turn.ended': {
        const attributes = { 'reprise.outcome': fields.outcome, ...usageAttributes(this.#usage) }
        return [this.#end(this.#turn, null, time, null, attributes, 'internal')]
      }
      case 'rolled-back':
        return [this.#rolledBack(fields, seq, time)]
      default:
        return []
    }
  }

  get #agent(): string {
    return this.#timeline.split('/')[1] ?? this.#timeline
  }

  #begin({ id, tool, kind, state }: Fields, time: number): void {
    // A repeated call is one span from its first intent, with an event for each further attempt.
    const before = this.#calls.get(id)
    if (before) return void before.events.push({ name: state, at: time, attributes: {} })
    const key = `${this.#turn.id} ${id} ${time}`
    if (kind !== 'model') {
      const attributes = {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': tool,
        'gen_ai.tool.call.id': id,
      }
      this.#calls.set(id, this.#open(key, time, `execute_tool ${tool}`, attributes))
      return
    }
    const model = this.#model
    this.#calls.set(
      id,
      this.#open(key, time, model === undefined ? 'chat' : `chat ${model}`, {
        'gen_ai.operation.name': 'chat',
        ...(model !== undefined && { 'gen_ai.request.model': model }),
        ...(tool === 'summary' && { 'reprise.purpose': 'summary' }),
      }),
    )
  }

  #endCall(id: string, time: number, error: string | null, more: Record<string, SpanValue> = {}): SessionSpan[] {
    const call = this.#calls.get(id)
    if (!call) return []
    this.#calls.delete(id)
    return [this.#end(call, this.#turn, time, error, more, 'client')]
  }

  /** The undone turns keep their spans. Calls that were undone before they ended have none. */
  #rolledBack({ archive, lost }: Fields, seq: number, time: number): SessionSpan {
    this.#calls.clear()
    this.#turn = this.#open(`${this.#timeline}@${seq} ${time} rollback`, time, `rollback ${this.#agent}`, {})
    const attributes = { 'reprise.archive': archive, ...usageAttributes(lost, 'reprise.lost.') }
    return this.#end(this.#turn, null, time, null, attributes, 'internal')
  }

  #note(name: string, at: number, attributes: Record<string, SpanValue>): void {
    this.#turn.events.push({ name, at, attributes })
  }

  #open(id: string, startedAt: number, name: string, attributes: Record<string, SpanValue>): OpenSpan {
    return { id, startedAt, name, attributes, events: [] }
  }

  #end(
    span: OpenSpan,
    parent: OpenSpan | null,
    endedAt: number,
    error: string | null,
    more: Record<string, SpanValue>,
    kind: SessionSpan['kind'],
  ): SessionSpan {
    const common = { 'gen_ai.conversation.id': this.#timeline, ...(error !== null && { 'error.type': '_OTHER' }) }
    return {
      traceId: toHex(this.#digest((parent ?? span).id)).slice(0, 32),
      spanId: this.#spanId(span),
      parentSpanId: parent && this.#spanId(parent),
      name: span.name,
      kind,
      startedAt: span.startedAt,
      endedAt: Math.max(span.startedAt, endedAt),
      attributes: { ...common, ...span.attributes, ...more },
      events: span.events,
      error,
    }
  }

  #spanId({ id }: OpenSpan): string {
    return toHex(this.#digest(`span ${id}`)).slice(0, 16)
  }
}

function usageAttributes(usage: Usage | undefined, prefix = ''): Record<string, SpanValue> {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, cost } = usage ?? {}
  const attributes = {
    [`${prefix}gen_ai.usage.input_tokens`]: inputTokens,
    [`${prefix}gen_ai.usage.output_tokens`]: outputTokens,
    [`${prefix}gen_ai.usage.cache_read.input_tokens`]: cacheReadTokens,
    [`${prefix}gen_ai.usage.cache_creation.input_tokens`]: cacheWriteTokens,
    [prefix === '' ? 'reprise.cost' : `${prefix}cost`]: cost,
  }
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined)) as Record<
    string,
    SpanValue
  >
}

function sum(a: Usage, b: Usage = {}): Usage {
  const names = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'cost'] as const
  const used = names.filter((name) => a[name] !== undefined || b[name] !== undefined)
  return Object.fromEntries(used.map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]))
}
