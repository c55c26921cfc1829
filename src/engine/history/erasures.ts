// The store's log of erasures, and its use. A run with erased entries no longer matches its digest
// (core/history/redacted-run.ts), so its check is recorded here before it replaces the old run. A run marked as erased
// without a record was changed by another program: that is damage. The log is the timeline `reprise/erasures`. It
// contains checks, a reason and a count, and nothing of the erased data.
// The head of each timeline that reads one of the entries has the attribute `$erased`: the id of the last erasure;
// during the erasure, `begun`, the first erased sequence, and the id. Cached state that predates another erasure is
// dropped and read again, and processes that write in turns publish none until the erasure is done.

import { type Digest, fromHex, type TimelineId, timelineId, toHex, type WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { lastSeq, originDigest, packEntries, unpackEntries, verifyEntries } from '../../core/history/entry-run.ts'
import { checkIn } from '../../core/history/redacted-run.ts'
import type { EntryRun, Head, Store } from '../../core/store/ports.ts'
import { type Kernel, newOperation } from '../storage/kernel.ts'
import { openEntry, sealEntry } from '../storage/seal/entries.ts'

const erasedAttribute = '$erased'
const begun = /^begun (\d+) /
export const erasuresTimeline = timelineId('reprise/erasures')
const entryType = 'erasure'
const checksPerEntry = 500
const attemptsMax = 20
const pageBytes = 1024 * 1024

/** The recorded decision. */
export interface Erasure {
  readonly id: string
  readonly at: number
  /** The worker that erased. */
  readonly worker: string
  readonly why: string
  readonly entries: number
  readonly checks: readonly Digest[]
}

type Reader = Pick<Kernel, 'store' | 'hash' | 'codec' | 'sealer'>

/** Checks known to be recorded; any other check is looked up again. */
const known = new WeakMap<Store, Set<string>>()
const supposed = new WeakMap<Store, Set<string>>()

/** For a verified run with erased entries. Throws HISTORY_DAMAGED if no decision is recorded. */
export async function confirmErased(reader: Reader, timeline: TimelineId, run: EntryRun): Promise<void> {
  const check = toHex(checkIn(run.bytes))
  if (known.get(reader.store)?.has(check) || supposed.get(reader.store)?.has(check)) return
  const all = new Set<string>()
  for await (const { checks } of readErasures(reader)) for (const each of checks) all.add(toHex(each))
  known.set(reader.store, all)
  if (all.has(check)) return
  const what = `history of ${timeline} at sequence ${run.first} contains erased entries, and no erasure is recorded`
  throw new RepriseError('HISTORY_DAMAGED', what, { timeline, seq: run.first, last: lastSeq(run) })
}

/** For a dry run: reads the store as if these were recorded. */
export function supposeErased(store: Store, checks: readonly Digest[]): void {
  supposed.set(store, new Set(checks.map(toHex)))
}

/** Durable when it resolves. */
export async function recordErasure(kernel: Kernel, erasure: Omit<Erasure, 'at' | 'worker'>): Promise<void> {
  const { checks, ...rest } = erasure
  for (let from = 0; from < checks.length; from += checksPerEntry) {
    const part = checks.slice(from, from + checksPerEntry).map(toHex)
    await append(kernel, { ...rest, at: kernel.clock.now(), worker: kernel.worker.name, checks: part })
  }
}

/** All recorded erasures, oldest first. */
export async function* readErasures(reader: Reader): AsyncGenerator<Erasure> {
  const { store, hash, sealer, codec } = reader
  let at = { seq: 0, digest: originDigest(hash, erasuresTimeline) }
  for (;;) {
    const runs = await store.read(erasuresTimeline, at.seq, pageBytes)
    if (runs.length === 0) return
    for (const run of runs) {
      verifyEntries(hash, erasuresTimeline, run, at)
      for (const [i, entry] of unpackEntries(run).entries()) {
        const { plain } = openEntry(sealer, entry, at.digest, i)
        const stored = codec.decode(plain) as Omit<Erasure, 'checks'> & { readonly checks: readonly string[] }
        yield { ...stored, checks: stored.checks.map(fromHex) }
      }
      at = { seq: lastSeq(run), digest: run.digest }
    }
  }
}

async function append(kernel: Kernel, record: Readonly<Record<string, unknown>>): Promise<void> {
  const { store, hash, sealer, codec, random } = kernel
  const timeline = erasuresTimeline
  for (let attempt = 1; ; attempt++) {
    const [head] = await store.head([timeline])
    const at = head ?? { seq: 0, epoch: 0, digest: originDigest(hash, timeline) }
    const entry = { type: entryType, version: 1, time: kernel.clock.now(), data: codec.encode(record) }
    const drafts = [sealEntry(sealer, entry, at.digest, 0)]
    const where = { before: at.digest, first: at.seq + 1, epoch: at.epoch + 1, nonce: random.bytes(8) }
    const [outcome] = await store.commit([
      {
        operation: newOperation(random),
        guard: { timeline, epoch: at.epoch, seq: at.seq, digest: at.digest },
        take: { worker: 'erasures' as WorkerId, from: 'dead', ...(!head && { create: { digest: at.digest } }) },
        release: true,
        run: packEntries(hash, where, drafts),
      },
    ])
    if (outcome?.ok) return
    if (attempt >= attemptsMax) {
      throw new RepriseError('CONTENDED', `the erasure could not be recorded: ${outcome?.reason}`, { timeline })
    }
  }
}

/** The mark of the head during the erasure (`from`: the first erased sequence), and after it (null). */
export function erasureMark(id: string, from: number | null): Readonly<Record<string, string>> {
  return { [erasedAttribute]: from === null ? id : `begun ${from} ${id}` }
}

/** Null: nothing was ever erased. */
export function erasureOf(head: Partial<Pick<Head, 'attributes'>> | null): string | null {
  const mark = head?.attributes?.[erasedAttribute]
  return typeof mark === 'string' ? mark : null
}

/** True if both heads are on one branch with the same erasures: a state at one head is also valid for the other. */
export function isSameBranch(a: Pick<Head, 'base'> & Partial<Pick<Head, 'attributes'>>, b: Head): boolean {
  return a.base?.timeline === b.base?.timeline && a.base?.seq === b.base?.seq && erasureOf(a) === erasureOf(b)
}

/** The first sequence of an unfinished erasure, else null. */
export function erasingFrom(head: Pick<Head, 'attributes'>): number | null {
  const from = begun.exec(erasureOf(head) ?? '')?.[1]
  return from === undefined ? null : Number(from)
}
