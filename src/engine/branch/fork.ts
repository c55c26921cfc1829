// Forks, and the parts of branching that rollbacks (rollback.ts) share. A branch shares the history and the chunks of the
// timeline it leaves; only the catalog lines of the checkpoints that it may restore from are copied, and nothing is erased.

import { keepsHistory } from '../../core/checkpoint/retention.ts'
import {
  type Coordinate,
  equalBytes,
  type ManifestId,
  type TimelineId,
  timelineId,
  toHex,
} from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { packEntries } from '../../core/history/entry-run.ts'
import { inheritedAttribute } from '../../core/history/inheritance.ts'
import { liveIdOf } from '../../core/history/scope.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Base, EntryRun, Head, ManifestRecord } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { floorOf, offBranch, type Point } from '../history/history.ts'
import { existing, locate, pointOn, type TimelinePoint } from '../history/locate.ts'
import { type Recovered, recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import { segmentsBelow } from '../history/segments.ts'
import { invalidityOf, invalidState } from '../history/validity.ts'
import { canRead, type Fold } from '../model/definition.ts'
import type { NewEntry } from '../model/entry.ts'
import { type ForkMark, markAttribute } from '../model/fork-edit.ts'
import { identityAttribute } from '../storage/carried-identity.ts'
import { withoutFailure } from '../storage/failure-notes.ts'
import { type Kernel, newId, submit } from '../storage/kernel.ts'
import { heldAttribute } from '../storage/restore-hold.ts'
import { sealEntry } from '../storage/seal/entries.ts'
import type { CommitExtras } from '../writing/writer.ts'

/** The start of a fork. */
export interface ForkStart {
  /** Builds extras for the commit that creates the fork, from the state at the fork point and the fork's identity. */
  readonly begin?: (
    state: unknown,
    identity: string,
    life: number,
  ) => { readonly entries: readonly NewEntry[]; readonly extras?: CommitExtras }
  readonly mark?: ForkMark | null
}

/** Creates a timeline that starts at the coordinate. `to` without a slash is a sibling of the parent. */
export async function fork(
  kernel: Kernel,
  where: TimelinePoint,
  to: string,
  fold: Fold<unknown> | null,
  start: ForkStart = {},
): Promise<Coordinate & { readonly parent: TimelineId }> {
  return await retryWithFreshHead(() => forkOnce(kernel, where, to, fold, start))
}

async function forkOnce(
  kernel: Kernel,
  where: TimelinePoint,
  to: string,
  fold: Fold<unknown> | null,
  start: ForkStart,
): Promise<Coordinate & { readonly parent: TimelineId }> {
  const { head, lineage, point } = await locate(kernel, where)
  checkDepth(kernel, lineage)
  // A fork that cannot be opened is useless: fail now.
  const target = fold && (await recover(kernel, head, fold, { to: point.seq }))
  const id = timelineId(to.includes('/') ? to : siblingOf(head.timeline, to))
  await kernel.identity.load()
  const past = await kernel.identity.past(id)
  const life = past.life + 1
  const begun = start.begin?.(target?.state.value, kernel.identity.of(id, life), life)
  const made = { timeline: id, epoch: past.epoch + 1 }
  const run = begun && begun.entries.length > 0 ? firstRun(kernel, made, point, begun.entries, fold, target) : null
  const summary = target && fold.summary?.(target.state.value)
  const copies = await restorePoints(kernel, head, point.seq, fold)
  const floor = floorFor(copies, lineage, fold, point)
  await checkSameBranch(kernel, head, point)
  const outcome = await submit(kernel, {
    guard: { timeline: id, epoch: past.epoch, ...(run && { seq: point.seq, digest: point.digest }) },
    take: {
      worker: await kernel.worker.register(),
      from: 'free',
      create: {
        digest: point.digest,
        life,
        base: baseAt(lineage, point),
        floor,
      },
    },
    ...(run && { run }),
    publish: [...copies, ...(await segmentCopies(kernel, lineage, floor))],
    status: 'open',
    ...summary,
    ...begun?.extras,
    attributes: {
      ...forkAttributes(await withInheritance(kernel, head), start.mark),
      ...summary?.attributes,
      ...begun?.extras?.attributes,
    },
    release: true,
  })
  if (!outcome.ok)
    throw outcome.code === 'FENCED' || outcome.code === 'CONFLICT' ? taken(id) : refusalError(id, outcome)
  if (!(await isOnParent(kernel, id, point))) {
    // The parent was rolled back and grew past the point after it was read: this fork is on the wrong branch.
    await forgetFork(kernel, id, point)
    throw offBranch(head.timeline, point.seq)
  }
  return { timeline: id, seq: point.seq, epoch: outcome.epoch, digest: toHex(point.digest), parent: head.timeline }
}

/** An archive has no attributes of its own: those that its timeline inherited are stored with the live one. */
async function withInheritance({ store }: Kernel, head: Head): Promise<Head> {
  const live = timelineId(liveIdOf(head.timeline))
  if (live === head.timeline) return head
  const [{ attributes } = head] = (await store.head([live])).flatMap((found) => found ?? [])
  const { [inheritedAttribute]: inherited } = attributes
  return inherited === undefined
    ? head
    : { ...head, attributes: { ...head.attributes, [inheritedAttribute]: inherited } }
}

/** The base of a fork at this point: the timeline of the lineage that contains the point. */
export function baseAt(lineage: readonly Head[], point: Point): Base {
  const owner = lineage.find((each) => !each.base || point.seq >= each.base.seq) ?? lineage[lineage.length - 1]!
  return { timeline: owner.timeline, ...point }
}

/** The attributes of a fork: those of its parent, and its own mark. A fork of a group member is not a member of the group. */
export function forkAttributes(head: Head, mark: ForkMark | null | undefined): NonNullable<CommitExtras['attributes']> {
  return {
    ...head.attributes,
    [heldAttribute]: null,
    [identityAttribute]: null,
    ...withoutFailure,
    ...markAttribute(mark),
  }
}

/** The first entries of a fork, folded into `target` before the write: entries that the fold refuses are not written. */
function firstRun(
  kernel: Kernel,
  { timeline, epoch }: { readonly timeline: TimelineId; readonly epoch: number },
  point: Point,
  entries: readonly NewEntry[],
  fold: Fold<unknown> | null,
  target: Recovered<unknown> | null,
): EntryRun {
  const { codec, clock, sealer, hash } = kernel
  if (sealer.refusal) throw sealer.refusal
  const drafts = entries.map(({ type, version, time, key, data }) => ({
    ...{ type, key, version: version ?? fold?.upcasters?.[type]?.version ?? 1, time: time ?? clock.now() },
    ...codec.copy(data),
  }))
  target?.state.replay(
    drafts.map(({ type, version, time, key, value: data }, i) => ({
      ...{ timeline, seq: point.seq + 1 + i, epoch, type, version, time, key, data },
    })),
  )
  const reason = fold && target ? invalidityOf(kernel, fold, target.state.value, timeline) : null
  if (reason !== null) {
    throw invalidState(
      { timeline, seq: point.seq },
      reason,
      'nothing was forked, because the edited state is not valid',
    )
  }
  const sealed = drafts.map(({ bytes: data, ...draft }, i) =>
    sealEntry(sealer, { ...draft, data }, point.digest, i, fold?.compressAboveBytes),
  )
  return packEntries(hash, { before: point.digest, first: point.seq + 1, epoch }, sealed)
}

/** Forgets the fork even if it has an owner meanwhile: it is unusable. */
async function forgetFork(kernel: Kernel, id: TimelineId, point: Point): Promise<void> {
  for (;;) {
    const [head] = await kernel.store.head([id])
    if (!head?.base || head.base.seq !== point.seq || !equalBytes(head.base.digest, point.digest)) return
    const outcome = await submit(kernel, { guard: guardOf(head), forget: true })
    if (outcome.ok || (outcome.code !== 'FENCED' && outcome.code !== 'CONFLICT')) return
  }
}

/** Rollbacks do not count: their archives have the id of the timeline and a number. */
export function checkDepth({ limits }: Kernel, lineage: readonly Head[]): void {
  const depth = new Set(lineage.map(({ timeline }) => liveIdOf(timeline))).size
  if (depth <= limits.forkDepth) return
  throw new RepriseError(
    'LIMIT_EXCEEDED',
    `${lineage[0]!.timeline} is a fork at depth ${depth - 1}, and a fork of it would be deeper than ${limits.forkDepth} (forkDepth)`,
    { limit: 'forkDepth', max: limits.forkDepth, timeline: lineage[0]!.timeline },
    undefined,
    'Fork a timeline nearer to the original, or raise forkDepth in the limits of open().',
  )
}

/** A rollback always changes a timeline's base: with an unchanged base, everything read with this head is consistent. */
async function checkSameBranch(kernel: Kernel, head: Head, point: Point): Promise<void> {
  const now = await existing(kernel, head.timeline)
  const isSame = now.base?.timeline === head.base?.timeline && now.base?.seq === head.base?.seq
  if (!isSame) throw offBranch(head.timeline, point.seq)
}

/** The store cannot guard the parent of a fork in the same commit, so this is checked afterwards. */
async function isOnParent(kernel: Kernel, id: TimelineId, point: Point): Promise<boolean> {
  for (;;) {
    const { base, floor } = await existing(kernel, id)
    // With a checkpoint at the point itself the fork never reads its parent, which may then be trimmed.
    if (!base || floor >= base.seq) return true
    const parent = await existing(kernel, base.timeline)
    const isThere = await pointOn(kernel, parent, point.seq, point.digest).catch(() => null)
    if (isThere) return true
    // A rollback after the fork was made moves the fork's base to the archive: check there.
    const now = await existing(kernel, id)
    if (now.base?.timeline === base.timeline) return false
  }
}

/**
 * Catalog lines for a branch: the newest two checkpoints it can restore from, as its own. Their chunks are shared. Their
 * sequences differ, since two checkpoints of one state would be lost together.
 */
export async function restorePoints(
  kernel: Kernel,
  head: Head,
  upTo: number,
  fold: Fold<unknown> | null,
): Promise<ManifestRecord[]> {
  const usable = (await kernel.store.checkpoints(head.timeline))
    .filter((record) => record.seq <= upTo && record.verifiedAt !== null && record.invalid === null)
    .filter(({ foldVersion }) => fold === null || canRead(fold, foldVersion))
    .filter((record, index, newest) => record.seq !== newest[index - 1]?.seq)
  return usable.slice(0, 2).map((record) => copyOf(kernel, record))
}

function copyOf(kernel: Kernel, record: ManifestRecord): ManifestRecord {
  const id = newId(kernel.random) as ManifestId
  return { ...record, id, baseId: record.id, isPinned: false, label: null, drilledAt: null, drill: null }
}

/** Catalog lines for the segments of history below the floor of a branch: it does not need its parent for them. */
export async function segmentCopies(kernel: Kernel, lineage: readonly Head[], floor: Point): Promise<ManifestRecord[]> {
  const segments = await segmentsBelow(kernel, lineage[lineage.length - 1]!)
  return segments.filter(({ from }) => from.seq < floor.seq).map(({ record }) => copyOf(kernel, record))
}

/**
 * The floor of a branch: the start of its history where all of it is kept; else the point that its two checkpoints need. With
 * fewer than two checkpoints of its own, it may need all existing history. A branch below all existing history has it only in
 * segments.
 */
export function floorFor(
  copies: readonly ManifestRecord[],
  lineage: readonly Head[],
  fold: Fold<unknown> | null,
  point: Point,
): Point {
  const reach = lineage.reduce<Point>(
    (highest, head) => (head.floor > highest.seq ? { seq: head.floor, digest: head.floorDigest } : highest),
    floorOf(lineage),
  )
  if (point.seq < reach.seq) return point
  const oldest = copies[1]
  const keepsAll = fold !== null && keepsHistory(fold.retain ?? {})
  return keepsAll || !oldest || oldest.seq < reach.seq ? reach : { seq: oldest.seq, digest: oldest.digest }
}

export function siblingOf(id: string, name: string): string {
  return id.includes('/') ? `${id.slice(0, id.lastIndexOf('/'))}/${name}` : name
}

export function taken(id: string): RepriseError {
  return new RepriseError('EXISTS', `there is already a timeline ${id}`, { timeline: id })
}
