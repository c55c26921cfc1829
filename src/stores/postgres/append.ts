// The hot path: a batch of appends and nothing else, each to a timeline of its own, in one call that locks the heads and
// adds the runs. The call has to be told where the run before each one begins, which is looked up by its key: quicker
// than to search for the last one. It is a hint, and kept only for that: where it is wrong, the call does nothing.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Commit, Guard, Run } from '../../core/ports.ts'
import { isAppendOperation } from '../../core/run.ts'
import type { Connections } from './connect.ts'
import { isMisfit } from './failure.ts'
import { functionName } from './functions.ts'
import { arrayOfTexts, escapeText, isStorable } from './text.ts'

export type Append = Commit & { readonly guard: Guard & { readonly seq: number }; readonly run: Run }

export interface CommitPort {
  readonly connections: Connections
  readonly schema: string
  readonly namespace: number
  readonly lastRuns: LastRuns
}

/** The runs that were appended last, by timeline. One that is not remembered is taken to have one entry. */
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

  note(timeline: TimelineId, { first, count }: Run): void {
    this.#runs.delete(timeline)
    if (count === 1) return
    this.#runs.set(timeline, { first, last: first + count - 1 })
    if (this.#runs.size > this.#max) this.#runs.delete(this.#runs.keys().next().value!)
  }
}

const hotFields: ReadonlySet<string> = new Set(['operation', 'guard', 'run'])

export function isAppendOnly(commits: readonly Commit[]): commits is readonly Append[] {
  const timelines = new Set<string>()
  for (const commit of commits) {
    if (!commit.run || !commit.guard || timelines.has(commit.guard.timeline)) return false
    for (const field in commit) {
      if (!hotFields.has(field) && commit[field as keyof Commit] !== undefined) return false
    }
    if (!isStorable(commit.guard.timeline)) return false
    timelines.add(commit.guard.timeline)
  }
  return true
}

/** False: nothing was done. */
export async function append(port: CommitPort, appends: readonly Append[]): Promise<boolean> {
  try {
    const isDone = appends.length === 1 ? await appendOne(port, appends[0]!) : await appendMany(port, appends)
    if (isDone) for (const { guard, run } of appends) port.lastRuns.note(guard.timeline, run)
    return isDone
  } catch (error) {
    if (isMisfit(error)) return false
    throw error
  }
}

async function appendOne({ connections, schema, namespace, lastRuns }: CommitPort, commit: Append): Promise<boolean> {
  const { guard, run } = commit
  const isDone = await connections.call(functionName(schema, 'append_one'), [
    String(namespace),
    guard.timeline,
    operationOf(commit),
    String(guard.epoch),
    String(guard.seq),
    String(lastRuns.before(guard.timeline, guard.seq)),
    String(run.count),
    asBuffer(run.digest),
    asBuffer(run.bytes),
  ])
  return isDone === 't'
}

async function appendMany(
  { connections, schema, namespace, lastRuns }: CommitPort,
  appends: readonly Append[],
): Promise<boolean> {
  const numbers = sortedById(appends)
  const sorted = numbers.map((number) => appends[number]!)
  const pieces: Uint8Array[] = []
  const starts: number[] = []
  let start = 1
  for (const { run } of sorted) {
    pieces.push(run.digest, run.bytes)
    starts.push(start)
    start += run.digest.length + run.bytes.length
  }
  const isDone = await connections.call(functionName(schema, 'append_many'), [
    String(namespace),
    arrayOfTexts(sorted.map(({ guard }) => guard.timeline)),
    arrayOfTexts(sorted.map(operationOf)),
    arrayOf(sorted.map(({ guard }) => guard.epoch)),
    arrayOf(sorted.map(({ guard }) => guard.seq)),
    arrayOf(sorted.map(({ guard }) => lastRuns.before(guard.timeline, guard.seq))),
    arrayOf(sorted.map(({ run }) => run.count)),
    arrayOf(numbers),
    arrayOf(starts),
    arrayOf(sorted.map(({ run }) => run.bytes.length)),
    Buffer.concat(pieces, start - 1),
  ])
  return isDone === 't'
}

/** Rows are locked in the order of their ids, as everywhere. */
function sortedById(appends: readonly Append[]): number[] {
  const numbers = Array.from(appends, (_, number) => number)
  return numbers.sort((a, b) => (appends[a]!.guard.timeline < appends[b]!.guard.timeline ? -1 : 1))
}

/** Null: the database can tell it from the digest. */
function operationOf({ operation, run }: Append): string | null {
  return isAppendOperation(operation, run.digest) ? null : escapeText(operation)
}

/** Arrays in PostgreSQL's own writing, which is quicker than the driver's. */
function arrayOf(values: readonly number[]): string {
  return `{${values.join(',')}}`
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
