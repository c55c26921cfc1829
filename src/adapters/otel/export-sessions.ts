// Exports what agents did from history, as spans in OTLP's JSON form over HTTP. The position in the feed is a timeline of the
// store and moves after the receiver has accepted a batch. A killed exporter repeats at most that batch, with the same ids.

import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, checkText, namesOf } from '../../core/options.ts'
import { resolveRetry } from '../../core/retry/retry.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import { PositionSink } from '../../engine/feed/position-sink.ts'
import { FeedReader } from '../../engine/feed/reader.ts'
import type { Occurred } from '../../engine/feed/sink.ts'
import {
  type CatchUpOptions,
  type Page,
  type Reading,
  Subscription,
  type SubscriptionStatus,
} from '../../engine/feed/subscription.ts'
import { entriesOf, entryAt, lineageOf, reachOf, readHistory } from '../../engine/history/history.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { checkName, type Engine } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { type SessionSpan, SessionSpans, type SpanValue } from './session-spans.ts'

export interface ExportSessionsOptions {
  /** The receiver's address for traces. @example 'http://localhost:4318/v1/traces' */
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** The position of this export: a second export under the same name continues it. Default: 'sessions'. */
  readonly name?: string
  /** The attribute `service.name`. Default: 'reprise'. */
  readonly service?: string
  /** A replacement for `fetch`. */
  readonly fetch?: typeof fetch
}

const known = namesOf<ExportSessionsOptions>()('url headers name service fetch')
type Kernel = Host['kernel']
type Item = Occurred & { readonly entry: Entry }

/** Open spans in memory; those of other sessions are read from history again. */
const sessionsMax = 1000
const timeoutMs = 30_000

/**
 * Exports what the sessions of agents do as spans, from the beginning of their history, until `close`. After a restart it
 * continues where it stopped. Of several processes with the same name, one exports.
 * @example const telemetry = await exportSessions(rp, { url: 'http://localhost:4318/v1/traces' })
 */
export async function exportSessions(rp: Engine, options: ExportSessionsOptions): Promise<SessionExport> {
  checkGivenOptions('exportSessions', options, known)
  checkText('the url of exportSessions()', options.url)
  if (!URL.canParse(options.url)) {
    throw new RepriseError('INVALID_ARGUMENT', `exportSessions: url must be an absolute address (got ${options.url})`)
  }
  const { name = 'sessions' } = options
  checkName('export', name)
  const host = hostOf(rp)
  const { kernel } = host
  const subscription = new Subscription<Item>(kernel, {
    name: `telemetry ${name}`,
    reading: new SessionEntries(kernel),
    sink: new TelemetrySink(host, name, options),
    poison: 'stop',
    retry: resolveRetry({ attempts: 1 }),
  })
  return new SessionExport(
    subscription,
    host.onClose(() => subscription.stop()),
  )
}

export class SessionExport {
  readonly #subscription: Subscription<Item>
  readonly #forget: () => void

  /** @internal */
  constructor(subscription: Subscription<Item>, forget: () => void) {
    this.#subscription = subscription
    this.#forget = forget
  }

  status(): SubscriptionStatus {
    return this.#subscription.status()
  }

  /** Resolves when the receiver has everything that is in history now. */
  async catchUp(options: CatchUpOptions = {}): Promise<void> {
    await this.#subscription.catchUp(options)
  }

  async close(): Promise<void> {
    this.#forget()
    await this.#subscription.stop()
  }
}

class SessionEntries implements Reading<Item> {
  readonly #kernel: Kernel
  readonly #reader: FeedReader

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#reader = new FeedReader(kernel, ['agent/'], { mayBeTrimmed: true })
  }

  async page(after: FeedPosition): Promise<Page<Item>> {
    const { runs, next, isEnd } = await this.#reader.page(after)
    const parts = runs.map(({ entries, position }) => ({ items: entries.map(itemOf), next: position }))
    return { items: parts.flatMap(({ items }) => items), next, isEnd, parts }
  }

  async at(timeline: string, seq: number): Promise<Item | null> {
    const entry = await entryAt(this.#kernel, timeline as Entry['timeline'], seq)
    return entry && itemOf(entry)
  }

  confirm(): Promise<void> {
    return this.#reader.confirm()
  }

  reset(): void {
    this.#reader.reset()
  }
}

function itemOf(entry: Entry): Item {
  const { type, timeline, seq, epoch, time } = entry
  return { type, at: { timeline, seq, epoch, time }, entry }
}

class TelemetrySink extends PositionSink<Item> {
  readonly #host: Host
  readonly #options: ExportSessionsOptions
  readonly #sessions = new Map<string, SessionSpans>()

  constructor(host: Host, name: string, options: ExportSessionsOptions) {
    super(host, `reprise/telemetry/${name}`)
    this.#host = host
    this.#options = options
  }

  /** The receiver accepts the spans before the position moves. */
  protected override async effectsOf(items: readonly Item[]): Promise<CommitExtras> {
    const spans: SessionSpan[] = []
    for (const { entry } of items) spans.push(...(await this.#session(entry)).read(entry))
    if (spans.length > 0) await post(this.#options, spans)
    return {}
  }

  /** The spans that are open before this entry: known, or read from the history before it. */
  async #session({ timeline, seq }: Entry): Promise<SessionSpans> {
    const known = this.#sessions.get(timeline)
    this.#sessions.delete(timeline)
    const session = known?.seq === seq - 1 ? known : await this.#replay(timeline, seq - 1)
    this.#sessions.set(timeline, session)
    for (const oldest of this.#sessions.keys()) {
      if (this.#sessions.size <= sessionsMax) break
      this.#sessions.delete(oldest)
    }
    return session
  }

  async #replay(timeline: Entry['timeline'], to: number): Promise<SessionSpans> {
    const { kernel } = this.#host
    const session = new SessionSpans(timeline, (text) => kernel.hash(new TextEncoder().encode(text)))
    const head = await this.#host.head(timeline)
    if (!head || to === 0) return session
    const lineage = await lineageOf(kernel, head)
    const from = await reachOf(kernel, lineage)
    if (from.seq >= to) return session
    for await (const run of readHistory(kernel, lineage, from, to)) {
      for (const entry of entriesOf(kernel, run)) if (entry.seq <= to) session.read(entry)
    }
    session.seq = to
    return session
  }
}

const hints = {
  away: 'Check that the receiver runs. The export is repeated, and nothing is lost meanwhile.',
  refused: 'Check the address and the credentials. The export is repeated, and nothing is lost meanwhile.',
}

async function post(
  { url, headers, service = 'reprise', fetch: send = fetch }: ExportSessionsOptions,
  spans: SessionSpan[],
) {
  const resource = { attributes: attributesOf({ 'service.name': service }) }
  const scopeSpans = [{ scope: { name: 'reprise' }, spans: spans.map(toOtlp) }]
  const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans }] })
  const response = await send(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((error: unknown) => {
    throw new RepriseError('BROKER_AWAY', `the receiver of spans at ${url} did not answer`, { url }, error, hints.away)
  })
  await response.arrayBuffer().catch(() => undefined)
  if (response.ok) return
  const { status } = response
  const isBusy = status === 408 || status === 429 || status >= 500
  const what = `the receiver of spans at ${url} answered ${status}`
  throw new RepriseError(
    isBusy ? 'BROKER_AWAY' : 'QUEUE_REFUSED',
    what,
    { url, status },
    undefined,
    isBusy ? hints.away : hints.refused,
  )
}

/** In the JSON form of OTLP: ids in hexadecimal, times as text in nanoseconds. */
function toOtlp(span: SessionSpan): object {
  const { traceId, spanId, parentSpanId, name, kind, startedAt, endedAt, attributes, events, error } = span
  return {
    traceId,
    spanId,
    ...(parentSpanId !== null && { parentSpanId }),
    name,
    kind: kind === 'client' ? 3 : 1,
    startTimeUnixNano: nanos(startedAt),
    endTimeUnixNano: nanos(endedAt),
    attributes: attributesOf(attributes),
    events: events.map((event) => ({
      name: event.name,
      timeUnixNano: nanos(event.at),
      attributes: attributesOf(event.attributes),
    })),
    status: error === null ? {} : { code: 2, message: error },
  }
}

function nanos(ms: number): string {
  return String(BigInt(Math.round(ms)) * 1_000_000n)
}

function attributesOf(attributes: Readonly<Record<string, SpanValue | undefined>>): object[] {
  return Object.entries(attributes).flatMap(([key, value]): object[] => {
    if (typeof value === 'string') return [{ key, value: { stringValue: value } }]
    if (typeof value === 'boolean') return [{ key, value: { boolValue: value } }]
    if (typeof value !== 'number') return []
    return [{ key, value: Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value } }]
  })
}
