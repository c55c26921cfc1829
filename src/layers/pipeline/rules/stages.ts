// Divides the graph of a pipeline into stages. A stage is the longest stretch of parts whose records need not change instances:
// neighbours with the same instances are fused, and call each other. Records cross to a later stage where a key is set for
// operators with several instances, and where the results of several instances meet in one.
//
// Stages only rise along a stream, so tasks (one stage in one thread) never wait for each other in a circle.

import { assert } from '../../../core/assert.ts'

/** A source, operator or sink. */
export interface StagePart {
  readonly name: string
  /** The number of instances. */
  readonly width: number
  /** True: its records are sent to the instances that own their keys. */
  readonly isExchange: boolean
  /** The indexes of the parts that feed it, one per stream. */
  readonly from: readonly number[]
}

/** The stage of each part. Parts are listed before their readers. */
export function stagesOf(parts: readonly StagePart[]): readonly number[] {
  const stages: number[] = []
  for (const [i, part] of parts.entries()) {
    let stage = 0
    for (const from of part.from) {
      assert(from < i, 'a part is listed before its readers')
      stage = Math.max(stage, stages[from]! + (isCrossing(parts[from]!, part) ? 1 : 0))
    }
    stages.push(stage)
  }
  return stages
}

/** Whether records between these parts change instances. */
export function isCrossing(from: StagePart, to: StagePart): boolean {
  return from.width !== to.width || (from.isExchange && to.width > 1)
}

/** Branches of one stream that meet again after different numbers of stages: their records would lose their order. */
export interface DisorderedBranches {
  readonly fork: string
  readonly meeting: string
}

/**
 * Branches within the stage of their fork and the stage where they meet keep their order, since both use one channel. A
 * branch through a third stage may fall behind the other branch. Returns the first such pair; null: all records keep their order.
 */
export function disorderedBranches(
  parts: readonly StagePart[],
  stages: readonly number[] = stagesOf(parts),
): DisorderedBranches | null {
  const readers = readersOf(parts)
  for (const [fork, branches] of readers.entries()) {
    if (branches.length < 2) continue
    const reaches = branches.map((first) => reachOf(first, readers))
    for (const [meeting, part] of parts.entries()) {
      const inputs = part.from.flatMap((from) => branchesThrough(from, fork, meeting, branches, reaches))
      const isMeeting = inputs.some((some, i) => inputs.some((others, j) => i !== j && differ(some, others)))
      if (!isMeeting) continue
      const isBetween = (i: number) =>
        stages[i] !== stages[fork] && stages[i] !== stages[meeting] && reachOf(i, readers).has(meeting)
      const passed = reaches.some((reach) => reach.has(meeting) && [...reach].some(isBetween))
      if (passed) return { fork: parts[fork]!.name, meeting: part.name }
    }
  }
  return null
}

/** The branches whose records arrive over one input: an input directly after the fork belongs to one branch. */
function branchesThrough(
  from: number,
  fork: number,
  meeting: number,
  branches: readonly number[],
  reaches: readonly ReadonlySet<number>[],
): readonly (readonly number[])[] {
  const own = from === fork ? branches.flatMap((first, b) => (first === meeting ? [b] : [])) : []
  if (own.length > 0) return own.map((b) => [b])
  const through = reaches.flatMap((reach, b) => (reach.has(from) ? [b] : []))
  return through.length > 0 ? [through] : []
}

/** Whether two inputs carry records of different branches. */
function differ(some: readonly number[], others: readonly number[]): boolean {
  return some.some((b) => others.some((other) => other !== b))
}

/** The parts that read each part, once per stream. */
function readersOf(parts: readonly StagePart[]): number[][] {
  const readers: number[][] = parts.map(() => [])
  for (const [i, { from }] of parts.entries()) for (const each of from) readers[each]!.push(i)
  return readers
}

/** The part and all parts that its records reach. */
function reachOf(first: number, readers: readonly (readonly number[])[]): ReadonlySet<number> {
  const seen = new Set<number>([first])
  for (const part of seen) for (const next of readers[part]!) seen.add(next)
  return seen
}
