// The consumers of the entries that a rollback would undo: forks made from them, readers of the feed and of streams, receivers
// of mail, children. Every rollback is decided here: refused with CONSUMED, or forced and reported. Readers of the feed store
// their scopes as an attribute of one of their timelines; a cursor without stored scopes is not named.

import type { TimelineId } from '../../core/coordinate.ts'
import { ignoring, RepriseError } from '../../core/errors.ts'
import { importedInheritance, inheritedBy, originalAttribute } from '../../core/history/inheritance.ts'
import { archivedFrom, isWithin, liveIdOf } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import { cursorHolds } from '../feed/cursor-holds.ts'
import { lineageOf } from '../history/history.ts'
import { recover } from '../history/recover.ts'
import type { Consumer } from '../model/rollback-report.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { Origin } from '../storage/store-identity.ts'
import { commitAside } from '../writing/shared-commit.ts'
import { exchangedBy, mailKey, unreadMail } from './exchanges.ts'

/** The scopes of a feed reader, and whether it reads events of forks. */
export interface Reads {
  readonly scopes: readonly string[]
  readonly forks: boolean
}

/** On the catalog of a projection, or the timeline of a reader: its `Reads`, as JSON. */
export const readsAttribute = '$reads'

/** On a child: the timeline of its parent. A fork or a copy of the child has none. */
export const parentAttribute = '$parent'

/** On a timeline whose text is streamed to readers without a timeline: the last streamed entry and its history. */
const streamedAttribute = '$streamed'

/** The caller's decision about consumers: force, or the list of consumers that it has handled itself. */
export type Consumed = 'force' | readonly Consumer[] | undefined

/** The readers of the feed: the location of their timelines, and the prefix of their cursors. */
const readers = [
  { kind: 'projection', prefix: 'projection/', cursor: 'projection/' },
  { kind: 'process-manager', prefix: 'process/', cursor: 'process/' },
  { kind: 'consumer', prefix: 'job/', cursor: 'consumer/' },
  { kind: 'pipeline', prefix: 'pipeline/', cursor: 'pipeline/' },
] as const

const forksMax = 200
const readersMax = 1000
const childrenMax = 1000
const reportMax = 1000

/** @example (await consumersOf(kernel, head, 10)).map(({ what }) => what) */
export async function consumersOf(kernel: Kernel, head: Head, seq: number): Promise<Consumer[]> {
  if (seq >= head.seq) return []
  return [
    ...(await forksAfter(kernel, head, seq)),
    ...(await readersAfter(kernel, head, seq)),
    ...streamsAfter(kernel, head, seq),
    ...(await mailAfter(kernel, head, seq)),
    ...(await childrenAfter(kernel, head, seq)),
  ]
}

/**
 * The consumers of entries that a rollback to `seq` undoes. Throws CONSUMED if there are any, unless the caller accepts them.
 */
export async function decideConsumed(
  kernel: Kernel,
  head: Head,
  seq: number,
  given: Consumed,
): Promise<readonly Consumer[]> {
  if (given !== undefined && given !== 'force') return given
  const consumers = await consumersOf(kernel, head, seq)
  if (given !== 'force') refuseConsumed(head.timeline, seq, consumers)
  return consumers
}

export function refuseConsumed(timeline: string, seq: number, consumers: readonly Consumer[]): void {
  if (consumers.length > 0) throw consumedError(timeline, seq, consumers)
}

/** Reports a forced rollback: the store's log names the consumers. */
export function reportForced({ events }: Kernel, timeline: string, seq: number, consumers: readonly Consumer[]): void {
  if (consumers.length === 0) return
  const what = `${timeline} goes back to ${seq} although ${consumers.map((each) => each.what).join('; ')}`
  events.emit('report', { kind: 'forced', timeline, what: what.slice(0, reportMax), data: { seq, consumers } })
}

/**
 * For models that roll back by themselves. Throws CONSUMED unless the caller accepts the consumers; returns them for the
 * history of the timeline.
 * @example await decideRollback(kernel, 'agent/support/ticket-42', plan.seq, options.consumed)
 */
export async function decideRollback(
  kernel: Kernel,
  timeline: TimelineId,
  seq: number,
  given: Consumed,
): Promise<readonly Consumer[]> {
  const [head] = await kernel.store.head([timeline])
  const consumers = head ? await decideConsumed(kernel, head, seq, given) : []
  if (given === 'force') reportForced(kernel, timeline, seq, consumers)
  return consumers
}

function consumedError(timeline: string, seq: number, consumers: readonly Consumer[]): RepriseError {
  // The message lists kinds: the caller may not have access to the timelines with these names.
  const kinds = new Map<string, number>()
  for (const { kind } of consumers) kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  const counts = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ')
  const what = `the entries of ${timeline} after ${seq} were consumed (${counts}); the plan names the consumers`
  return new RepriseError('CONSUMED', what, { timeline, seq, consumers })
}

/** A fork rests on the timeline, or on the archive of an earlier rollback; an imported one names its original. */
async function forksAfter(kernel: Kernel, head: Head, seq: number): Promise<Consumer[]> {
  const { store, identity } = kernel
  const live = liveIdOf(head.timeline)
  const lineage = await lineageOf(kernel, head)
  // The last sequence of each part that this branch contains: later entries of an archive are undone already.
  const upTo = new Map(
    lineage.map(({ timeline }, i) => [timeline as string, lineage[i - 1]?.base?.seq ?? Number.POSITIVE_INFINITY]),
  )
  const found = new Map<string, number>()
  const note = (fork: Head, from: string, at: number) => {
    if (at > seq && at <= (upTo.get(from) ?? at) && liveIdOf(fork.timeline) !== live) found.set(fork.timeline, at)
  }
  for (const timeline of upTo.keys()) {
    if (liveIdOf(timeline) !== live) continue
    const forks = await store.timelines({ parent: timeline as TimelineId, limit: forksMax })
    for (const fork of forks) note(fork, timeline, fork.base!.seq)
  }
  const own = identity.origin(head).identity
  for (const fork of await store.timelines({ attributes: { [originalAttribute]: live }, limit: forksMax })) {
    const [from] = importedInheritance(fork.attributes)
    if (from && (from.identity ?? own) === own) note(fork, from.timeline, from.upTo)
  }
  return [...found].map(([timeline, at]) => ({ kind: 'fork', timeline, what: `${timeline} was forked at ${at}` }))
}

/**
 * A running reader is treated as having read everything: its state may be ahead of its cursor. The stored state of a closed
 * projection is ahead of its cursor, too.
 */
async function readersAfter(kernel: Kernel, head: Head, seq: number): Promise<Consumer[]> {
  const found: Consumer[] = []
  const id = (archivedFrom(head.timeline) ?? head.timeline) as TimelineId
  const isFork = inheritedBy(await lineageOf(kernel, head)).length > 0
  const cursors = [...(await kernel.store.cursors()), ...(await storedPositions(kernel))]
  const holds = (await cursorHolds(kernel, [id], cursors)).get(id) ?? []
  for (const { kind, prefix, cursor } of readers) {
    const heads = await kernel.store.timelines({ prefix, limit: readersMax })
    for (const reader of heads.filter(({ attributes }) => reads(attributes[readsAttribute], id, isFork))) {
      const named = `${cursor}${reader.timeline.slice(prefix.length)}`
      const isPartOf = (other: string) =>
        [reader.timeline, named].includes(other) ||
        other.startsWith(`${reader.timeline}@`) ||
        other.endsWith(`/${reader.timeline}`)
      const own = cursors.filter(({ name }) => isPartOf(name))
      const isBefore = ({ name }: { readonly name: string }) =>
        holds.some((hold) => hold.name === name && hold.seq <= seq)
      const isAtWork = heads.some((other) => isPartOf(other.timeline) && other.owner !== null)
      if (!isAtWork && own.every(isBefore)) continue
      found.push({ kind, timeline: reader.timeline, what: `${kind} ${reader.timeline.slice(prefix.length)} read them` })
    }
  }
  return found
}

/** The positions of the states that projections in memory have stored, beside their cursors. */
async function storedPositions({ store }: Kernel): Promise<{ readonly name: string; readonly position: string }[]> {
  const heads = await store.timelines({ prefix: 'projection/', limit: readersMax })
  return heads.flatMap(({ timeline, attributes: { position } }) => {
    return typeof position === 'string' ? [{ name: `${timeline}@state`, position }] : []
  })
}

function reads(noted: unknown, timeline: string, isFork: boolean): boolean {
  if (typeof noted !== 'string') return false
  const { scopes, forks } = JSON.parse(noted) as Reads
  return (forks || !isFork) && scopes.some((scope) => isWithin(scope, timeline))
}

/**
 * Records, before the reader gets it, that a reader receives the text of a timeline up to this entry. The record applies to
 * this history of the timeline: not to a branch after a rollback, nor to a fork or a copy. A read-only process records
 * nothing.
 */
export async function noteStreamed(kernel: Kernel, timeline: TimelineId, origin: Origin, seq: number): Promise<void> {
  const [head] = await kernel.store.head([timeline])
  if (!head || streamedUpTo(head, origin) >= seq) return
  const noted = `${origin.identity} ${origin.generation} ${seq}`
  await commitAside(kernel, timeline, { attributes: { [streamedAttribute]: noted } }).catch(ignoring('STORE_READ_ONLY'))
}

function streamedUpTo({ attributes }: Head, { identity, generation }: Origin): number {
  const [of, at, seq] = String(attributes[streamedAttribute] ?? '').split(' ')
  return of === identity && at === String(generation) ? Number(seq) : 0
}

function streamsAfter({ identity }: Kernel, head: Head, seq: number): Consumer[] {
  const { timeline } = head
  const upTo = streamedUpTo(head, identity.origin(head))
  return upTo > seq
    ? [{ kind: 'stream', timeline, what: `readers of a stream of ${timeline} received it up to ${upTo}` }]
    : []
}

async function mailAfter(kernel: Kernel, head: Head, seq: number): Promise<Consumer[]> {
  const sent = (await exchangedBy(kernel, head)).sent.filter((mail) => mail.seq > seq)
  const heads = await kernel.store.head([...new Set(sent.map(({ to }) => to as TimelineId))])
  const receivers = heads.filter((each): each is Head => each !== null)
  // A group that was restored sends mail again, under another id.
  const unread = new Set((await unreadMail(kernel, receivers)).map(mailKey))
  return sent
    .filter(({ to, id }) => receivers.some(({ timeline }) => timeline === to) && !unread.has(mailKey({ to, id })))
    .map(({ to, kind, seq: at }) => ({
      kind: 'mail',
      timeline: to,
      what: `${to} received the ${kind} message of ${at}`,
    }))
}

async function childrenAfter(kernel: Kernel, head: Head, seq: number): Promise<Consumer[]> {
  const model = kernel.models.find(head.timeline)
  if (!model?.childrenAfter || !model.fold) return []
  const { state } = await recover(kernel, head, model.fold)
  const known = await kernel.store.timelines({ attributes: { [parentAttribute]: head.timeline }, limit: childrenMax })
  const children = model.childrenAfter(state.value, head.timeline, seq, known)
  return children.map((timeline) => ({ kind: 'child', timeline, what: `${timeline} was started` }))
}
