// Copies a timeline to another shard: its history run by run, its catalog, the ids of its mail, and an unused epoch.

import type { MessageId, OperationId, TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import type { Commit, EntryRun, Head, Outcome, Store } from '../../core/store/ports.ts'
import { storeAsRead } from '../../core/store/read-mail.ts'
import { shardsWorker } from './shards-worker.ts'

const readBytes = 4 * 1024 * 1024
const atOnce = 500

/** Returns whether it has any history of its own. The copy has the life and the epoch of `head`. */
export async function copyTimeline(
  source: Store,
  target: Store,
  head: Head,
  first: Partial<Commit>,
  newOperation: () => OperationId,
): Promise<boolean> {
  const { timeline, base, floor, floorDigest } = head
  const start = base ?? { seq: floor, digest: floorDigest }
  const copyOf = { life: head.life, epoch: head.epoch - 1 }
  const create = { digest: start.digest, copyOf, floor: { seq: floor, digest: floorDigest }, ...(base && { base }) }
  const take = { worker: shardsWorker, from: 'anyone' as const }
  const guard = { timeline, epoch: copyOf.epoch }
  check(
    timeline,
    await target.commit([{ operation: newOperation(), guard, take: { ...take, create }, release: true, ...first }]),
  )
  const at = await copyRuns(source, target, head, start, newOperation)
  if (at.seq !== head.seq) throw changed(timeline, `history ends at ${at.seq}, not at ${head.seq}`)
  const records = (await source.checkpoints(timeline)).map((record) => ({ ...record, isPinned: false }))
  if (records.length > 0) await target.upkeep.mendCatalog(timeline, records)
  await copyMail(source, target, head, newOperation)
  return at.seq > start.seq
}

async function copyRuns(
  source: Store,
  target: Store,
  { timeline, epoch }: Head,
  start: Pick<Head, 'seq' | 'digest'>,
  newOperation: () => OperationId,
): Promise<Pick<Head, 'seq' | 'digest'>> {
  let at = start
  for (;;) {
    const runs: EntryRun[] = await source.read(timeline, at.seq, readBytes)
    if (runs.length === 0) return at
    const commits = runs.map((run): Commit => {
      if (run.first !== at.seq + 1) throw changed(timeline, `the run after ${at.seq} is missing`)
      const guard = { timeline, epoch, seq: at.seq, digest: at.digest }
      at = { seq: lastSeq(run), digest: run.digest }
      return { operation: newOperation(), guard, run }
    })
    check(timeline, await target.commit(commits))
  }
}

/** Consumed messages are copied by id, so that they are not delivered again; then the unread ones, in order. */
async function copyMail(
  source: Store,
  target: Store,
  { timeline, epoch }: Head,
  newOperation: () => OperationId,
): Promise<void> {
  for (let after: MessageId | null = null; ; ) {
    const ids: MessageId[] = await source.upkeep.consumed(timeline, after, atOnce)
    if (ids.length === 0) break
    const mail = storeAsRead(timeline, epoch, ids).map((commit) => ({ ...commit, operation: newOperation() }))
    check(timeline, await target.commit(mail))
    after = ids.at(-1)!
  }
  // Not consumed here: messages that arrive meanwhile follow later.
  const { messages } = await source.inbox(timeline, Number.MAX_SAFE_INTEGER)
  for (let i = 0; i < messages.length; i += atOnce) {
    const send = messages.slice(i, i + atOnce).map(({ sentAt: _, ...message }) => message)
    check(timeline, await target.commit([{ operation: newOperation(), guard: null, send }]))
  }
}

function check(timeline: TimelineId, outcomes: readonly Outcome[]): void {
  const refused = outcomes.find((outcome) => !outcome.ok)
  if (refused && !refused.ok) throw changed(timeline, refused.reason)
}

function changed(timeline: TimelineId, reason: string): RepriseError {
  return new RepriseError('CONFLICT', `${timeline} changed while it was copied: ${reason}`, { timeline })
}
