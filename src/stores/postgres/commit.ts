// Commits. Commits with runs and little else, each to a timeline of its own, take the hot path (write.ts). If that does
// not fit (a guard that does not hold, a repeated commit), and for everything else, there is the general commit, which
// returns the reasons. Either way: one round trip, one transaction.

import { assert } from '../../core/assert.ts'
import { riderFailed } from '../../core/commit/refused.ts'
import type { Commit, Head, Outcome, Refusal } from '../../core/store/ports.ts'
import { callText } from './call.ts'
import type { RunSql } from './connect.ts'
import { encodeBatch } from './encode.ts'
import { functionName } from './functions.ts'
import { changesMark } from './own-tables.ts'
import { fromJsonHead } from './rows.ts'
import { arrayOfTexts } from './text.ts'
import { areWrites, type CommitPort, write } from './write.ts'

type Answer =
  | { readonly seq: number; readonly was: boolean }
  | { readonly code: Refusal; readonly reason: string; readonly head?: Readonly<Record<string, unknown>> | null }

/** Commits without user SQL. */
export async function commitBatch(port: CommitPort, commits: readonly Commit[]): Promise<Outcome[]> {
  if (commits.length === 0) return []
  if (areWrites(commits) && (await write(port, commits))) {
    return commits.map(({ guard, run, take }) => {
      return { ok: true, epoch: guard.epoch + (take ? 1 : 0), seq: guard.seq + run.count, isDuplicate: false }
    })
  }
  return commitGeneral(port, commits)
}

async function commitGeneral(port: CommitPort, commits: readonly Commit[]): Promise<Outcome[]> {
  const { name, values } = generalCall(port, commits)
  const answers = JSON.parse((await port.connections.call(name, values))!) as Answer[]
  assert(answers.length === commits.length, 'the database answers each commit')
  return commits.map((commit, index) => toOutcome(commit, answers[index]!))
}

/**
 * The same inside a transaction that is already open. The mark covers this commit's changes to our tables, and nothing
 * later.
 */
export async function commitInside(
  run: RunSql,
  port: CommitPort,
  commit: Commit,
): Promise<{ readonly answer: Answer; readonly mark: string }> {
  const { name, values } = generalCall(port, [commit])
  // The inner select must run before the outer one: OFFSET separates them, and the mark depends on the answer.
  const called = `(${callText(name, values.length)} OFFSET 0) x`
  const { rows } = await run(`SELECT x.answer, ${changesMark(port.schema, 'x.answer')} AS mark FROM ${called}`, values)
  const { answer, mark } = rows[0] as { readonly answer: Answer[]; readonly mark: string }
  return { answer: answer[0]!, mark }
}

function generalCall({ schema, namespace }: CommitPort, commits: readonly Commit[]) {
  const { commits: json, make, lock, blob } = encodeBatch(commits)
  return {
    name: functionName(schema, 'commit'),
    values: [String(namespace), json, arrayOfTexts(make), arrayOfTexts(lock), blob],
  }
}

export function toOutcome(commit: Commit, answer: Answer): Outcome {
  if ('code' in answer) {
    return { ok: false, code: answer.code, reason: answer.reason, head: answer.head ? fromJsonHead(answer.head) : null }
  }
  const epoch = commit.guard ? commit.guard.epoch + (commit.take || commit.branch ? 1 : 0) : 0
  return { ok: true, epoch, seq: answer.seq, isDuplicate: answer.was }
}

export function riderOutcome(cause: unknown, head: Head | null): Outcome {
  return { ok: false, ...riderFailed(cause), head }
}
