// The live generation of something that is rebuilt beside itself: a projection, a state store. One timeline (its catalog:
// projection/<name>, table/<name>/generations) has attributes for each version of the code: live.<version> is the generation
// that readers use, building.<version> the one that is being built beside it, retiring.<version> one that was replaced and is
// still to be removed, partitions.<version>-<generation> its number of partitions, began.<version>-<generation> the end of the
// feed when it began, stale.<version>-<generation> a rollback that undid entries which it may have read. Changing the first,
// in one commit, is the swap.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import { type Attribute, type FeedPosition, feedStart, type Sql, type Store } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { policyToStore } from '../checkpoint/stored-policy.ts'
import type { Host } from '../host/host.ts'

/** The generations of one version. */
export interface Builds {
  /** The generation that readers use. */
  readonly live: number
  /** A rebuild that is neither live nor abandoned: the next rebuild resumes it. */
  readonly building: number | null
  /** Replaced, and not yet removed. */
  readonly retiring: number | null
  /** The number of partitions of a generation; null if it was not recorded. */
  partitionsOf(generation: number): number | null
  /** The end of the feed when a generation began; null if it was not recorded. */
  beganAt(generation: number): FeedPosition | null
  /** The rollback that makes a rebuild of a generation necessary, in words. */
  staleBy(generation: number): string | null
}

export async function readBuilds(engine: Host, catalog: string, version: string): Promise<Builds> {
  const { attributes = {} } = (await engine.head(catalog)) ?? {}
  return buildsIn(attributes, version)
}

export function buildsIn(attributes: Readonly<Record<string, Attribute>>, version: string): Builds {
  const numberAt = (key: string) => {
    const value = attributes[key]
    return typeof value === 'number' ? value : null
  }
  const textAt = (key: string) => {
    const value = attributes[key]
    return typeof value === 'string' ? value : null
  }
  return {
    live: numberAt(`live.${version}`) ?? 1,
    building: numberAt(`building.${version}`),
    retiring: numberAt(`retiring.${version}`),
    partitionsOf: (generation) => numberAt(`partitions.${version}-${generation}`),
    beganAt: (generation) => textAt(`began.${version}-${generation}`),
    staleBy: (generation) => textAt(`stale.${version}-${generation}`),
  }
}

export async function liveGeneration(engine: Host, catalog: string, version: string): Promise<number> {
  return (await readBuilds(engine, catalog, version)).live
}

/** Makes `to` the live one. Throws CONFLICT if another process swapped since `from`, or abandoned `to`. */
export async function swapGeneration(
  engine: Host,
  catalog: string,
  version: string,
  swap: { readonly from: number; readonly to: number; readonly keepOld: boolean },
): Promise<void> {
  const { from, to, keepOld } = swap
  const attributes = {
    [`live.${version}`]: to,
    [`building.${version}`]: null,
    [`retiring.${version}`]: keepOld ? null : from,
  }
  await note(engine, catalog, attributes, async () => {
    const { live, building } = await readBuilds(engine, catalog, version)
    if (live !== from || building !== to) {
      throw new RepriseError('CONFLICT', `${catalog} was rebuilt by another process meanwhile`, { catalog, from, to })
    }
  })
}

/** The parts of a generation, for choosing its number. */
export interface Parts {
  /** Whether any part of it exists or existed. */
  exists(generation: number): Promise<boolean>
  /** Removes an abandoned generation. */
  giveUp(generation: number): Promise<void>
}

/** A generation to resume, begun with the same number of partitions; else a new one. Abandoned numbers are not reused. */
export async function nextGeneration(
  engine: Host,
  catalog: string,
  version: string,
  from: number,
  partitions: number,
  parts: Parts,
): Promise<number> {
  const builds = await readBuilds(engine, catalog, version)
  const { building } = builds
  if (building !== null && building > from && builds.partitionsOf(building) === partitions) return building
  if (building !== null && building > from) await parts.giveUp(building)
  for (let to = Math.max(from, building ?? 0) + 1; ; to++) {
    if (await parts.exists(to)) continue
    const began = await feedEnd(engine.kernel.store)
    await note(engine, catalog, {
      ...{ [`building.${version}`]: to, [`partitions.${version}-${to}`]: partitions },
      [`began.${version}-${to}`]: began,
    })
    return to
  }
}

/** No timeline is in this scope: its pages are empty. */
const noScope = 'reprise-nobody/'

/** Entries that commit from now on are after this position. */
export async function feedEnd(store: Pick<Store, 'feed'>): Promise<FeedPosition> {
  for (let after = feedStart; ; ) {
    const { next, isEnd } = await store.feed(after, { prefixes: [noScope] }, 1000)
    if (isEnd) return next
    after = next
  }
}

/** Writes attributes of generations in one commit; `check` is called before, with the attributes at that time. */
export async function note(
  engine: Host,
  catalog: string,
  attributes: Readonly<Record<string, Attribute | null>>,
  check: () => Promise<void> = async () => undefined,
): Promise<void> {
  const { store, hash, worker } = engine.kernel
  const timeline = timelineId(catalog)
  for (;;) {
    const [head] = await store.head([timeline])
    await check()
    const take = {
      worker: await worker.register(),
      from: 'anyone' as const,
      create: { digest: originDigest(hash, timeline) },
    }
    const { epoch } = head ?? (await engine.identity.past(timeline))
    const guard = { timeline, epoch }
    // The commit takes and releases the timeline: the new epoch makes a concurrent commit from the same state fail.
    const declared = policyToStore(engine.kernel, timeline, head ?? null)
    const outcome = await engine.commit({
      ...{ guard, take, release: true },
      attributes: { ...attributes, ...declared },
    })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED') {
      throw refusalError(timeline, outcome)
    }
  }
}

/** Removes a generation that has no readers any more: its checkpoints, its history and its cursor. */
export async function forgetGeneration(engine: Host, timeline: string): Promise<void> {
  const id = timelineId(timeline)
  for (;;) {
    const [head] = await engine.heads([id])
    if (!head) return
    const outcome = await engine.commit({ guard: guardOf(head), forget: true })
    if (outcome.ok || (outcome.code !== 'FENCED' && outcome.code !== 'CONFLICT')) return
  }
}

/**
 * Ends a generation whose rows are in the user's own tables: no process may write to them any longer. Its timeline stays, since
 * a process that has not noticed the swap yet would otherwise create it again and apply every event a second time.
 */
export async function endGeneration(
  engine: Host,
  timeline: string,
  userSql?: (sql: Sql) => Promise<unknown> | unknown,
): Promise<void> {
  const { worker } = engine
  const id = timelineId(timeline)
  for (;;) {
    const [head] = await engine.heads([id])
    if (!head || head.status === endedStatus) return
    const outcome = await engine.commit({
      guard: { timeline: id, epoch: head.epoch },
      take: { worker: await worker.register(), from: 'anyone' },
      status: endedStatus,
      cursors: { [timeline]: null },
      release: true,
      ...(userSql && { userSql }),
    })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code === 'RIDER_FAILED') throw refusalError(id, outcome)
    else if (outcome.code !== 'FENCED') return
  }
}

export const endedStatus = 'superseded'
