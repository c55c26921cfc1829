// A timeline that an import or a move is bringing here (the `coming` of its note, store-change.ts) is created by that change
// only: an empty one in its place would look like the real one, and would refuse it on arrival. Every call that creates a
// timeline, and every message outside of a commit, passes through this one place on its way to the store. Mail in the commit of
// another timeline is accepted: it waits for the arrival, however the change ends (change-actions.ts).

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { Clock, Commit, Head, Outcome, Store } from '../../core/store/ports.ts'
import { isOfStore } from '../model/id-prefixes.ts'
import { movedStatus } from './moved-mark.ts'
import { importingStatus, notesIn } from './store-change.ts'

type Refused = Extract<Outcome, { readonly ok: false }>
type Coming = readonly { readonly change: string; readonly what: string; readonly scopes: readonly string[] }[]

const storeTimeline = timelineId('reprise/store')
/** A process reads the notes at most this often, so the start of a run rarely costs a read. */
export const knownForMs = 50

/** `commit` of a store that refuses to create a timeline that is being transferred (CHANGE_UNFINISHED). */
export function refusingComing(store: Store, clock: Clock): Store['commit'] {
  let noneAt: number | null = null
  return (commits) => {
    const isNone = noneAt !== null && clock.elapsed() - noneAt < knownForMs
    if (isNone || !commits.some(mayMake)) return store.commit(commits)
    return readComing(store).then((coming) => {
      noneAt = coming.length === 0 ? clock.elapsed() : null
      return noneAt === null ? commitOthers(store, commits, coming) : store.commit(commits)
    })
  }
}

async function readComing(store: Store): Promise<Coming> {
  const [head] = await store.head([storeTimeline])
  return head ? comingIn(head) : []
}

/** The id of the unfinished change that creates this timeline; null: there is none. */
export async function arrivingAt({ store }: { readonly store: Store }, id: TimelineId): Promise<string | null> {
  const coming = await readComing(store)
  return coming.find(({ scopes }) => scopes.some((scope) => isWithin(scope, id)))?.change ?? null
}

function comingIn(head: Head): Coming {
  return notesIn(head).flatMap(([change, { kind, of, coming: scopes = [] }]) => {
    return scopes.length === 0 ? [] : [{ change, what: `the ${kind} of ${of}`, scopes }]
  })
}

/** Every commit passes here, and nearly all of them only append. */
function mayMake({ guard, take, send }: Commit): boolean {
  return guard ? take?.create !== undefined : send !== undefined
}

/** The ids that it would create or send mail to. The change's own commits are marked as imports. */
function madeBy({ guard, take, send, status }: Commit): TimelineId[] {
  const made = guard && take?.create && status !== importingStatus ? [guard.timeline] : []
  const mailed = guard ? [] : (send ?? []).map(({ to }) => to as TimelineId)
  return [...made, ...mailed].filter((id) => !isOfStore(id))
}

async function commitOthers(store: Store, commits: readonly Commit[], coming: Coming): Promise<Outcome[]> {
  const refusals = await Promise.all(commits.map((commit) => refusalOf(store, commit, coming)))
  const allowed = commits.filter((_, i) => refusals[i] === null)
  const outcomes = allowed.length === 0 ? [] : [...(await store.commit(allowed))]
  return refusals.map((refusal) => refusal ?? outcomes.shift()!)
}

async function refusalOf(store: Store, commit: Commit, coming: Coming): Promise<Refused | null> {
  for (const id of madeBy(commit)) {
    const found = coming.find(({ scopes }) => scopes.some((scope) => isWithin(scope, id)))
    if (!found) continue
    const [head] = await store.head([id])
    // It is here and whole: the change only finds that it is.
    if (head && head.status !== importingStatus && head.status !== movedStatus) continue
    const reason = `it is being transferred to this store: ${found.what} has not finished. Resume it, or abandon it (reprise changes ${found.change})`
    return { ok: false, code: 'CHANGE_UNFINISHED', reason, head: null }
  }
  return null
}
