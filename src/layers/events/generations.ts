// Which build of a projection is live. The timeline projection/<name> has attributes for each version of the code:
// live.<version> is the number of the generation that readers use, building.<version> one that is being made beside it,
// retiring.<version> one that was replaced and is still to be removed, partitions.<version>-<generation> in how many parts
// it lies. Changing the first, in one commit, is the swap.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/ports.ts'
import { originDigest } from '../../core/run.ts'
import { newOperation } from '../../engine/kernel.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { refusalError } from '../../engine/writer.ts'

export function generationTimeline(
  name: string,
  version: string,
  generation: number,
  partition: number | null,
): string {
  const tail = partition === null ? '' : `/${partition}`
  return `projection/${name}@${version}-${generation}${tail}`
}

/** What is known of the builds of one version. */
export interface Builds {
  /** What readers use. */
  readonly live: number
  /** A rebuild that was begun and is neither live nor given up: the next one goes on with it. */
  readonly building: number | null
  /** Replaced, and not yet removed. */
  readonly retiring: number | null
  /** In how many partitions a generation lies; null if nobody noted it. */
  partitionsOf(generation: number): number | null
}

export async function readBuilds(engine: Reprise, name: string, version: string): Promise<Builds> {
  const { attributes = {} } = (await engine.head(`projection/${name}`)) ?? {}
  const numberAt = (key: string) => {
    const value = attributes[key]
    return typeof value === 'number' ? value : null
  }
  return {
    live: numberAt(`live.${version}`) ?? 1,
    building: numberAt(`building.${version}`),
    retiring: numberAt(`retiring.${version}`),
    partitionsOf: (generation) => numberAt(`partitions.${version}-${generation}`),
  }
}

export async function liveGeneration(engine: Reprise, name: string, version: string): Promise<number> {
  return (await readBuilds(engine, name, version)).live
}

/** Makes `to` the live one, unless somebody else swapped since `from`: then CONFLICT. */
export async function swapGeneration(
  engine: Reprise,
  name: string,
  version: string,
  swap: { readonly from: number; readonly to: number; readonly keepOld: boolean },
): Promise<void> {
  const { from, to, keepOld } = swap
  const attributes = {
    [`live.${version}`]: to,
    [`building.${version}`]: null,
    [`retiring.${version}`]: keepOld ? null : from,
  }
  await note(engine, name, attributes, async () => {
    if ((await liveGeneration(engine, name, version)) !== from) {
      throw new RepriseError('CONFLICT', `${name} was rebuilt by somebody else meanwhile`, { name, from, to })
    }
  })
}

/** Notes on the builds of a projection, in one commit; `check` is asked before, on what is there then. */
export async function note(
  engine: Reprise,
  name: string,
  attributes: Readonly<Record<string, number | null>>,
  check: () => Promise<void> = async () => undefined,
): Promise<void> {
  const { store, committer, random, hash, worker } = engine.kernel
  const timeline = timelineId(`projection/${name}`)
  for (;;) {
    const [head] = await store.head([timeline])
    await check()
    const take = {
      worker: await worker.register(),
      from: 'anyone' as const,
      create: { digest: originDigest(hash, timeline) },
    }
    const guard = { timeline, epoch: head?.epoch ?? 0 }
    // Taken and let go in the same commit: the new epoch makes a second one from the same state fail.
    const outcome = await committer.submit({ operation: newOperation(random), guard, take, attributes, release: true })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED') {
      throw new RepriseError(outcome.code, `${timeline}: ${outcome.reason}`, { timeline })
    }
  }
}

/** Removes a generation that nobody reads any more: its checkpoints, its history and its cursor. */
export async function forgetGeneration(engine: Reprise, timeline: string): Promise<void> {
  const { store, committer, random } = engine.kernel
  const id = timelineId(timeline)
  for (;;) {
    const [head] = await store.head([id])
    if (!head) return
    const outcome = await committer.submit({
      operation: newOperation(random),
      guard: { timeline: id, epoch: head.epoch },
      forget: true,
    })
    if (outcome.ok || outcome.code !== 'FENCED') return
  }
}

/**
 * Ends a generation whose rows lie in the user's own tables: nobody may write to them any more. Its line stays, since a
 * process that has not heard of the swap yet would otherwise make it anew and apply every event a second time.
 */
export async function endGeneration(
  engine: Reprise,
  timeline: string,
  ride?: (sql: Sql) => Promise<unknown> | unknown,
): Promise<void> {
  const { store, committer, random, worker } = engine.kernel
  const id = timelineId(timeline)
  for (;;) {
    const [head] = await store.head([id])
    if (!head || head.status === endedStatus) return
    const outcome = await committer.submit({
      operation: newOperation(random),
      guard: { timeline: id, epoch: head.epoch },
      take: { worker: await worker.register(), from: 'anyone' },
      status: endedStatus,
      cursors: { [timeline]: null },
      release: true,
      ...(ride && { ride }),
    })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code === 'RIDER_FAILED') throw refusalError(id, outcome)
    else if (outcome.code !== 'FENCED') return
  }
}

export const endedStatus = 'superseded'
