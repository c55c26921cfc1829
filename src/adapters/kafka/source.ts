// A Kafka topic as a source. Its partitions are the source's, and a position is the next offset of a partition: only the
// checkpoint stores it, so there is no consumer group, no rebalance and no session to wait for. Only committed records are
// read.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, checkValues } from '../../core/options.ts'
import { awayMsOf } from '../../core/retry/broker-away.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Positions, Source, SourceContext, SourceReader } from '../../layers/pipeline/source.ts'
import { ReadyQueue } from '../../layers/pipeline/sources/ready-queue.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { connectTo } from './kafkats.ts'
import type { Fetched, KafkaConnecting, KafkaPort, KafkaRecord } from './port.ts'

export interface KafkaOptions extends KafkaConnecting {
  readonly topic: string
  /**
   * Where a first run begins: at these offsets by partition, or at those that a consumer group has committed, to take over
   * its work. Partitions without an offset, and those that appear later, are read from their beginning. Default: 'oldest'.
   */
  readonly start?: KafkaStart
  /** If the broker no longer has a position. 'fail' is POSITION_GONE. Default: 'fail'. */
  readonly gone?: 'fail' | 'oldest' | 'newest'
  /** How often to check for new partitions. Default: every 10 seconds. */
  readonly discover?: Duration
  /**
   * A group to which the offsets of published checkpoints are committed, for tools that monitor lag. It must be a dedicated
   * group without members. Nothing here reads the offsets: positions are stored in the checkpoint. Default: none.
   */
  readonly group?: string
}

export type KafkaStart =
  | 'oldest'
  | 'newest'
  | { readonly time: number }
  | { readonly offsets: Readonly<Record<number, number>> }
  | { readonly group: string }

export const kafkaOptionNames = [
  ...['brokers', 'clientId', 'awayFor', 'client', 'topic', 'start', 'gone', 'discover', 'group'],
] as const
const known = new Set<string>(kafkaOptionNames)
/** How long a request waits at the broker without records: `heldWaitMs` while other partitions have read ahead enough. */
const waitMs = 250
const heldWaitMs = 20
/** How long the end of a run waits to commit the last offsets of the group. */
const reportWithinMs = 2000
const goneHint =
  "Records may be missing. Set { gone: 'oldest' } or { gone: 'newest' } on its source to continue with the offsets of the broker, or start from a savepoint with { from }."
const noOffsets: ReadonlyMap<number, number> = new Map()
/** Batches of one partition that are read ahead. */
const aheadMax = 2

/** @example p.from('orders', kafkaSource({ brokers: ['localhost:9092'], topic: 'orders' }), { decode: json<Order>() }) */
export function kafkaSource(options: KafkaOptions): Source<KafkaRecord> {
  checkOptions('kafkaSource', options, known)
  checkValues('kafka', options, { gone: ['fail', 'oldest', 'newest'] })
  const { topic } = options
  if (typeof topic !== 'string' || topic === '') throw new RepriseError('INVALID_ARGUMENT', 'kafka needs { topic }')
  if (options.group === '') throw new RepriseError('INVALID_ARGUMENT', 'the group of kafka must have a name')
  checkStart(options.start ?? 'oldest')
  awayMsOf(options)
  const discoverMs = toMs(options.discover ?? '10s', 'discover')
  return {
    kind: 'kafka',
    async partitions({ signal }) {
      const port = await connectTo(options, signal)
      try {
        return (await port.partitions(topic)).map(String)
      } finally {
        await port.close()
      }
    },
    async open(from, context) {
      const port = await connectTo(options, context.signal)
      try {
        const reader = new KafkaReader(port, options, discoverMs, from, context)
        await reader.begin()
        return reader
      } catch (error) {
        await port.close()
        throw error
      }
    },
  }
}

interface Place {
  readonly partition: number
  readonly name: string
  next: number
  ahead: number
}

class KafkaReader implements SourceReader<KafkaRecord> {
  readonly #port: KafkaPort
  readonly #options: KafkaOptions
  readonly #discoverMs: number
  readonly #from: Positions | null
  readonly #given: readonly string[] | null
  readonly #signal: AbortSignal
  readonly #ready = new ReadyQueue<KafkaRecord>()
  readonly #onAbort = () => this.#ready.close()
  readonly #onProblem: (error: unknown) => void
  #places: readonly Place[] = []
  #names: readonly string[] = []
  #room: (() => void) | null = null
  #lookedAt = 0
  #running: Promise<void> = Promise.resolve()
  #isClosed = false
  readonly #unwatch: () => void
  /** Positions of the newest published checkpoint that are not committed to the group yet. */
  #untold: Positions | null = null
  #committing: Promise<void> | null = null

  constructor(
    port: KafkaPort,
    options: KafkaOptions,
    discoverMs: number,
    from: Positions | null,
    context: SourceContext,
  ) {
    this.#port = port
    this.#options = options
    this.#discoverMs = discoverMs
    this.#from = from
    this.#given = context.partitions
    this.#signal = context.signal
    const { worker, clock } = hostOf(context.engine)
    this.#unwatch = worker.watch(() => {
      const { silentSince } = this.#port
      if (!silentSince) return []
      const what = `the broker of the topic ${options.topic}`
      return [{ timeline: context.pipeline, what, since: clock.elapsed() - (Date.now() - silentSince) }]
    })
    this.#onProblem = (error) =>
      void hostOf(context.engine).events.emit('problem', { where: `${context.pipeline} ${context.name}`, error })
  }

  async begin(): Promise<void> {
    for (const position of this.#from?.values() ?? []) checkPosition(position)
    await this.#discover(this.#from === null)
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    if (this.#signal.aborted) this.#onAbort()
    this.#running = this.#follow().catch((error) => {
      if (!this.#isOver) this.#ready.fail(error)
    })
  }

  partitions(): readonly string[] {
    return this.#names
  }

  read(max: number) {
    return this.#ready.take(max)
  }

  /** Runs beside the pipeline, for the newest positions only: a failing group does not delay checkpoints. */
  async published(positions: Positions): Promise<void> {
    if (this.#options.group === undefined) return
    this.#untold = positions
    this.#committing ??= this.#commitOffsets(this.#options.group)
  }

  async #commitOffsets(group: string): Promise<void> {
    try {
      while (this.#untold) {
        const offsets = new Map([...this.#untold].map(([name, next]) => [Number(name), next as number]))
        this.#untold = null
        await this.#port.commitOffsets(group, this.#options.topic, offsets)
      }
    } catch (error) {
      if (!this.#isClosed) this.#onProblem(error)
    } finally {
      this.#committing = null
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#unwatch()
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#ready.close()
    this.#wake()
    if (this.#committing) await Promise.race([this.#committing, sleep(realTime, reportWithinMs, { isAwaited: false })])
    await this.#port.close()
    await this.#running
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#signal.aborted
  }

  async #follow(): Promise<void> {
    while (!this.#isOver) {
      if (Date.now() - this.#lookedAt > this.#discoverMs && this.#given === null) await this.#discover(false)
      const wanted = this.#places.filter(({ ahead }) => ahead < aheadMax)
      if (wanted.length === 0) {
        await new Promise<void>((resolve) => {
          this.#room = resolve
        })
        continue
      }
      const isHeld = wanted.length < this.#places.length
      const offsets = wanted.map(({ partition, next }) => ({ partition, offset: next }))
      const wait = Math.min(isHeld ? heldWaitMs : waitMs, Math.max(1, this.#discoverMs))
      const fetched = await this.#port.fetch(this.#options.topic, offsets, wait)
      if (fetched.length > 0 && fetched.every(({ outcome }) => outcome === 'later')) {
        await sleep(realTime, 50)
      }
      for (const each of fetched) await this.#take(wanted.find(({ partition }) => partition === each.partition)!, each)
    }
  }

  async #take(place: Place, { outcome, records, next }: Fetched): Promise<void> {
    if (outcome === 'gone') {
      place.next = await this.#whereGone(place)
      return
    }
    if (next === place.next) return
    place.next = next
    place.ahead += 1
    const positionAt = (count: number) => records[count - 1]!.offset + 1
    // A batch without records still advances the position, past markers and aborted records.
    void this.#ready.push({ partition: place.name, values: records, positionAt, position: next }).then(() => {
      place.ahead -= 1
      this.#wake()
    })
  }

  #wake(): void {
    this.#room?.()
    this.#room = null
  }

  /** `isFirst`: nothing was ever read. */
  async #discover(isFirst: boolean): Promise<void> {
    const { topic, start = 'oldest' } = this.#options
    this.#lookedAt = Date.now()
    const found = await this.#port.partitions(topic)
    const given = isFirst ? await this.#offsetsOf(start, found) : noOffsets
    const added: Place[] = []
    for (const partition of found) {
      const name = String(partition)
      if (this.#names.includes(name) || (this.#given && !this.#given.includes(name))) continue
      const stored = this.#from?.get(name) as number | undefined
      const at = !isFirst ? 'oldest' : typeof start === 'string' ? start : 'time' in start ? start.time : 'oldest'
      const next = stored ?? given.get(partition) ?? (await this.#port.offset(topic, partition, at))
      added.push({ partition, name, next, ahead: 0 })
    }
    const missing = [...(this.#from?.keys() ?? [])].filter((name) => !found.includes(Number(name)))
    if (missing.length > 0) {
      const what = `the topic ${topic} no longer has the partition ${missing.join(', ')}: another topic now has this name`
      const hint = 'Run the pipeline under another id to read the new topic from its beginning.'
      throw new RepriseError('POSITION_GONE', what, { topic, partitions: missing }, undefined, hint)
    }
    if (added.length === 0) return
    this.#places = [...this.#places, ...added]
    this.#names = this.#places.map(({ name }) => name)
  }

  /** By partition, if the definition or a group names an offset. */
  async #offsetsOf(start: KafkaStart, found: readonly number[]): Promise<ReadonlyMap<number, number>> {
    const { topic } = this.#options
    if (typeof start === 'string') return noOffsets
    if ('group' in start) return await this.#port.committedOffsets(start.group, topic, found)
    if (!('offsets' in start)) return noOffsets
    const offsets = new Map(Object.entries(start.offsets).map(([name, offset]) => [Number(name), offset]))
    const unknown = [...offsets.keys()].filter((partition) => !found.includes(partition))
    if (unknown.length === 0) return offsets
    const what = `start names partition ${unknown.join(', ')} of ${topic}, which has ${found.join(', ')}`
    throw new RepriseError('INVALID_ARGUMENT', what, { topic, unknown })
  }

  async #whereGone({ partition, next }: Place): Promise<number> {
    const { topic, gone = 'fail' } = this.#options
    if (gone !== 'fail') return await this.#port.offset(topic, partition, gone)
    const [oldest, newest] = [
      await this.#port.offset(topic, partition, 'oldest'),
      await this.#port.offset(topic, partition, 'newest'),
    ]
    const what = `partition ${partition} of ${topic} has the offsets ${oldest} to ${newest}, not ${next}: the broker removed it, or the topic was created again`
    const data = { topic, partition, position: next, oldest, newest }
    throw new RepriseError('POSITION_GONE', what, data, undefined, goneHint)
  }
}

function checkStart(start: KafkaStart): void {
  if (start === 'oldest' || start === 'newest') return
  if (typeof start === 'object' && start !== null) {
    checkOptions('start of kafkaSource', start, new Set(['time', 'offsets', 'group']))
    const [only, ...others] = Object.entries(start as Readonly<Record<string, unknown>>)
    const isOne = only !== undefined && others.length === 0
    const offsets = isOne && only[0] === 'offsets' && typeof only[1] === 'object' && only[1] !== null ? only[1] : null
    if (isOne && only[0] === 'time' && Number.isFinite(only[1])) return
    if (isOne && only[0] === 'group' && typeof only[1] === 'string' && only[1] !== '') return
    if (offsets && Object.entries(offsets).every(([name, at]) => /^\d+$/.test(name) && isOffset(at))) return
  }
  const what =
    "start of kafka must be 'oldest', 'newest', { time } in milliseconds since 1970, { offsets } by partition, or { group }"
  throw new RepriseError('INVALID_ARGUMENT', what, { start })
}

function isOffset(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function checkPosition(position: unknown): void {
  if (isOffset(position)) return
  const what = 'the position of this source must be an offset: another source used its name before'
  throw new RepriseError('INVALID_ARGUMENT', what, { position })
}
