// Repairs damaged history from any intact copy. No copy is trusted: a run is accepted if it follows from the history before the
// damage and leads to the store's history after it, by the digests of the chain. A copy of another branch fails both checks.

import { equalBytes } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { lastSeq, verifyEntries } from '../../../core/history/entry-run.ts'
import { isRedacted } from '../../../core/history/redacted-run.ts'
import type { EntryRun, Head } from '../../../core/store/ports.ts'
import { confirmErased, erasureOf } from '../../history/erasures.ts'
import type { Point } from '../../history/history.ts'
import type { Kernel } from '../../storage/kernel.ts'
import type { RepairSource } from './source.ts'

export interface MendableRun {
  readonly run: EntryRun
  /** The name of the source. */
  readonly from: string
}

export type Mending =
  /** The runs to put into place; empty: history is intact. */
  | { readonly runs: readonly MendableRun[] }
  /** No source has the history after this point, or their history leads elsewhere. */
  | { readonly missingAfter: Point; readonly why: string }

const pageBytes = 4 * 1024 * 1024
const attemptsMax = 3

/** Finds the missing parts of this timeline's own history. Changes nothing. */
export async function planMending(kernel: Kernel, head: Head, sources: readonly RepairSource[]): Promise<Mending> {
  const own = head.base && head.floor < head.base.seq ? head.base : { seq: head.floor, digest: head.floorDigest }
  const found: MendableRun[] = []
  /** Runs from sources that do not yet connect to the store's own. */
  let unjoined: MendableRun[] = []
  let at: Point = { seq: own.seq, digest: own.digest }
  let firstUnjoined: Point = at
  while (at.seq < head.seq) {
    const sound = await soundRuns(kernel, head, at)
    if (sound.length > 0) {
      found.push(...unjoined)
      unjoined = []
      const last = sound[sound.length - 1]!
      at = { seq: lastSeq(last), digest: last.digest }
      continue
    }
    if (unjoined.length === 0) firstUnjoined = at
    const next = await fromSources(kernel, head, at, sources)
    if (!next) return { missingAfter: at, why: 'no intact copy of it was found' }
    unjoined.push(next)
    at = { seq: lastSeq(next.run), digest: next.run.digest }
  }
  if (at.seq === head.seq && equalBytes(at.digest, head.digest)) return { runs: [...found, ...unjoined] }
  return {
    missingAfter: firstUnjoined,
    why: 'the history of the copy does not continue with the later history of this store',
  }
}

/** Puts the runs into place. False: some could not be written. */
export async function mend(kernel: Kernel, head: Head, runs: readonly MendableRun[]): Promise<boolean> {
  const changes = runs.map(({ run: { first, count, digest, bytes } }) => ({ first, count, digest, bytes }))
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const { changed, left } = await kernel.store.upkeep.replace(head.timeline, changes)
    if (left === 0) return changed > 0
  }
  return false
}

/** The store's own runs right after this point, as far as they follow from it. */
export async function soundRuns(kernel: Kernel, head: Head, at: Point): Promise<EntryRun[]> {
  for (const bytesMax of [pageBytes, 1]) {
    const runs = await kernel.store.read(head.timeline, at.seq, bytesMax).catch((error) => {
      if (!isDamage(error)) throw error
      return []
    })
    const sound: EntryRun[] = []
    let before = at
    for (const run of runs) {
      if (run.first > head.seq || !(await isSound(kernel, head, run, before))) break
      sound.push(run)
      before = { seq: lastSeq(run), digest: run.digest }
    }
    if (sound.length > 0) return sound
  }
  return []
}

/** The run right after this point that follows from it. */
export async function fromSources(
  kernel: Kernel,
  head: Head,
  at: Point,
  sources: readonly RepairSource[],
): Promise<MendableRun | null> {
  for (const source of sources) {
    // A copy from before an erasure contains erased entries.
    const isCurrent = erasureOf(head) === null || source.isAfterErasures(head)
    for (const run of await source.runsAfter(head.timeline, at.seq)) {
      if (lastSeq(run) > head.seq || !(isCurrent || isRedacted(run.bytes))) continue
      if (await isSound(kernel, head, run, at)) return { run, from: source.name }
    }
  }
  return null
}

async function isSound(kernel: Kernel, head: Head, run: EntryRun, before: Point): Promise<boolean> {
  try {
    verifyEntries(kernel.hash, head.timeline, run, before)
    if (isRedacted(run.bytes)) await confirmErased(kernel, head.timeline, run)
    return true
  } catch (error) {
    if (isDamage(error)) return false
    throw error
  }
}

function isDamage(error: unknown): boolean {
  return isReprise(error, 'HISTORY_DAMAGED', 'STORE_DAMAGED', 'MALFORMED')
}
