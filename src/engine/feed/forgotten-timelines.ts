// The log of forgotten timelines. A missing timeline was forgotten, or the store is an older copy that never had it, and a
// reader of the feed must distinguish the two. So before a timeline is forgotten, the timeline `reprise/forgotten` is taken
// once more: its epoch counts, and an attribute names the last ones. A reader remembers its position in this log; a missing
// timeline that was not named since was lost with the newer copy, and if the log itself went back, everything was lost.
//
// The attribute holds names of a fixed length, newest last, so it does not grow: a short digest of the id, and the start of
// the operation, which distinguishes two copies. An erased timeline leaves no digest of its id.

import { type TimelineId, timelineId, toHex, type WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import type { Commit, Hash, Head, Outcome, Store } from '../../core/store/ports.ts'
import { forwardStore } from '../../core/store/store-wrapper.ts'
import { isOfStore } from '../model/id-prefixes.ts'

export const forgottenTimeline = timelineId('reprise/forgotten')
const attribute = '$last'
const digestLength = 10
const operationLength = 6
const nameLength = digestLength + operationLength
const namesMax = 100
const erased = '-'.repeat(digestLength)
const attemptsMax = 50

/** Wraps a store to record the timelines that a commit is about to forget. */
export function notingForgotten(store: Store, hash: Hash): Store {
  const commit = async (commits: readonly Commit[]): Promise<Outcome[]> => {
    for (const each of commits) await note(store, hash, each)
    return await store.commit(commits)
  }
  return forwardStore(store, {
    commit: (commits) => (commits.some(isForgetting) ? commit(commits) : store.commit(commits)),
  })
}

/** A position in the log. */
export interface ForgottenPoint {
  readonly count: number
  /** '' : none yet, or forgotten by releases without this log. */
  readonly last: string
}

export function forgottenPoint(log: Head | null): ForgottenPoint {
  return { count: log?.epoch ?? 0, last: namesOf(log).at(-1) ?? '' }
}

/** Whether the log was at this point before. False: the point is from another copy. */
export function hasPassed(log: Head | null, point: ForgottenPoint): boolean {
  const now = forgottenPoint(log)
  if (now.count < point.count) return false
  const named = namesOf(log).at(-1 - (now.count - point.count))
  return named === undefined || point.last === '' || named === point.last
}

/** Whether this timeline may have been forgotten since this point of the log. */
export function mayBeForgotten(hash: Hash, log: Head | null, timeline: TimelineId, since: ForgottenPoint): boolean {
  const count = forgottenPoint(log).count - since.count
  if (count <= 0) return false
  const names = namesOf(log)
  if (count > names.length) return true
  const own = digestOf(hash, timeline)
  return names.slice(-count).some((name) => name.startsWith(own) || name.startsWith(erased))
}

/** Changes with every timeline that is erased. */
export function lastErased(log: Head | null): string {
  return (
    namesOf(log)
      .filter((name) => name.startsWith(erased))
      .at(-1) ?? ''
  )
}

function isForgetting({ forget, guard }: Commit): boolean {
  return Boolean(forget) && guard !== null && !isOfStore(guard.timeline)
}

async function note(store: Store, hash: Hash, commit: Commit): Promise<void> {
  if (!isForgetting(commit)) return
  const { timeline } = commit.guard!
  const [there, first] = await store.head([timeline, forgottenTimeline])
  if (!there) return
  const name = (commit.forget === 'erase' ? erased : digestOf(hash, timeline)) + sign(commit)
  for (let attempt = 1, head = first; ; attempt++) {
    const names = [...namesOf(head ?? null), name].slice(-namesMax)
    const [outcome] = await store.commit([
      {
        // A retry after a lost answer is recorded once.
        operation: commit.operation,
        guard: { timeline: forgottenTimeline, epoch: head?.epoch ?? 0 },
        take: {
          worker: 'forgotten' as WorkerId,
          from: 'anyone',
          create: { digest: originDigest(hash, forgottenTimeline) },
        },
        release: true,
        attributes: { [attribute]: names.join('') },
      },
    ])
    if (outcome?.ok) return
    if (attempt >= attemptsMax) {
      throw new RepriseError('CONTENDED', `the removal of ${timeline} could not be recorded: ${outcome?.reason}`, {
        timeline,
      })
    }
    head = outcome?.ok === false ? outcome.head : null
  }
}

function namesOf(head: Head | null): string[] {
  const text = head?.attributes[attribute]
  return typeof text === 'string' ? (text.match(new RegExp(`.{${nameLength}}`, 'g')) ?? []) : []
}

function digestOf(hash: Hash, timeline: TimelineId): string {
  return toHex(originDigest(hash, timeline)).slice(0, digestLength)
}

function sign({ operation }: Commit): string {
  return operation.slice(0, operationLength).padEnd(operationLength, '-')
}
