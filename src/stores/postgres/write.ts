// The hot path: commits with a run, each to a timeline of its own, that append, create their timeline, or also change
// some fields of its row. One call does them all, as sets. The caller passes where the previous run of each begins,
// which is looked up by key: faster than searching for the last run. It is a hint, and kept only for that: if it is
// wrong, or anything else does not fit, the call does nothing.

import { type Digest, type TimelineId, toHex } from '../../core/coordinate.ts'
import { isAppendOperation } from '../../core/history/entry-run.ts'
import type { Commit, EntryRun, Guard } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { encodeFields } from './encode.ts'
import { isMisfit } from './failure.ts'
import { functionName } from './functions.ts'
import { arrayOfTexts, escapeText, isStorable } from './text.ts'

export type Write = Commit & {
  readonly guard: Guard & { readonly seq: number; readonly digest: Digest }
  readonly run: EntryRun
}

export interface CommitPort {
  readonly connections: Connections
  readonly schema: string
  readonly namespace: number
  readonly lastRuns: LastRuns
}

/** The runs that were appended last, by timeline. An unknown run is assumed to have one entry. */
export class LastRuns {
  readonly #runs = new Map<TimelineId, { readonly first: number; readonly last: number }>()
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  /** Where the run that ends at this sequence begins. */
  before(timeline: TimelineId, seq: number): number {
    const run = this.#runs.get(timeline)
    return run?.last === seq ? run.first : seq
  }

  note(timeline: TimelineId, { first, count }: EntryRun): void {
    this.#runs.delete(timeline)
    if (count === 1) return
    this.#runs.set(timeline, { first, last: first + count - 1 })
    if (this.#runs.size > this.#max) this.#runs.delete(this.#runs.keys().next().value!)
  }
}

type Fields = Readonly<Partial<Record<keyof Commit, true>>>

const appendFields: Fields = { operation: true, guard: true, run: true }
const setFields: Fields = {
  ...appendFields,
  unlessMail: true,
  release: true,
  wakeup: true,
  queue: true,
  priority: true,
  status: true,
}
const makeFields: Fields = { ...setFields, take: true, attributes: true }

export function areWrites(commits: readonly Commit[]): commits is readonly Write[] {
  const timelines = new Set<string>()
  for (const commit of commits) {
    const { guard, run, take } = commit
    if (
      !run ||
      guard?.seq === undefined ||
      guard.digest?.length !== 32 ||
      timelines.has(guard.timeline) ||
      !isStorable(guard.timeline)
    )
      return false
    if (take && !isMaking(commit)) return false
    if (!hasOnly(commit, take ? makeFields : setFields)) return false
    timelines.add(guard.timeline)
  }
  return true
}

/** A timeline created from nothing; forks need more checks. */
function isMaking({ guard, take }: Commit): boolean {
  const create = take?.create
  return (
    create !== undefined && !create.base && !create.floor && !create.copyOf && guard?.epoch === 0 && guard.seq === 0
  )
}

function hasOnly(commit: Commit, fields: Fields): boolean {
  for (const field in commit) {
    if (!(field in fields) && commit[field as keyof Commit] !== undefined) return false
  }
  return true
}

/** False: nothing was done. */
export async function write(port: CommitPort, writes: readonly Write[]): Promise<boolean> {
  try {
    const [first] = writes
    const isDone =
      writes.length === 1 && hasOnly(first!, appendFields)
        ? await appendOne(port, first!)
        : await writeMany(port, writes)
    if (isDone) for (const { guard, run } of writes) port.lastRuns.note(guard.timeline, run)
    return isDone
  } catch (error) {
    if (isMisfit(error)) return false
    throw error
  }
}

async function appendOne({ connections, schema, namespace, lastRuns }: CommitPort, commit: Write): Promise<boolean> {
  const { guard, run } = commit
  const isDone = await connections.call(functionName(schema, 'append_one'), [
    String(namespace),
    guard.timeline,
    operationOf(commit),
    String(guard.epoch),
    String(guard.seq),
    String(lastRuns.before(guard.timeline, guard.seq)),
    String(run.count),
    asBuffer(guard.digest),
    asBuffer(run.digest),
    asBuffer(run.bytes),
  ])
  return isDone === 't'
}

async function writeMany(
  { connections, schema, namespace, lastRuns }: CommitPort,
  writes: readonly Write[],
): Promise<boolean> {
  const numbers = sortedById(writes)
  const pieces: Uint8Array[] = []
  const made: unknown[] = []
  const set = new Map<string, number[]>()
  const ids: string[] = []
  const operations: (string | null)[] = []
  let hasOperation = false
  // Arrays in PostgreSQL's text form, which is faster than the driver's, written in one pass.
  let epochs = ''
  let seqs = ''
  let befores = ''
  let counts = ''
  let starts = ''
  let sizes = ''
  let start = 1
  let comma = ''
  for (const number of numbers) {
    const commit = writes[number]!
    const { guard, run, take } = commit
    const operation = operationOf(commit)
    ids.push(guard.timeline)
    operations.push(operation)
    hasOperation ||= operation !== null
    pieces.push(guard.digest, run.digest, run.bytes)
    epochs += `${comma}${take ? 1 : guard.epoch}`
    seqs += `${comma}${guard.seq}`
    befores += `${comma}${lastRuns.before(guard.timeline, guard.seq)}`
    counts += `${comma}${run.count}`
    starts += `${comma}${start}`
    sizes += `${comma}${run.bytes.length}`
    comma = ','
    start += guard.digest.length + run.digest.length + run.bytes.length
    if (take) made.push(encodeMade(commit))
    else if (!hasOnly(commit, appendFields)) push(set, JSON.stringify(encodeFields(commit)), ids.length)
  }
  const isDone = await connections.call(functionName(schema, 'write_many'), [
    String(namespace),
    arrayOfTexts(ids),
    hasOperation ? arrayOfTexts(operations) : null,
    `{${epochs}}`,
    `{${seqs}}`,
    `{${befores}}`,
    `{${counts}}`,
    `{${numbers}}`,
    `{${starts}}`,
    `{${sizes}}`,
    Buffer.concat(pieces, start - 1),
    made.length > 0 ? JSON.stringify(made) : null,
    set.size > 0 ? encodeSet(set) : null,
  ])
  return isDone === 't'
}

/** The row of a new timeline. */
function encodeMade(commit: Write) {
  const { guard, take, operation, release } = commit
  const worker = escapeText(take!.worker)
  return {
    ...encodeFields(commit),
    id: guard.timeline,
    op: escapeText(operation),
    digest: toHex(take!.create!.digest),
    life: take!.create!.life ?? 1,
    worker,
    owner: release ? null : worker,
  }
}

function push(set: Map<string, number[]>, fields: string, at: number): void {
  const same = set.get(fields)
  if (same) same.push(at)
  else set.set(fields, [at])
}

/** Equal changes become one statement: where many runs end at once, most changes are equal. */
function encodeSet(set: ReadonlyMap<string, readonly number[]>): string {
  const each = Array.from(set, ([fields, at]) => `{"at":[${at}]${fields === '{}' ? '' : `,${fields.slice(1, -1)}`}}`)
  return `[${each}]`
}

/** Rows are locked in the order of their ids, as everywhere. */
function sortedById(writes: readonly Write[]): number[] {
  const numbers = Array.from(writes, (_, number) => number)
  return numbers.sort((a, b) => (writes[a]!.guard.timeline < writes[b]!.guard.timeline ? -1 : 1))
}

/** Null: the database derives it from the digest. */
function operationOf({ operation, run }: Write): string | null {
  return isAppendOperation(operation, run.digest) ? null : escapeText(operation)
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
