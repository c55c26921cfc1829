// The partitions of a state store. The first generation is in table/<name>/p0, p1, …; each later one, created by `rescale`,
// in table/<name>/generations/<number>/p0, …. The timeline table/<name>/generations records the live generation and its
// number of partitions (engine/tools/generations.ts). A partition whose final state a rescale has copied has the status of an
// ended generation: it may no longer be written.

import { timelineId } from '../../core/coordinate.ts'
import { shapeOf } from '../../core/data-shape.ts'
import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import { epochGuardOf } from '../../core/store/commit-guard.ts'
import { textHash } from '../../core/text-hash.ts'
import { otherKind, storedPolicyOf } from '../../engine/checkpoint/stored-policy.ts'
import type { Host } from '../../engine/host/host.ts'
import {
  type Builds,
  buildsIn,
  endedStatus,
  forgetGeneration,
  note,
  readBuilds,
} from '../../engine/tools/generations.ts'

export const tablePrefix = 'table/'
const countAttribute = 'partitions'
/** Projections have generations per version of their code; the rows of a store are the same for all versions. */
export const layoutVersion = '1'

export interface Layout {
  readonly name: string
  /** The live generation. */
  readonly generation: number
  /** Number of its partitions; null: not created yet. */
  readonly partitions: number | null
  /** False: the number is not recorded, only derived from the existing partitions. */
  readonly isNoted: boolean
  readonly builds: Builds
}

export function catalogOf(name: string): string {
  return `${tablePrefix}${name}/generations`
}

export function partitionTimeline(name: string, generation: number, partition: number): string {
  return generation === 1 ? `${tablePrefix}${name}/p${partition}` : `${catalogOf(name)}/${generation}/p${partition}`
}

/** True for every partition of every generation, and for the timeline that records the live one. */
export function isOfStore(name: string, timeline: string): boolean {
  return /^(?:p\d+|generations(?:\/\d+\/p\d+)?)$/.test(idBelow(`${tablePrefix}${name}/`, timeline) ?? '')
}

/** The generation of a partition; null: not a partition. */
export function generationOf(name: string, timeline: string): number | null {
  const below = idBelow(`${tablePrefix}${name}/`, timeline) ?? ''
  const [, later, first] = /^(?:generations\/(\d+)\/p\d+|(p\d+))$/.exec(below) ?? []
  return first !== undefined ? 1 : later === undefined ? null : Number(later)
}

export async function readLayout(engine: Host, name: string): Promise<Layout> {
  const builds = await readBuilds(engine, catalogOf(name), layoutVersion)
  const generation = builds.live
  const noted = builds.partitionsOf(generation)
  if (noted !== null || generation > 1) return { name, generation, partitions: noted, isNoted: true, builds }
  const heads = (await engine.list({ prefix: `${tablePrefix}${name}/` })).flatMap((head) => {
    const number = /^p(\d+)$/.exec(idBelow(`${tablePrefix}${name}/`, head.timeline) ?? '')?.[1]
    return number === undefined ? [] : [{ number: Number(number), noted: head.attributes[countAttribute] }]
  })
  const count = heads.find((head) => typeof head.noted === 'number')?.noted as number | undefined
  // Created before the number was recorded: there are at least as many as exist.
  const least = heads.reduce((most, { number }) => Math.max(most, number + 1), 0)
  return { name, generation, partitions: count ?? (least || null), isNoted: count !== undefined, builds }
}

/** The layout to open the store with. Throws if the store has another number of partitions. */
export async function layoutFor(engine: Host, name: string, partitions: number): Promise<Layout> {
  const layout = await readLayout(engine, name)
  const { partitions: known, isNoted, builds } = layout
  if (known !== null && known !== partitions && (isNoted || known > partitions))
    throw otherCount(name, known, partitions)
  if (builds.retiring !== null) await retire(engine, name, builds)
  return layout
}

/** `isReplaced`: the requested generation is no longer the live one. */
function otherCount(name: string, known: number, partitions: number, isReplaced = false): RepriseError {
  const what = `state store ${name} has ${known} partitions, not ${partitions}: call its rescale(rp), or open it with ${known}`
  return new RepriseError('INVALID_ARGUMENT', what, { name, known, partitions, isReplaced })
}

/** A table that is open here under the id of a partition would be shared instead of taken over. */
export async function checkIsPartition(engine: Host, timeline: string): Promise<void> {
  const head = await engine.head(timeline)
  const declared = head && storedPolicyOf(head.attributes)
  if (declared?.kind === 'table') throw otherKind(timeline, declared.kind, 'state-store')
}

/**
 * Called once this process owns a partition: a rescale takes over the partitions of a generation before it ends it, so a
 * later rescale would fence this owner. Throws if a rescale has copied the final state of the partition.
 */
export async function confirmLive(engine: Host, layout: Layout, partitions: number, timeline: string): Promise<void> {
  const { name, generation } = layout
  const [head, catalog] = await engine.heads([timelineId(timeline), timelineId(catalogOf(name))])
  const builds = buildsIn(catalog?.attributes ?? {}, layoutVersion)
  if (builds.live !== generation) {
    const now = builds.partitionsOf(builds.live) ?? partitions
    if (now !== partitions) throw otherCount(name, now, partitions, true)
    const what = `state store ${name} was rescaled and scaled back while it was being opened: open it again`
    throw new RepriseError('RESCALING', what, { name, partitions, isReplaced: true })
  }
  if (head?.status !== endedStatus) return
  const into = builds.building === null ? null : builds.partitionsOf(builds.building)
  const what = `state store ${name} is being rescaled from ${partitions} partitions to ${into ?? 'another number'}`
  throw new RepriseError('RESCALING', what, { name, partitions, into })
}

/** True if a rescale has begun to end the live generation: it can only be finished. */
export async function isEnding(engine: Host, layout: Layout): Promise<boolean> {
  const ids = timelinesOf(layout.name, layout.generation, layout.partitions ?? 0)
  const heads = await engine.heads(ids.map((id) => timelineId(id)))
  return heads.some((head) => head?.status === endedStatus)
}

export function timelinesOf(name: string, generation: number, partitions: number): string[] {
  return Array.from({ length: partitions }, (_, partition) => partitionTimeline(name, generation, partition))
}

/** Removes the replaced generation; if a crash interrupts it, the next caller starts over. */
export async function retire(engine: Host, name: string, builds: Builds): Promise<void> {
  const { retiring } = builds
  if (retiring === null) return
  await forget(engine, name, retiring, builds)
  await note(engine, catalogOf(name), { [`retiring.${layoutVersion}`]: null })
}

/**
 * Removes empty partitions of generations before the live one: a process that was killed while it opened a partition of a
 * removed generation has created it again.
 */
export async function removeStrays(engine: Host, { name, generation }: Layout): Promise<void> {
  for (const { timeline, seq, attributes } of await engine.list({ prefix: `${tablePrefix}${name}/` })) {
    const of = generationOf(name, timeline)
    const isTable = storedPolicyOf(attributes)?.kind === 'table'
    if (of !== null && of < generation && seq === 0 && !isTable) await forgetGeneration(engine, timeline)
  }
}

/** Removes all partitions of an unused generation. */
export async function forget(engine: Host, name: string, generation: number, builds: Builds): Promise<void> {
  const partitions = builds.partitionsOf(generation) ?? 0
  for (const timeline of timelinesOf(name, generation, partitions)) await forgetGeneration(engine, timeline)
}

/** Records the number of partitions of the first generation. */
export async function noteCount(engine: Host, timeline: string, partitions: number): Promise<void> {
  const head = await engine.head(timeline)
  if (!head) return
  // A process that took over meanwhile records the same number.
  await engine.commit({
    guard: epochGuardOf(head),
    attributes: { [countAttribute]: partitions },
  })
}

export function partitionOf(key: string, partitions: number): number {
  if (typeof key !== 'string') throw new RepriseError('INVALID_ARGUMENT', `a key must be text (got ${shapeOf(key)})`)
  return textHash(key) % partitions
}
