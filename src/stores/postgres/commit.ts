// Committing. A batch that only appends, each commit to a timeline of its own, takes the hot path: one statement for
// all of them. What the hot path leaves undone (a guard that does not hold, an answer asked for again) and everything
// else goes through the general commit, which knows the reasons. Either way: one round trip, one transaction.

import { assert } from '../../core/assert.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Commit, Guard, Head, Outcome, Refusal, Run } from '../../core/ports.ts'
import { callText } from './call.ts'
import type { Connections, RunSql } from './connect.ts'
import { BlobWriter, encodeBatch } from './encode.ts'
import { functionName } from './functions.ts'
import { fromJsonHead } from './rows.ts'
import { escapeText, isStorable } from './text.ts'

type Append = Commit & { readonly guard: Guard & { readonly seq: number }; readonly run: Run }

type Answer =
  | { readonly seq: number; readonly was: boolean }
  | { readonly code: Refusal; readonly reason: string; readonly head?: Readonly<Record<string, unknown>> | null }

export interface CommitPort {
  readonly connections: Connections
  readonly schema: string
  readonly namespace: number
}

/** Commits without riders. */
export async function commitBatch(port: CommitPort, commits: readonly Commit[]): Promise<Outcome[]> {
  if (commits.length === 0) return []
  if (!isAppendOnly(commits)) return commitGeneral(port, commits)
  const done = commits.length === 1 ? await appendOne(port, commits[0]!) : await appendMany(port, commits)
  const rest = commits.filter((commit) => !done.has(commit))
  const others = rest.length === 0 ? [] : await commitGeneral(port, rest)
  return commits.map((commit): Outcome => {
    if (!done.has(commit)) return others.shift()!
    const { guard, run } = commit
    return { ok: true, epoch: guard.epoch, seq: guard.seq + run.count, wasApplied: false }
  })
}

const hotFields: ReadonlySet<string> = new Set(['operation', 'guard', 'run'])

function isAppendOnly(commits: readonly Commit[]): commits is readonly Append[] {
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

async function appendOne({ connections, schema, namespace }: CommitPort, commit: Append): Promise<Set<Commit>> {
  const { guard, run, operation } = commit
  const done = await connections.call(functionName(schema, 'append_one'), [
    String(namespace),
    guard.timeline,
    escapeText(operation),
    String(guard.epoch),
    String(guard.seq),
    String(run.count),
    asBuffer(run.digest),
    asBuffer(run.bytes),
  ])
  return new Set(done === 't' ? [commit] : [])
}

async function appendMany(
  { connections, schema, namespace }: CommitPort,
  appends: readonly Append[],
): Promise<Set<Commit>> {
  const numbered = appends.map((append, number) => ({ ...append, number }))
  // Rows are locked in the order of their ids, as everywhere.
  numbered.sort((a, b) => (a.guard.timeline < b.guard.timeline ? -1 : 1))
  const bytes = new BlobWriter()
  const places = numbered.map(({ run }) => bytes.add(run.bytes))
  const done = await connections.call(functionName(schema, 'append_many'), [
    String(namespace),
    texts(numbered.map(({ guard }) => guard.timeline)),
    texts(numbered.map(({ operation }) => escapeText(operation))),
    numbers(numbered.map(({ guard }) => guard.epoch)),
    numbers(numbered.map(({ guard }) => guard.seq)),
    numbers(numbered.map(({ run }) => run.count)),
    numbers(numbered.map(({ number }) => number)),
    Buffer.concat(numbered.map(({ run }) => run.digest)),
    numbers(places.map(({ start }) => start)),
    numbers(places.map(({ size }) => size)),
    bytes.take(),
  ])
  const positions = (done ?? '').split(',').filter(Boolean)
  return new Set(positions.map((position) => appends[numbered[Number(position) - 1]!.number]!))
}

async function commitGeneral(port: CommitPort, commits: readonly Commit[]): Promise<Outcome[]> {
  const { name, values } = generalCall(port, commits)
  const answers = JSON.parse((await port.connections.call(name, values))!) as Answer[]
  assert(answers.length === commits.length, 'the database answers each commit')
  return commits.map((commit, index) => toOutcome(commit, answers[index]!))
}

/** The same inside a transaction that is already open. */
export async function commitInside(run: RunSql, port: CommitPort, commit: Commit): Promise<Answer> {
  const { name, values } = generalCall(port, [commit])
  const { rows } = await run(callText(name, values.length), values)
  return (rows[0] as { answer: Answer[] }).answer[0]!
}

function generalCall({ schema, namespace }: CommitPort, commits: readonly Commit[]) {
  const { commits: json, make, lock, blob } = encodeBatch(commits)
  return { name: functionName(schema, 'commit'), values: [String(namespace), json, texts(make), texts(lock), blob] }
}

export function toOutcome(commit: Commit, answer: Answer): Outcome {
  if ('code' in answer) {
    return { ok: false, code: answer.code, reason: answer.reason, head: answer.head ? fromJsonHead(answer.head) : null }
  }
  const epoch = commit.guard ? commit.guard.epoch + (commit.take || commit.branch ? 1 : 0) : 0
  return { ok: true, epoch, seq: answer.seq, wasApplied: answer.was }
}

/** Arrays in PostgreSQL's own writing, which is quicker than the driver's. */
function numbers(values: readonly number[]): string {
  return `{${values.join(',')}}`
}

function texts(values: readonly string[]): string {
  return `{${values.map((value) => `"${/["\\]/.test(value) ? value.replace(/["\\]/g, '\\$&') : value}"`).join(',')}}`
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

export function riderFailed(cause: unknown, head: Head | null): Outcome {
  const reason = cause instanceof RepriseError || cause instanceof Error ? cause.message : String(cause)
  return { ok: false, code: 'RIDER_FAILED', reason: `the rider of the commit threw: ${reason}`, head, cause }
}
