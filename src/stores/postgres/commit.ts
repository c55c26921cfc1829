// Committing. A batch that only appends, each commit to a timeline of its own, takes the hot path: one statement for
// all of them. What the hot path leaves undone (a guard that does not hold, an answer asked for again) and everything
// else goes through the general commit, which knows the reasons. Either way: one round trip, one transaction.

import { assert } from '../../core/assert.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Commit, Guard, Head, Outcome, Refusal, Run } from '../../core/ports.ts'
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
  const text = `SELECT ${functionName(schema, 'append_one')}($1, $2, $3, $4, $5, $6, $7, $8) AS done`
  const values = [
    namespace,
    guard.timeline,
    escapeText(operation),
    guard.epoch,
    guard.seq,
    run.count,
    asBuffer(run.digest),
    asBuffer(run.bytes),
  ]
  const rows = await connections.rows<{ done: boolean }>(text, values, 'unsafe', 'append_one')
  return new Set(rows[0]!.done ? [commit] : [])
}

async function appendMany(
  { connections, schema, namespace }: CommitPort,
  appends: readonly Append[],
): Promise<Set<Commit>> {
  const bytes = new BlobWriter()
  const places = appends.map(({ run }) => bytes.add(run.bytes))
  const text = `SELECT ${functionName(schema, 'append_many')}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS done`
  const values = [
    namespace,
    texts(appends.map(({ guard }) => guard.timeline)),
    texts(appends.map(({ operation }) => escapeText(operation))),
    numbers(appends.map(({ guard }) => guard.epoch)),
    numbers(appends.map(({ guard }) => guard.seq)),
    numbers(appends.map(({ run }) => run.count)),
    Buffer.concat(appends.map(({ run }) => run.digest)),
    numbers(places.map(({ start }) => start)),
    numbers(places.map(({ size }) => size)),
    bytes.take(),
  ]
  const rows = await connections.rows<{ done: string | null }>(text, values, 'unsafe', 'append_many')
  const done = (rows[0]!.done ?? '').split(',').filter(Boolean)
  return new Set(done.map((number) => appends[Number(number) - 1]!))
}

async function commitGeneral(port: CommitPort, commits: readonly Commit[]): Promise<Outcome[]> {
  const { text, values } = generalQuery(port, commits)
  const rows = await port.connections.rows<{ outcomes: Answer[] }>(text, values, 'unsafe', 'commit')
  const answers = rows[0]!.outcomes
  assert(answers.length === commits.length, 'the database answers each commit')
  return commits.map((commit, index) => toOutcome(commit, answers[index]!))
}

/** The same inside a transaction that is already open. */
export async function commitInside(run: RunSql, port: CommitPort, commit: Commit): Promise<Answer> {
  const { text, values } = generalQuery(port, [commit])
  const { rows } = await run(text, values)
  return (rows[0] as { outcomes: Answer[] }).outcomes[0]!
}

function generalQuery({ schema, namespace }: CommitPort, commits: readonly Commit[]) {
  const { commits: json, make, lock, blob } = encodeBatch(commits)
  return {
    text: `SELECT ${functionName(schema, 'commit')}($1, $2, $3, $4, $5) AS outcomes`,
    values: [namespace, json, make, lock, blob],
  }
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
