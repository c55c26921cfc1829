// The building blocks of the conformance tests: a fresh world for each test, writers that track a timeline's head, and
// builders for the records of a store. Nothing here knows which store is under test, nor which test runner.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from '../../core/coordinate.ts'
import { toHex } from '../../core/coordinate.ts'
import { type ErrorCode, isReprise } from '../../core/errors.ts'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import {
  type Commit,
  type EntryRun,
  type FeedItem,
  feedStart,
  type Guard,
  type Hash,
  type Head,
  type ManifestRecord,
  type Outcome,
  type OutgoingMessage,
  type Refusal,
  type Store,
  type Take,
  type WorkerRecord,
} from '../../core/store/ports.ts'

export interface Capabilities {
  /** User SQL can run. Without it `userSql` is still called. */
  readonly sql?: boolean
  /** listen() calls after commits. Default: true. */
  readonly listen?: boolean
  /**
   * A sharded store: each shard has its own order of the feed and of claims and knows its own checkpoint ids, and a chunk may
   * exist more than once. Default: false.
   */
  readonly isSharded?: boolean
  /** workers() reports when a worker's process ended without retiring (isGone). Default: false. */
  readonly presence?: boolean
}

/** With `readOnly`: a store that writes nothing. */
export type OpenStore = (namespace?: string, options?: { readonly readOnly?: boolean }) => Promise<Store>

/** A fresh, empty world per test. open() may be called several times; each call acts like another process on that world. */
export interface Harness {
  readonly name: string
  create(): Promise<{ open: OpenStore; destroy(): Promise<void> }>
  readonly capabilities?: Capabilities
  /** Seeds of the random histories; an empty list skips them. Default: a fixed few. */
  readonly seeds?: readonly number[]
}

export type Test = (title: string, body: (kit: Kit) => Promise<void>) => void
export type Success = Extract<Outcome, { ok: true }>
type Parts = Partial<Omit<Commit, 'guard'>>

const longLeaseMs = 600_000
export const patienceMs = 10_000

export const hash: Hash = (bytes) => new Uint8Array(createHash('sha256').update(bytes).digest())

export const asTimeline = (text: string): TimelineId => text as TimelineId
export const asWorker = (text: string): WorkerId => text as WorkerId
export const asManifest = (text: string): ManifestId => text as ManifestId
export const asMessage = (text: string): MessageId => text as MessageId
export const asOperation = (text: string): OperationId => text as OperationId

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export class Kit {
  readonly store: Store
  readonly open: OpenStore
  readonly capabilities: Capabilities
  #operations = 0

  constructor(store: Store, open: OpenStore, capabilities: Capabilities) {
    this.store = store
    this.open = open
    this.capabilities = capabilities
  }

  /** A new operation id for every attempt. */
  operation(): OperationId {
    this.#operations += 1
    return asOperation(`operation-${this.#operations}`)
  }

  /** Creates the timeline and takes it. */
  async create(id: string, options: { worker?: string; store?: Store; create?: Take['create'] } = {}): Promise<Writer> {
    const writer = new Writer(this, options.store ?? this.store, id, options.worker ?? 'worker-1')
    if (options.create?.base) {
      writer.seq = options.create.base.seq
      writer.digest = options.create.base.digest
    }
    const [past] = await writer.store.past([writer.id])
    writer.epoch = past!.epoch
    writer.life = options.create?.copyOf?.life ?? past!.life + 1
    expectOk(await writer.take({ create: options.create ?? { digest: writer.digest } }))
    return writer
  }

  /** A writer that has not created or taken anything yet. */
  writerOf(id: string): Writer {
    return new Writer(this, this.store, id, 'worker-1')
  }

  async head(id: string, store: Store = this.store): Promise<Head> {
    const [head] = await store.head([asTimeline(id)])
    assert.ok(head, `timeline ${id} is there`)
    return head
  }

  async isThere(id: string, store: Store = this.store): Promise<boolean> {
    const [head] = await store.head([asTimeline(id)])
    return head !== null
  }

  /** Beats as a live worker. */
  async beat(id: string, changes: Partial<WorkerRecord> = {}, store: Store = this.store): Promise<boolean> {
    return (await store.beat(worker(id, changes))).ok
  }

  /** The store's own time. */
  async now(): Promise<number> {
    return (await this.store.beat(worker('clock'))).now
  }

  async send(to: string, id: string, text = id): Promise<void> {
    const commit: Commit = { operation: this.operation(), guard: null, send: [message(to, id, text)] }
    expectOk((await this.store.commit([commit]))[0])
  }

  async inboxIds(id: string, limit = 100): Promise<string[]> {
    return (await this.store.inbox(asTimeline(id), limit)).messages.map((found) => found.id)
  }

  async checkpointIds(id: string): Promise<string[]> {
    return (await this.store.checkpoints(asTimeline(id))).map((found) => found.id)
  }

  readFeed(prefixes?: readonly string[], limit = 100, store: Store = this.store): Promise<FeedItem[]> {
    return wholeFeed(store, prefixes, limit)
  }
}

/**
 * Reads the feed to its end: an open transaction on the same server can hide its last items for a moment. Tests of single
 * pages read the whole feed first: items that were visible once stay visible.
 */
export async function wholeFeed(store: Store, prefixes?: readonly string[], limit = 1000): Promise<FeedItem[]> {
  const items: FeedItem[] = []
  for (let after = feedStart; ; ) {
    const page = await store.feed(after, prefixes ? { prefixes } : {}, limit)
    items.push(...page.items)
    if (page.isEnd) return items
    if (page.next === after) await new Promise((resolve) => setTimeout(resolve, 5))
    after = page.next
  }
}

/** Writes to a timeline and trusts the last outcome it received. */
export class Writer {
  readonly kit: Kit
  readonly store: Store
  readonly id: TimelineId
  readonly worker: WorkerId
  life = 1
  epoch = 0
  seq = 0
  digest: Digest

  constructor(kit: Kit, store: Store, id: string, worker: string) {
    this.kit = kit
    this.store = store
    this.id = asTimeline(id)
    this.worker = asWorker(worker)
    this.digest = originDigest(hash, this.id)
  }

  /** A writer with the same beliefs in another process: a zombie. */
  twin(store: Store = this.store): Writer {
    const twin = new Writer(this.kit, store, this.id, this.worker)
    twin.life = this.life
    twin.epoch = this.epoch
    twin.seq = this.seq
    twin.digest = this.digest
    return twin
  }

  take(take: Partial<Take> = {}): Promise<Outcome> {
    return this.commit({ take: { worker: this.worker, from: 'anyone', ...take } })
  }

  run(...texts: readonly string[]): EntryRun {
    const drafts = texts.map((text) => ({ type: 'noted', version: 1, time: 1_700_000_000_000, data: utf8(text) }))
    return packEntries(hash, { before: this.digest, first: this.seq + 1, epoch: this.epoch }, drafts)
  }

  async append(...texts: readonly string[]): Promise<EntryRun> {
    const run = this.run(...texts)
    expectOk(await this.commit({ run }))
    return run
  }

  /** The head as this writer believes it to be. */
  get guard(): Guard & { readonly seq: number; readonly digest: Digest } {
    return { timeline: this.id, epoch: this.epoch, seq: this.seq, digest: this.digest }
  }

  /** A commit under this writer's epoch, sequence and digest. */
  plan(parts: Parts): Commit {
    const guard = parts.forget ? { ...this.guard, life: this.life } : this.guard
    return { operation: this.kit.operation(), ...parts, guard }
  }

  async commit(parts: Parts): Promise<Outcome> {
    const commit = this.plan(parts)
    const [outcome] = await this.store.commit([commit])
    assert.ok(outcome, 'there is an outcome for the commit')
    if (outcome.ok) this.accept(commit)
    return outcome
  }

  /** Updates the beliefs as if the commit had been acknowledged. */
  accept(commit: Commit): void {
    if (commit.take || commit.branch) this.epoch += 1
    if (commit.branch) {
      this.seq = commit.branch.seq
      this.digest = commit.branch.digest
    }
    if (commit.run) {
      this.seq = commit.run.first + commit.run.count - 1
      this.digest = commit.run.digest
    }
  }

  /** A checkpoint at this writer's head. */
  manifest(id: string, changes: Partial<ManifestRecord> = {}): ManifestRecord {
    const body = utf8(`manifest ${id}`)
    return {
      id: asManifest(id),
      seq: this.seq,
      epoch: this.epoch,
      digest: this.digest,
      body,
      bodyDigest: hash(body),
      baseId: null,
      createdAt: 1_700_000_000_000,
      trigger: 'count',
      label: null,
      isPinned: false,
      foldVersion: '1',
      totalBytes: 1000,
      addedBytes: 10,
      verifiedAt: null,
      invalid: null,
      drilledAt: null,
      drill: null,
      ...changes,
    }
  }

  async publish(id: string, changes: Partial<ManifestRecord> = {}): Promise<void> {
    expectOk(await this.commit({ publish: [this.manifest(id, changes)] }))
  }
}

export function worker(id: string, changes: Partial<WorkerRecord> = {}): WorkerRecord {
  return {
    id: asWorker(id),
    name: id.split('#')[0]!,
    host: 'host-a',
    process: 'pid 7 started 1',
    leaseMs: longLeaseMs,
    info: {},
    progress: 0,
    ...changes,
  }
}

export function message(to: string, id: string, text = id): OutgoingMessage {
  return { id: asMessage(id), to: asTimeline(to), kind: 'signal', data: utf8(text) }
}

export function expectOk(outcome: Outcome | undefined): Success {
  assert.ok(outcome, 'there is an outcome')
  if (!outcome.ok) assert.fail(`expected success, got ${outcome.code}: ${outcome.reason}`)
  return outcome
}

export function expectRefused(outcome: Outcome | undefined, code: Refusal): Extract<Outcome, { ok: false }> {
  assert.ok(outcome, 'there is an outcome')
  if (outcome.ok) assert.fail(`expected ${code}, got success`)
  assert.equal(outcome.code, code, outcome.reason)
  assert.equal(typeof outcome.reason, 'string')
  return outcome
}

export async function expectRejection(work: () => unknown, code: ErrorCode): Promise<void> {
  await assert.rejects(
    async () => await work(),
    (error) => isReprise(error, code) || assert.fail(`expected ${code}, got ${error}`),
  )
}

/** Waits for a condition that depends on a lease or a notification; the duration is never asserted. */
export async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + patienceMs
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `timed out waiting: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Makes records comparable by value, whatever kind of byte array a driver returns. */
export function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return `bytes ${toHex(value)}`
  if (Array.isArray(value)) return value.map(plain)
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(
      Object.entries(value)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, field]) => [key, plain(field)]),
    )
  }
  return value
}

export function assertSame(actual: unknown, expected: unknown, what: string): void {
  assert.deepEqual(plain(actual), plain(expected), what)
}
