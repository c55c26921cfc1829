// The writing side of one open timeline: a queue of requests that the group commit turns into commits. Requests that
// only append are packed into one run; any other request has a commit of its own. One commit is in flight at a time, so
// sequence, epoch and digest in memory are always those of the store.

import { assert } from '../../core/assert.ts'
import type { Digest, TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { appendOperation, makeRun, nonceBytes, packEntries } from '../../core/history/entry-run.ts'
import { joinPacked, type PackedEntries, takeOut } from '../../core/history/packed-entries.ts'
import type { Commit, EntryRun, Guard, Outcome, Refusal, Take } from '../../core/store/ports.ts'
import type { Writable } from '../../core/writable.ts'
import { refusalError } from '../base/refusal-error.ts'
import type { Follower } from '../history/state.ts'
import type { Entry } from '../model/entry.ts'
import type { CommitSource, PreparedCommit } from '../storage/batches.ts'
import { type Kernel, newOperation } from '../storage/kernel.ts'
import { sealEntry } from '../storage/seal/entries.ts'
import { type Drafts, noDrafts, pickDrafts } from './drafts.ts'
import { PreparedWrite } from './prepared-write.ts'

/** Parts of a commit besides its entries. */
export type CommitExtras = Omit<Commit, 'operation' | 'guard' | 'run' | 'take' | 'branch'>

export interface Written {
  readonly first: number
  readonly count: number
  /** The entries' keys were in history already: nothing was written. */
  readonly isDuplicate: boolean
  readonly sqlResult: unknown
}

/** Receives the outcome of a request. */
export interface OutcomeReceiver {
  resolve(written: Written): void
  reject(error: unknown): void
}

/** A request and its outcome, in one object: a thousand of them are alive at once. */
class Request {
  readonly drafts: Drafts
  readonly extras: CommitExtras | null
  readonly receiver: OutcomeReceiver
  /** The sequence it must follow, checked when its turn comes: earlier requests in the queue have moved the head by then. */
  readonly expect: number | undefined
  /** The drafts that go into history, and the sequence of the first. */
  fresh: Drafts = noDrafts
  first = 0
  /** The next request: in the queue, then in the same commit. */
  next: Request | null = null

  constructor(drafts: Drafts, extras: CommitExtras | null, receiver: OutcomeReceiver, expect: number | undefined) {
    this.drafts = drafts
    this.extras = extras
    this.receiver = receiver
    this.expect = expect
  }
}

export interface WriterHead {
  readonly seq: number
  readonly epoch: number
  readonly digest: Digest
}

export class Writer implements CommitSource {
  readonly #kernel: Kernel
  readonly #timeline: TimelineId
  readonly #follower: Follower
  readonly #onBroken: (error: RepriseError) => void
  readonly #onWritten: (entries: readonly Entry[], bytes: number) => void
  readonly #onTaken: () => void
  readonly #rebuild: () => Promise<void>
  /** Called at the next moment at which the state is that of the head. */
  #captures: (() => void)[] = []
  readonly #compressAboveBytes: number | undefined
  #isOwner: boolean
  /** Part of the first commit of a writer that is not the owner; it applies only if nothing has moved. */
  #take: Take | null = null
  /** Attributes to write with the take: those that this process declares for the timeline. */
  #declared: CommitExtras['attributes'] | null = null
  #head: WriterHead
  /** The waiting requests: the first of a linked list, and the last. */
  #queued: Request | null = null
  #last: Request | null = null
  #isUnderWay = false
  #broken: RepriseError | null = null

  constructor(
    kernel: Kernel,
    timeline: TimelineId,
    head: WriterHead,
    follower: Follower,
    options: {
      onBroken(error: RepriseError): void
      onWritten(entries: readonly Entry[], bytes: number): void
      onTaken?(): void
      /** Rebuilds the torn state of the follower from history, up to the head. */
      rebuild(): Promise<void>
      readonly compressAboveBytes?: number | undefined
      /** Default: true. */
      readonly isOwner?: boolean
    },
  ) {
    this.#kernel = kernel
    this.#timeline = timeline
    this.#head = head
    this.#follower = follower
    this.#onBroken = options.onBroken
    this.#onWritten = options.onWritten
    this.#onTaken = options.onTaken ?? (() => undefined)
    this.#rebuild = () => options.rebuild()
    this.#compressAboveBytes = options.compressAboveBytes
    this.#isOwner = options.isOwner ?? true
  }

  get timeline(): TimelineId {
    return this.#timeline
  }

  get isOwner(): boolean {
    return this.#isOwner
  }

  /** For a writer that does not own the timeline: its next commit takes it, and applies only if nothing has moved. */
  attempt(take: Take, declared: CommitExtras['attributes'] | null): void {
    if (this.#isOwner) return
    this.#take = take
    this.#declared = declared ?? null
  }

  /** Other processes have written: history is followed up to this point, and the writer works again. */
  renew(head: WriterHead, isOwner: boolean): void {
    assert(!this.#isUnderWay && this.#queued === null, 'a writer is renewed between its commits')
    this.#broken = null
    this.#head = head
    this.#isOwner = isOwner
    this.#take = null
  }

  get head(): WriterHead {
    return this.#head
  }

  get broken(): RepriseError | null {
    return this.#broken
  }

  write(drafts: Drafts, extras: CommitExtras | null, signal?: AbortSignal, expect?: number): Promise<Written> {
    return new Promise((resolve, reject) => this.ask(drafts, extras, { resolve, reject }, signal, expect))
  }

  /** The same without a promise: the asker is called once the entries are durable, applied, and passed to the watchers. */
  ask(
    drafts: Drafts,
    extras: CommitExtras | null,
    receiver: OutcomeReceiver,
    signal?: AbortSignal,
    expect?: number,
  ): void {
    // Entries are sealed when their turn comes; a request that cannot be sealed is refused at once.
    const unsealable = drafts.packed ? this.#kernel.sealer.refusal : null
    const refusal = this.#broken ?? this.#kernel.committer.userCode.refusal() ?? unsealable
    if (refusal) {
      receiver.reject(refusal)
      return
    }
    assert(this.#isOwner || this.#take, 'a writer owns the timeline, or takes it')
    const { committer } = this.#kernel
    const request = new Request(drafts, extras, receiver, expect)
    // No await if there is room: this is the hot path, and appends keep the order of their calls.
    if (committer.tryEnter()) this.#enqueue(request)
    else
      committer.enter(signal).then(
        () => this.#enqueue(request),
        (error) => receiver.reject(error),
      )
  }

  /** The caller has entered the committer; the request leaves it when it is settled. */
  #enqueue(request: Request): void {
    if (this.#broken) {
      this.#reject(request, this.#broken)
      return
    }
    if (this.#last === null) this.#queued = request
    else this.#last.next = request
    this.#last = request
    if (!this.#isUnderWay) this.#kernel.committer.ready(this)
  }

  /** Nothing more can be written through this writer; waiting requests are refused with the reason. */
  break(error: RepriseError): void {
    if (this.#broken) return
    this.#broken = error
    const waiting = this.#queued
    this.#queued = null
    this.#last = null
    this.#rejectAll(waiting, error)
    this.#onBroken(error)
  }

  build(): PreparedCommit | null {
    const extras = this.#queued?.extras ?? null
    if (this.#isUnderWay || this.#broken || this.#queued === null) return null
    this.#follower.begin()
    let taken: Request | null = null
    let lastTaken: Request | null = null
    // The entries of a single request, the usual case, are not copied; those of several are joined.
    let entries: readonly Entry[] = none
    let joined: Entry[] | null = null
    let bytes = 0
    while (this.#queued !== null) {
      const request: Request = this.#queued
      if (taken && (request.extras || extras || !this.#fits(entries.length, bytes, request))) break
      this.#queued = request.next
      if (request.next === null) this.#last = null
      request.next = null
      const fresh = this.#fresh(request.drafts, entries)
      const seq = this.#head.seq + entries.length
      // Entries already in history met their expectation when they were written, and do not conflict now.
      if (request.expect !== undefined && request.expect !== seq && fresh.packed) {
        this.#reject(request, this.#unexpected(seq, request.expect))
        continue
      }
      const refused = this.#offer(fresh.entries, seq + 1)
      if (refused && this.#follower.isTorn) {
        this.#requeue(taken, lastTaken)
        this.#mend(() => this.#reject(request, refused))
        return null
      }
      if (refused) {
        this.#reject(request, refused)
        continue
      }
      request.fresh = fresh
      request.first = seq + 1
      if (lastTaken) lastTaken.next = request
      else taken = request
      lastTaken = request
      if (fresh.packed) bytes += fresh.packed.end - fresh.packed.start
      if (entries.length === 0) entries = fresh.entries
      else {
        joined ??= [...entries]
        for (const entry of fresh.entries) joined.push(entry)
        entries = joined
      }
      if (extras) break
    }
    return taken && this.#prepare(taken, entries, extras)
  }

  /** Back to the front of the queue: they are offered again once the state is rebuilt. */
  #requeue(first: Request | null, last: Request | null): void {
    if (!first || !last) return
    last.next = this.#queued
    this.#queued = first
    this.#last ??= last
  }

  /** Rebuilds the state if it is torn, then calls `settle`: a rejected caller reads a state that history has. */
  #mend(settle: () => void): void {
    const settled = () => {
      this.#isUnderWay = false
      this.#capture()
      settle()
      if (this.#queued && !this.#broken) this.#kernel.committer.ready(this)
    }
    if (!this.#follower.isTorn) {
      settled()
      return
    }
    this.#isUnderWay = true
    this.#rebuild().then(settled, (error: unknown) => {
      settled()
      this.#breakOver(error, null)
    })
  }

  /** Calls it when the state is exactly that of the head: at once, or when the commit in progress is settled. */
  atHead(call: () => void): void {
    if (this.#isUnderWay && (this.#follower.isAhead || this.#follower.isTorn)) this.#captures.push(call)
    else call()
  }

  #capture(): void {
    if (this.#captures.length === 0) return
    const calls = this.#captures
    this.#captures = []
    for (const call of calls) call()
  }

  #unexpected(seq: number, expect: number): RepriseError {
    const timeline = this.#timeline
    return new RepriseError('CONFLICT', `${timeline} is at ${seq}, not at ${expect}`, { timeline, seq, expect })
  }

  #fits(count: number, bytes: number, { drafts: { entries, packed } }: Request): boolean {
    const { runEntries, runBytes } = this.#kernel.limits
    const more = packed ? packed.end - packed.start : 0
    return count + entries.length <= runEntries && bytes + more <= runBytes
  }

  /** Without the drafts whose keys are in history already. */
  #fresh(submitted: Drafts, entries: readonly Entry[]): Drafts {
    const { keys } = submitted
    if (!keys) return submitted
    return pickDrafts(submitted, (index) => keys[index] === undefined || !this.#isKnown(keys[index], entries))
  }

  #isKnown(key: string, entries: readonly Entry[]): boolean {
    if (this.#kernel.planted.has('skip-dedupe')) return false
    return this.#follower.hasKey(key, this.#kernel.hash) || entries.some((entry) => entry.key === key)
  }

  /** Sets sequence and epoch, and passes the entries to the follower, which may refuse them before they are written. */
  #offer(entries: readonly Writable<Entry>[], first: number): Error | null {
    const epoch = this.#nextEpoch
    try {
      for (let i = 0; i < entries.length; i++) {
        const entry = entries[i]!
        entry.seq = first + i
        entry.epoch = epoch
      }
      this.#follower.prepare(entries)
      return null
    } catch (error) {
      return error instanceof Error ? error : new RepriseError('FOLD_FAILED', String(error), {}, error)
    }
  }

  #prepare(taken: Request, entries: readonly Entry[], extras: CommitExtras | null): PreparedCommit | null {
    if (entries.length === 0 && !extras) {
      this.#follower.discard()
      this.#resolveAll(taken, undefined)
      if (this.#queued) this.#kernel.committer.ready(this)
      return null
    }
    const run = entries.length > 0 ? this.#pack(taken, entries.length) : null
    const { seq, epoch, digest } = this.#head
    const guard = { timeline: this.#timeline, epoch, seq, digest }
    const take = this.#take
    const commit: Commit =
      run && !extras && !take
        ? { operation: appendOperation(run.digest), guard, run }
        : this.#wholeCommit(extras, guard, run)
    this.#isUnderWay = true
    return new PreparedWrite(this, commit, run, taken, entries)
  }

  #wholeCommit(extras: CommitExtras | null, guard: Guard, run: EntryRun | null): Commit {
    const commit: Writable<Commit> = { ...extras, operation: newOperation(this.#kernel.random), guard }
    if (run) commit.run = run
    return this.#take ? Object.assign(commit, this.#taking(extras)) : commit
  }

  #taking(extras: CommitExtras | null): Pick<Commit, 'take' | 'attributes'> {
    if (!this.#take) return {}
    const attributes = this.#declared && { ...extras?.attributes, ...this.#declared }
    return { take: this.#take, ...(attributes && { attributes }) }
  }

  /** The epoch of the next commit. */
  get #nextEpoch(): number {
    return this.#head.epoch + (this.#take ? 1 : 0)
  }

  #pack(taken: Request, count: number): EntryRun {
    const { hash, sealer, random } = this.#kernel
    const { seq, digest } = this.#head
    const nonce = this.#take && !this.#kernel.planted.has('no-nonce') ? random.bytes(nonceBytes) : null
    const place = { before: digest, first: seq + 1, epoch: this.#nextEpoch, nonce }
    const aboveBytes = this.#compressAboveBytes
    const { packed } = taken.fresh
    if (packed && taken.next === null && sealer.isBare(packed.longest, aboveBytes)) {
      return makeRun(hash, place, packed, count)
    }
    const parts = packedOf(taken)
    const isBare = parts.every(({ longest }) => sealer.isBare(longest, aboveBytes))
    const joined = isBare ? joinPacked(parts) : null
    if (joined) return makeRun(hash, place, joined, count)
    const sealed = parts.flatMap(takeOut).map((draft, i) => sealEntry(sealer, draft, digest, i, aboveBytes))
    return packEntries(hash, place, sealed)
  }

  /** @internal */
  settle(outcome: Outcome, { run, taken, entries, bytes }: PreparedWrite<Request>): void {
    if (!outcome.ok) {
      this.#follower.discard()
      const error = refusalError(this.#timeline, outcome)
      // A failed guard means that the head moved: this writer's head is outdated.
      const isLost = this.#isLost(outcome.code, run !== null)
      this.#mend(() => {
        this.#rejectAll(taken, error)
        if (isLost) this.break(error)
      })
      return
    }
    this.#isUnderWay = false
    const isTaken = this.#take !== null
    const epoch = this.#nextEpoch
    this.#take = null
    this.#isOwner = true
    if (run) {
      try {
        assert(outcome.seq === this.#head.seq + run.count, 'the head moves by the appended entries')
        assert(outcome.epoch === epoch, 'a run has the epoch of its writer')
      } catch (error) {
        this.#breakOver(error, taken)
        this.#capture()
        return
      }
      this.#head = { seq: outcome.seq, epoch, digest: run.digest }
    } else if (isTaken) this.#head = { ...this.#head, epoch }
    if (isTaken) this.#onTaken()
    const isFollowed = this.#follow(taken, entries)
    this.#capture()
    if (isFollowed) {
      this.#notify(entries, bytes)
      this.#resolveAll(taken, outcome.sqlResult)
    }
    if (this.#queued && !this.#broken) this.#kernel.committer.ready(this)
  }

  #isLost(code: Refusal, isAppend: boolean): boolean {
    if (code === 'FENCED' || code === 'NOT_FOUND') return true
    if (this.#take && (code === 'OWNED' || code === 'WORKER_RETIRED')) return true
    return code === 'CONFLICT' && (isAppend || this.#take !== null)
  }

  #follow(taken: Request, entries: readonly Entry[]): boolean {
    try {
      this.#follower.accept()
      this.#kernel.worker.progressed(entries.length)
      return true
    } catch (error) {
      this.#breakOver(error, taken)
      return false
    }
  }

  #notify(entries: readonly Entry[], bytes: number): void {
    try {
      this.#onWritten(entries, bytes)
    } catch (error) {
      this.#breakOver(error, null)
    }
  }

  /** The entries are durable but the state cannot follow: this handle must not be used further. */
  #breakOver(error: unknown, taken: Request | null): void {
    const failure = error instanceof RepriseError ? error : new RepriseError('FOLD_FAILED', String(error), {}, error)
    this.#rejectAll(taken, failure)
    this.break(failure)
  }

  #resolveAll(taken: Request, sqlResult: unknown): void {
    for (let request: Request | null = taken; request; request = request.next) {
      const { drafts, fresh, first, receiver } = request
      const count = fresh.entries.length
      this.#kernel.committer.leave()
      receiver.resolve({ first, count, isDuplicate: drafts.packed !== null && count === 0, sqlResult })
    }
  }

  /** @internal */
  fail(error: unknown, taken: Request): void {
    this.#follower.discard()
    this.#mend(() => {
      this.#rejectAll(taken, error)
      // The commit may be stored: this writer's head may be outdated.
      if (isReprise(error, 'OUTCOME_UNKNOWN', 'STORE_MOVED')) this.break(error)
    })
  }

  /** Rejects this request and those after it. */
  #rejectAll(first: Request | null, error: unknown): void {
    for (let request = first; request; request = request.next) this.#reject(request, error)
  }

  #reject(request: Request, error: unknown): void {
    this.#kernel.committer.leave()
    request.receiver.reject(error)
  }
}

const none: readonly never[] = []

function packedOf(taken: Request): PackedEntries[] {
  const parts: PackedEntries[] = []
  for (let request: Request | null = taken; request; request = request.next) {
    if (request.fresh.packed) parts.push(request.fresh.packed)
  }
  return parts
}
