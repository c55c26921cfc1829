// The port on @kafkats/client: its cluster finds leaders and coordinators, its brokers send requests. This file waits, in
// one place, for unavailable brokers, leaders that move and markers that are still being written.

import {
  type Broker,
  ErrorCode,
  getErrorName,
  KafkaClient,
  type responses,
  UnsupportedVersionError,
} from '@kafkats/client'
import { RepriseError } from '../../core/errors.ts'
import { awayMsOf, brokerAway } from '../../core/retry/broker-away.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import type { Fetched, KafkaConnecting, KafkaPort, OutBatch, TransactionId } from './port.ts'
import { committedOf, encode, type PartitionResponse } from './record-batches.ts'

const readCommitted = 1
const partitionBytes = 1024 * 1024
/** A fetch is reported if it has had no answer for this long after the time it may wait for records. */
const silentAfterMs = 3000

/** Transient errors: a leader or coordinator moves, a topic is new, or markers of the last transaction are being written. */
const passing = new Set<ErrorCode>([
  ErrorCode.UnknownTopicOrPartition,
  ErrorCode.LeaderNotAvailable,
  ErrorCode.NotLeaderOrFollower,
  ErrorCode.RequestTimedOut,
  ErrorCode.BrokerNotAvailable,
  ErrorCode.ReplicaNotAvailable,
  ErrorCode.NetworkException,
  ErrorCode.CoordinatorLoadInProgress,
  ErrorCode.CoordinatorNotAvailable,
  ErrorCode.NotCoordinator,
  ErrorCode.ConcurrentTransactions,
  ErrorCode.NotEnoughReplicas,
  ErrorCode.NotEnoughReplicasAfterAppend,
  ErrorCode.KafkaStorageError,
  ErrorCode.OffsetNotAvailable,
])
const fencing = new Set<ErrorCode>([ErrorCode.InvalidProducerEpoch, ErrorCode.ProducerFenced])
const ended = new Set<ErrorCode>([
  ...fencing,
  ErrorCode.InvalidTxnState,
  ErrorCode.InvalidProducerIdMapping,
  ErrorCode.TransactionalIdNotFound,
])

class Refused extends Error {
  readonly errorCode: ErrorCode

  constructor(what: string, errorCode: ErrorCode) {
    super(`${what}: ${getErrorName(errorCode)}`)
    this.errorCode = errorCode
  }
}

/** `signal`: no further attempt. */
export async function connectTo(options: KafkaConnecting, signal?: AbortSignal): Promise<KafkaPort> {
  const { brokers, clientId = 'reprise', client = {} } = options
  if (!Array.isArray(brokers) || brokers.length === 0) {
    throw new RepriseError('INVALID_ARGUMENT', "kafka needs { brokers: ['host:9092'] }")
  }
  const awayMs = awayMsOf(options)
  const made = await whileAway(
    { what: `connect to ${brokers.join(', ')}`, awayMs, isPassing: isUnreached, signal },
    async () => {
      // A client that failed to connect is not reused: it would list each broker twice.
      const next = new KafkaClient({ logLevel: 'silent' as never, ...client, brokers: [...brokers], clientId })
      try {
        await next.connect()
        return next
      } catch (error) {
        await next.disconnect().catch(() => undefined)
        throw error
      }
    },
  )
  return new KafkatsPort(made, awayMs)
}

interface Waiting {
  readonly what: string
  readonly awayMs: number
  readonly isPassing: (error: unknown) => boolean
  /** Runs before each further attempt. */
  readonly prepare?: (() => Promise<unknown>) | undefined
  readonly signal?: AbortSignal | undefined
}

/** Retries until the work succeeds, for as long as brokers may be unavailable. */
async function whileAway<R>({ what, awayMs, isPassing, prepare, signal }: Waiting, work: () => Promise<R>): Promise<R> {
  const until = Date.now() + awayMs
  for (let pauseMs = 2; ; pauseMs = Math.min(500, pauseMs * 2)) {
    try {
      return await work()
    } catch (error) {
      if (!isPassing(error)) throw error
      if (signal?.aborted) throw new RepriseError('ABORTED', `${what}: aborted`, {}, error)
      if (Date.now() > until) throw brokerAway(what, 'no broker', awayMs, error)
      await sleep(realTime, pauseMs)
      await prepare?.().catch(() => undefined)
    }
  }
}

class KafkatsPort implements KafkaPort {
  readonly #client: KafkaClient
  readonly #awayMs: number
  /** By broker: the time since which its fetches have had no answer. */
  readonly #silentSince = new Map<number, number>()
  /** Until when each fetch in progress should have its answer. */
  readonly #answersDue = new Set<{ readonly at: number }>()
  /** By topic and partition: the time since which its leader refuses reads. */
  readonly #refusedSince = new Map<string, number>()
  #isClosed = false

  constructor(client: KafkaClient, awayMs: number) {
    this.#client = client
    this.#awayMs = awayMs
    // The next request reports the error.
    client.cluster.on('error', () => undefined)
  }

  async partitions(topic: string): Promise<readonly number[]> {
    return await this.#again(`partitions of ${topic}`, topic, async () => {
      // Not from the client's view of the cluster: that lacks partitions without a leader, and the number of partitions decides
      // which one a key belongs to.
      const broker = await this.#client.cluster.getAnyBroker()
      const { topics } = await broker.metadata({ topics: [{ name: topic }], allowAutoTopicCreation: false })
      const found = topics.find(({ name }) => name === topic)
      if (!found || found.errorCode === ErrorCode.UnknownTopicOrPartition) {
        const hint = 'Create the topic, or correct its name or the brokers. The client may lack permission to see it.'
        throw new RepriseError('NOT_FOUND', `there is no topic ${topic}`, { topic }, undefined, hint)
      }
      await this.#check(`partitions of ${topic}`, found.errorCode, null)
      return found.partitions.map(({ partitionIndex }) => partitionIndex).sort((a, b) => a - b)
    })
  }

  async offset(topic: string, partition: number, at: 'oldest' | 'newest' | number): Promise<number> {
    const timestamp = at === 'oldest' ? -2n : at === 'newest' ? -1n : BigInt(at)
    return await this.#again(`offsets of ${topic}`, topic, async () => {
      const broker = await this.#client.cluster.getLeaderForPartition(topic, partition)
      const request = { topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp }] }] }
      const { topics } = await broker.listOffsets({ ...request, isolationLevel: readCommitted })
      const { errorCode, offset } = topics[0]!.partitions[0]!
      await this.#check(`offsets of ${topic}`, errorCode, topic)
      // No record is that recent.
      return offset < 0n ? await this.offset(topic, partition, 'newest') : Number(offset)
    })
  }

  async fetch(
    topic: string,
    wanted: readonly { readonly partition: number; readonly offset: number }[],
    waitMs: number,
  ): Promise<readonly Fetched[]> {
    const byLeader = await this.#again(`fetch of ${topic}`, topic, async () => {
      const groups = new Map<Broker, { readonly partition: number; readonly offset: number }[]>()
      for (const each of wanted) {
        const leader = await this.#client.cluster.getLeaderForPartition(topic, each.partition)
        const group = groups.get(leader)
        if (group) group.push(each)
        else groups.set(leader, [each])
      }
      return groups
    })
    const all = await Promise.all([...byLeader].map(([leader, group]) => this.#fetchFrom(leader, topic, group, waitMs)))
    return all.flat()
  }

  async begin(id: string, timeoutMs: number, known?: TransactionId): Promise<TransactionId> {
    let isUnanswered = false
    return await this.#again(`begin ${id}`, null, async () => {
      const coordinator = await this.#coordinator(id)
      // A request without an answer may have raised the epoch already: its retry returns that epoch, and is not stale.
      if (known && !isUnanswered) await this.#refuseStale(coordinator, known)
      isUnanswered = true
      const answer = await coordinator.initProducerId({
        ...{ transactionalId: id, transactionTimeoutMs: timeoutMs },
        ...(known && { producerId: known.producerId, producerEpoch: known.epoch }),
      })
      isUnanswered = false
      if (answer.errorCode === ErrorCode.InvalidTransactionTimeout) {
        const what = `the broker does not allow transactions of ${timeoutMs} ms: lower transactionTimeout, or raise its transaction.max.timeout.ms`
        throw new RepriseError('INVALID_ARGUMENT', what, { timeoutMs })
      }
      await this.#checkCoordinator(`begin ${id}`, answer.errorCode, id)
      return { id, producerId: answer.producerId, epoch: answer.producerEpoch }
    })
  }

  /**
   * TRANSACTION_EXPIRED if a newer transaction was begun under this id. The request to begin one is not enough: the broker
   * aborts an open transaction of the newer process before it compares epochs. The end of a transaction is refused by its
   * epoch first, and one that is not open is not changed.
   */
  async #refuseStale(coordinator: Broker, { id, producerId, epoch }: TransactionId): Promise<void> {
    const request = { transactionalId: id, producerId, producerEpoch: epoch, committed: false }
    const { errorCode } = await coordinator.endTxn(request)
    const isRefused = fencing.has(errorCode) || passing.has(errorCode)
    if (isRefused) await this.#checkCoordinator(`begin ${id}`, errorCode, id)
  }

  async addPartitions(transaction: TransactionId, topic: string, partitions: readonly number[]): Promise<void> {
    const { id, producerId, epoch } = transaction
    await this.#again(`add partitions of ${topic} to ${id}`, null, async () => {
      const coordinator = await this.#coordinator(id)
      const answer = await coordinator.addPartitionsToTxn({
        ...{ transactionalId: id, producerId, producerEpoch: epoch },
        topics: [{ name: topic, partitions: [...partitions] }],
      })
      const codes = [
        answer.errorCode,
        ...answer.results.flatMap((each) => each.resultsByPartition.map((p) => p.errorCode)),
      ]
      for (const code of codes) await this.#checkCoordinator(`add partitions of ${topic} to ${id}`, code, id)
    })
  }

  async produce(transaction: TransactionId, topic: string, batches: readonly OutBatch[]): Promise<void> {
    // A retry sends the same bytes with the same sequences: the broker does not store them twice.
    const rest = new Map(batches.map((batch) => [batch.partition, encode(batch, transaction)]))
    await this.#again(`produce to ${topic}`, topic, async () => {
      const byLeader = new Map<Broker, number[]>()
      for (const partition of rest.keys()) {
        const leader = await this.#client.cluster.getLeaderForPartition(topic, partition)
        byLeader.set(leader, [...(byLeader.get(leader) ?? []), partition])
      }
      await Promise.all(
        [...byLeader].map(async ([leader, partitions]) => {
          const { topics } = await leader.produce({
            ...{ transactionalId: transaction.id, acks: -1, timeoutMs: 30_000 },
            topics: [
              { name: topic, partitions: partitions.map((p) => ({ partitionIndex: p, records: rest.get(p)! })) },
            ],
          })
          for (const { partitionIndex, errorCode } of topics[0]!.partitions) {
            if (errorCode !== ErrorCode.DuplicateSequenceNumber)
              await this.#check(`produce to ${topic}`, errorCode, topic)
            rest.delete(partitionIndex)
          }
        }),
      )
    })
  }

  async end({ id, producerId, epoch }: TransactionId, how: 'commit' | 'abort'): Promise<'ended' | 'gone'> {
    const request = { transactionalId: id, producerId, producerEpoch: epoch, committed: how === 'commit' }
    const endOnce = () =>
      this.#again(`${how} ${id}`, null, async () => {
        const coordinator = await this.#coordinator(id)
        const { errorCode } = await coordinator.endTxn(request)
        if (ended.has(errorCode)) return 'gone'
        await this.#checkCoordinator(`${how} ${id}`, errorCode, id)
        return 'ended'
      })
    const outcome = await endOnce()
    // The first answer means that the commit is decided, the second that its markers are written: only then do readers see it.
    return outcome === 'ended' && how === 'commit' ? await endOnce() : outcome
  }

  async commitOffsets(group: string, topic: string, offsets: ReadonlyMap<number, number>): Promise<void> {
    const partitions = [...offsets].map(([partitionIndex, next]) => ({ partitionIndex, committedOffset: BigInt(next) }))
    await this.#again(`offsets of the group ${group}`, null, async () => {
      const coordinator = await this.#coordinator(group, 'GROUP')
      // Sent without membership: the broker accepts it only for a group without members.
      const request = { groupId: group, generationId: -1, memberId: '', topics: [{ name: topic, partitions }] }
      const { topics } = await coordinator.offsetCommit(request)
      for (const { errorCode } of topics.flatMap((each) => each.partitions)) {
        await this.#checkCoordinator(`offsets of the group ${group}`, errorCode, group, 'GROUP')
      }
    })
  }

  /** The time since which a broker that is read from has not answered; null: all answer. */
  get silentSince(): number | null {
    const late = [...this.#answersDue].flatMap(({ at }) => (Date.now() - at > silentAfterMs ? at : []))
    const since = Math.min(...this.#silentSince.values(), ...late)
    return Number.isFinite(since) ? since : null
  }

  async committedOffsets(
    group: string,
    topic: string,
    partitions: readonly number[],
  ): Promise<ReadonlyMap<number, number>> {
    const what = `offsets of the group ${group}`
    return await this.#again(what, null, async () => {
      const coordinator = await this.#coordinator(group, 'GROUP')
      const topics = [{ name: topic, partitions: partitions.map((partitionIndex) => ({ partitionIndex })) }]
      // Stable offsets only: those of an open transaction may still be aborted.
      const answer = await coordinator.offsetFetch({ groupId: group, topics, requireStable: true })
      await this.#checkCoordinator(what, answer.errorCode, group, 'GROUP')
      const committed = new Map<number, number>()
      for (const { partitionIndex, committedOffset, errorCode } of answer.topics.flatMap((each) => each.partitions)) {
        await this.#checkCoordinator(what, errorCode, group, 'GROUP')
        if (committedOffset >= 0n) committed.set(partitionIndex, Number(committedOffset))
      }
      return committed
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#client.disconnect().catch(() => undefined)
  }

  async #fetchFrom(
    leader: Broker,
    topic: string,
    wanted: readonly { readonly partition: number; readonly offset: number }[],
    waitMs: number,
  ): Promise<Fetched[]> {
    const partitions = wanted.map(({ partition, offset }) => ({
      ...{ partitionIndex: partition, fetchOffset: BigInt(offset), partitionMaxBytes: partitionBytes },
    }))
    const limits = { maxWaitMs: waitMs, minBytes: 1, maxBytes: 16 * partitionBytes, isolationLevel: readCommitted }
    let answer: responses.FetchResponse
    const due = { at: Date.now() + waitMs }
    this.#answersDue.add(due)
    try {
      answer = await leader.fetch({ ...limits, topics: [{ topic, partitions }] })
    } catch (error) {
      if (this.#isClosed) throw error
      // The broker is unavailable: its partitions soon have another leader, or it comes back. A broker that accepts connections
      // but never answers is not retried forever.
      const since = this.#silentSince.get(leader.nodeId)
      if (since && Date.now() - since > this.#awayMs)
        throw brokerAway(`fetch of ${topic}`, 'no broker', this.#awayMs, error)
      this.#silentSince.set(leader.nodeId, since ?? Math.min(due.at, Date.now()))
      await this.#client.cluster.refreshMetadata([topic]).catch(() => undefined)
      return wanted.map(({ partition, offset }) => ({ partition, outcome: 'later', records: [], next: offset }))
    } finally {
      this.#answersDue.delete(due)
    }
    this.#silentSince.delete(leader.nodeId)
    const found = new Map(answer.topics.flatMap((each) => each.partitions).map((each) => [each.partitionIndex, each]))
    const fetched: Fetched[] = []
    for (const { partition, offset } of wanted) {
      const response = found.get(partition)
      if (response) fetched.push(await this.#fetchedOf(topic, response, offset))
    }
    return fetched
  }

  async #fetchedOf(topic: string, response: PartitionResponse, from: number): Promise<Fetched> {
    const { partitionIndex: partition, errorCode } = response
    if (errorCode === ErrorCode.OffsetOutOfRange) return { partition, outcome: 'gone', records: [], next: from }
    if (errorCode !== ErrorCode.None) {
      await this.#check(`fetch of ${topic}`, errorCode, topic).catch((error) => {
        // The topic had a leader a moment ago: if it is unknown now, it was deleted.
        if (errorCode === ErrorCode.UnknownTopicOrPartition || !isPassing(error)) throw error
        this.#refused(topic, partition, error)
      })
      return { partition, outcome: 'later', records: [], next: from }
    }
    if (this.#refusedSince.size > 0) this.#refusedSince.delete(`${topic}/${partition}`)
    return { partition, outcome: 'ok', ...(await committedOf(topic, response, from)) }
  }

  /** A permanently broken disk is not retried forever. */
  #refused(topic: string, partition: number, error: unknown): void {
    const key = `${topic}/${partition}`
    const since = this.#refusedSince.get(key) ?? Date.now()
    this.#refusedSince.set(key, since)
    if (Date.now() - since > this.#awayMs) {
      throw brokerAway(`fetch of partition ${partition} of ${topic}`, 'no broker', this.#awayMs, error)
    }
  }

  #coordinator(id: string, kind: 'TRANSACTION' | 'GROUP' = 'TRANSACTION'): Promise<Broker> {
    return this.#client.cluster.getCoordinator(kind, id)
  }

  async #checkCoordinator(
    what: string,
    code: ErrorCode,
    id: string,
    kind: 'TRANSACTION' | 'GROUP' = 'TRANSACTION',
  ): Promise<void> {
    if (code === ErrorCode.NotCoordinator || code === ErrorCode.CoordinatorNotAvailable) {
      this.#client.cluster.invalidateCoordinator(kind, id)
    }
    await this.#check(what, code, null)
  }

  async #check(what: string, code: ErrorCode, topic: string | null): Promise<void> {
    if (code === ErrorCode.None) return
    if (topic !== null && this.#client.cluster.shouldRefreshMetadata(code)) {
      await this.#client.cluster.refreshMetadata([topic]).catch(() => undefined)
    }
    if (fencing.has(code)) {
      const why = 'another process took its place, or the transaction was open for longer than transactionTimeout'
      throw new RepriseError('TRANSACTION_EXPIRED', `${what}: ${why}`)
    }
    throw new Refused(what, code)
  }

  /**
   * Retries until the work succeeds, for as long as brokers may be unavailable. Each retry refreshes the leaders of the topic's
   * partitions: the client itself would do so only after minutes.
   */
  #again<R>(what: string, topic: string | null, work: () => Promise<R>): Promise<R> {
    const prepare = topic === null ? undefined : () => this.#client.cluster.refreshMetadata([topic])
    const isWorthwhile = (error: unknown) => !this.#isClosed && isPassing(error)
    return whileAway({ what, awayMs: this.#awayMs, isPassing: isWorthwhile, prepare }, work)
  }
}

/** The client does not export these classes. */
const unreached = new Set(['ConnectionError', 'ConnectionTimeoutError', 'ConnectionClosedError', 'RequestTimeoutError'])

/** No broker was reached. A refused password or an invalid address is not transient. */
function isUnreached(error: unknown): boolean {
  const { name, cause, retriable } = error as Error & { readonly retriable?: boolean }
  return retriable === true || unreached.has(name) || (cause instanceof Error && unreached.has(cause.name))
}

function isPassing(error: unknown): boolean {
  if (error instanceof RepriseError) return false
  const { errorCode, retriable } = error as { readonly errorCode?: ErrorCode; readonly retriable?: boolean }
  if (error instanceof Refused) return passing.has(error.errorCode)
  // Sent while the connection is being established: the versions that the broker supports are not known yet.
  if (error instanceof UnsupportedVersionError) return error.supportedRange === undefined
  // Broken connections and missing answers.
  return retriable !== false || errorCode === undefined || passing.has(errorCode)
}
