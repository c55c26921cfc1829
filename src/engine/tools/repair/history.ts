// Damaged history, from any sound copy. Nothing of a copy is believed: a run is taken if it follows from what lies before the
// damage and leads to what the store has after it, by the digests of the chain. A copy of another branch does neither.

import { equalBytes } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { lastSeq, verifyEntries } from '../../../core/history/entry-run.ts'
import { isRedacted } from '../../../core/history/redacted.ts'
import type { EntryRun, Head } from '../../../core/store/ports.ts'
import { confirmErased, erasureOf } from '../../history/erasures.ts'
import type { Point } from '../../history/history.ts'
import type { Kernel } from '../../storage/kernel.ts'
import type { RepairSource } from './source.ts'

export interface MendableRun {
  readonly run: EntryRun
  /** Name of the place it comes from. */
  readonly from: string
}

export type Mending =
  /** Each of them is to be put into its place; none: history is sound. */
  | { readonly runs: readonly MendableRun[] }
  /** No source has what follows this point, or what they have leads elsewhere. */
  | { readonly missingAfter: Point; readonly why: string }

const pageBytes = 4 * 1024 * 1024
const attemptsMax = 3

/** Finds what the history of this timeline, its own part, lacks. Changes nothing. */
export async function planMending(kernel: Kernel, head: Head, sources: readonly RepairSource[]): Promise<Mending> {
  const own = head.base && head.floor < head.base.seq ? head.base : { seq: head.floor, digest: head.floorDigest }
  const found: MendableRun[] = []
  /** From elsewhere, and not yet joined to what the store has. */
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
    if (!next) return { missingAfter: at, why: 'no sound copy of it was found' }
    unjoined.push(next)
    at = { seq: lastSeq(next.run), digest: next.run.digest }
  }
  if (at.seq === head.seq && equalBytes(at.digest, head.digest)) return { runs: [...found, ...unjoined] }
  return { missingAfter: firstUnjoined, why: 'what the copy has there does not lead to what this store has after it' }
}

/** Puts them into their places. False: some could not be. */
export async function mend(kernel: Kernel, head: Head, runs: readonly MendableRun[]): Promise<boolean> {
  const changes = runs.map(({ run: { first, count, digest, bytes } }) => ({ first, count, digest, bytes }))
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const { changed, left } = await kernel.store.replace(head.timeline, changes)
    if (left === 0) return changed > 0
  }
  return false
}

/** What the store itself has right after this point, as far as it follows from it. */
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
    // A copy from before an erasure holds what was erased.
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
