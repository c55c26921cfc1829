// The short way for what nearly every commit is: an append and nothing else, by an owner who knows the head. It does the
// same as transition.ts and gives up (null) wherever that would refuse or do more.

import type { Commit, Outcome } from '../../core/ports.ts'
import { copyDigest } from './head-state.ts'
import type { Writing } from './writing.ts'

export function isAppend(commit: Commit): boolean {
  for (const field in commit) if (field !== 'operation' && field !== 'guard' && field !== 'run') return false
  const { guard, run, operation } = commit
  if (!guard || !run || typeof operation !== 'string' || operation === '') return false
  return run.first === guard.seq! + 1 && Number.isSafeInteger(run.count) && run.count > 0 && run.digest.length === 32
}

export function tryAppend(writing: Writing, { guard, run, operation }: Commit): Outcome | null {
  const timeline = writing.timelines.kept(guard!.timeline)
  if (!timeline || timeline.row.isStub) return null
  const { tid, name, row, head } = timeline
  const { epoch, floor, floorDigest, base, owner } = head
  if (epoch !== guard!.epoch || head.seq !== guard!.seq || head.operation === operation) return null
  writing.frames.push({ tid, previous: head.position, before: head.digest, run: run! })
  const seq = run!.first + run!.count - 1
  const digest = copyDigest(run!.digest)
  const { position, now: updatedAt } = writing
  const after = { seq, epoch, digest, position, floor, floorDigest, base, owner, operation, updatedAt }
  writing.timelines.putHead({ tid, name, row, head: after })
  return { ok: true, epoch, seq, wasApplied: false }
}
