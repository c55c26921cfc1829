// Writes results to a Kafka topic, exactly once for readers of committed records. Results are sent as they arrive, in a
// transaction that stays open at the checkpoint: the checkpoint stores its TransactionId, and it is committed after
// publication, by this process or by the next one. The next process first commits the listed transactions and aborts all
// others.
//
// Every transaction has its own epoch: it begins by initialising its transactional id again. An id that the newest
// checkpoint names is not used before a newer checkpoint is published, so that recovery finds its transaction committed, or
// commits it; if neither is possible, the broker has expired it. A transaction without records is never ended.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { PipelineKey } from '../../core/key-groups.ts'
import { checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { awayMsOf } from '../../core/retry/broker-away.ts'
import { synchronous } from '../../core/synchronous.ts'
import type { Batch } from '../../layers/pipeline/batch.ts'
import type { CutId, Prepared, Sink, SinkContext, SinkWriter } from '../../layers/pipeline/sink.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { connectTo } from './kafkats.ts'
import type { KafkaConnecting, KafkaOut, KafkaPort, TransactionId } from './port.ts'
import { OpenTransaction } from './transaction.ts'

export interface KafkaSinkOptions<T> extends KafkaConnecting {
  readonly topic: string
  /**
   * The record of a result; `key`: that of its stream, null without one. Default: the result's JSON under that key; a tombstone
   * (null) of a stream with keys has no value, which deletes the key in a compacted topic.
   */
  readonly message?: (value: T, key: PipelineKey | null) => KafkaOut
  /**
   * Prefix of the transactional ids. It must be unique for each pipeline in each store that writes to the same brokers.
   * Default: `reprise/PIPELINE/SINK`.
   */
  readonly transactionalId?: string
  /**
   * How long the broker keeps a transaction open, also while the pipeline is not running. Default: 15 minutes, the maximum
   * that brokers allow by default.
   */
  readonly transactionTimeout?: Duration
  /** If the broker expired a transaction of a published checkpoint. 'skip': its results are lost. Default: 'fail'. */
  readonly expired?: 'fail' | 'skip'
}

const known = namesOf<KafkaSinkOptions<unknown>>()(
  'brokers clientId awayFor client topic message transactionalId transactionTimeout expired',
)
/** Number of transactional ids: for listed, cut and current transactions, and those of failed checkpoints. */
const slots = 8

/** How long the end of a run waits for the abort of the open transaction. */
const abortWithinMs = 2000

/** The form in a checkpoint. */
interface Listed {
  readonly slot: number
  readonly producerId: string
  readonly epoch: number
  readonly begunAt: number
}

/** @example kafkaSink<Total>({ brokers, topic: 'totals', message: (t) => ({ key: t.key, value: t.text }) }) */
export function kafkaSink<T>(options: KafkaSinkOptions<T>): Sink<T> {
  checkOptions('kafkaSink', options, known)
  checkValues('kafkaSink', options, { expired: ['fail', 'skip'] })
  const timeoutMs = toMs(options.transactionTimeout ?? '15m', 'transactionTimeout')
  awayMsOf(options)
  if (!options.topic) throw new RepriseError('INVALID_ARGUMENT', 'kafkaSink needs { topic }')
  return {
    async open(context, listed) {
      const port = await connectTo(options)
      try {
        const writer = new KafkaWriter<T>(port, options, timeoutMs, context, await port.partitions(options.topic))
        await writer.recover(listed)
        return writer
      } catch (error) {
        await port.close()
        throw error
      }
    },
  }
}

class KafkaWriter<T> implements SinkWriter {
  readonly #port: KafkaPort
  readonly #options: KafkaSinkOptions<T>
  readonly #timeoutMs: number
  readonly #prefix: string
  readonly #partitions: readonly number[]
  /** The current transaction, with the results written so far. */
  #current: OpenTransaction | null = null
  /** Transactions of failed checkpoints: the next checkpoint lists them again. */
  #carried: readonly OpenTransaction[] = []
  #cut: readonly OpenTransaction[] = []
  /** Slots that the newest published checkpoint names. */
  #named: readonly number[] = []
  /** The last transaction of each slot. A process that does not know it is no longer the owner, and must not begin one. */
  readonly #newest = new Map<number, TransactionId>()

  constructor(
    port: KafkaPort,
    options: KafkaSinkOptions<T>,
    timeoutMs: number,
    { pipeline, name }: SinkContext,
    partitions: readonly number[],
  ) {
    this.#port = port
    this.#options = options
    this.#timeoutMs = timeoutMs
    this.#prefix = options.transactionalId ?? `reprise/${pipeline}/${name}`
    this.#partitions = partitions
  }

  async recover(listed: Prepared | null): Promise<void> {
    await this.commit(listed)
    // All other open transactions were never published; their producers are fenced.
    const others = Array.from({ length: slots }, (_, slot) => slot).filter((slot) => !this.#named.includes(slot))
    await Promise.all(
      others.map(async (slot) => this.#newest.set(slot, await this.#port.begin(this.#idOf(slot), this.#timeoutMs))),
    )
  }

  /** Results wait at the broker, not in memory: a checkpoint is due by time, not by their number. */
  get pending(): number {
    return 0
  }

  write({ values, keys }: Batch): void | Promise<void> {
    this.#current ??= this.#open()
    const given = this.#options.message ?? usualMessage
    const message = synchronous(given, 'message of kafkaSink()', 'use call() before the sink')
    return this.#current.add((values as readonly T[]).map((value, i) => message(value, keys?.[i] ?? null)))
  }

  cut(_: CutId): () => Promise<Prepared> {
    this.#cut = this.#current ? [...this.#carried, this.#current] : this.#carried
    this.#carried = []
    this.#current = null
    const transactions = this.#cut
    return async () => {
      const listed: Listed[] = []
      for (const transaction of transactions) {
        const { slot, begunAt, id } = await transaction.settled()
        listed.push({ slot, begunAt, producerId: String(id.producerId), epoch: id.epoch })
      }
      return listed.length === 0 ? null : listed
    }
  }

  async commit(prepared: Prepared): Promise<void> {
    const listed = (prepared ?? []) as readonly Listed[]
    if (!Array.isArray(listed)) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        'the transactions of the checkpoint were prepared by another kind of sink',
      )
    }
    for (const each of listed) await this.#commitOne(each)
    this.#cut = []
    // A checkpoint without results names no slot, and the transactions of the previous one are committed.
    this.#named = listed.map(({ slot }) => slot)
  }

  rejoin(): void {
    this.#carried = this.#cut
    this.#cut = []
  }

  async close(): Promise<void> {
    // The cut transactions may be published: the next process handles them. The current transaction must not block readers.
    // An unavailable broker is not awaited: it aborts the transaction by itself, or the next process does.
    const aborted = this.#current?.abort().catch(() => undefined)
    if (aborted) await Promise.race([aborted, sleep(realTime, abortWithinMs, { isAwaited: false })])
    await this.#port.close()
  }

  #open(): OpenTransaction {
    const { topic } = this.#options
    const before = this.#cut.at(-1) ?? this.#carried.at(-1) ?? null
    return new OpenTransaction(this.#port, topic, this.#partitions, this.#begin(), before)
  }

  async #begin(): Promise<{ readonly slot: number; readonly begunAt: number; readonly id: TransactionId }> {
    const open = await Promise.all([...this.#carried, ...this.#cut].map(async (each) => (await each.begun).slot))
    const taken = new Set([...this.#named, ...open])
    const slot = Array.from({ length: slots }, (_, n) => n).find((n) => !taken.has(n))
    if (slot === undefined) {
      const what = `${open.length} checkpoints in a row were not published, and all of their transactions are still open: the run ends, and the next run resumes from the last checkpoint`
      throw new RepriseError('RUN_FAILED', what)
    }
    const id = await this.#port.begin(this.#idOf(slot), this.#timeoutMs, this.#newest.get(slot))
    this.#newest.set(slot, id)
    return { slot, begunAt: Date.now(), id }
  }

  async #commitOne({ slot, producerId, epoch, begunAt }: Listed): Promise<void> {
    const id = this.#idOf(slot)
    const transaction = { id, producerId: BigInt(producerId), epoch }
    const outcome = await this.#port.end(transaction, 'commit')
    if (!this.#newest.has(slot) && outcome === 'ended') this.#newest.set(slot, transaction)
    if (outcome === 'ended' || this.#options.expired === 'skip') return
    const since = new Date(begunAt).toISOString()
    const what = `the broker lost the transaction ${id} of ${since}, which a published checkpoint lists: it was open for longer than transactionTimeout, or another program uses its id. Its results are not in ${this.#options.topic}: run the pipeline with { from } an older checkpoint to write them again (and later results twice), or set { expired: 'skip' } on its sink to continue without them`
    throw new RepriseError('TRANSACTION_EXPIRED', what, { transactionalId: id, begunAt })
  }

  #idOf(slot: number): string {
    return `${this.#prefix}-${slot}`
  }
}

function usualMessage(value: unknown, key: PipelineKey | null): KafkaOut {
  if (key === null) return { value: JSON.stringify(value) }
  return { key: String(key), value: value === null ? null : JSON.stringify(value) }
}
