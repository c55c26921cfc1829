// Inheritance: the part of a fork's history that another timeline wrote. A fork owns its own entries; entries at or below the
// fork point belong to the original. Rollbacks of the fork do not change that: its archives are its own. An imported timeline
// has no base, so its inheritance is an attribute of its head: a fork keeps its original over moves and restores, and a copy
// under another id inherits from the timeline that was exported. A copy of a whole store keeps its bases: there the attribute
// contains all inheritance of the copy's beginning, and a second attribute the base of that moment.

import type { Attribute } from '../store/attribute.ts'
import { liveIdOf } from './scope.ts'

/** A stretch of inherited history: entries up to this sequence, above that of the next stretch, belong to this timeline. */
export interface Inherited {
  readonly timeline: string
  readonly upTo: number
  /** For a stretch from an import: the identity of its timeline, which need not be in this store. Null: unknown. */
  readonly identity?: string | null
}

/** Inherited stretches from an import, as JSON. */
export const inheritedAttribute = '$inherited'

/** The timeline that the newest stretch from an import is from: finds forks and copies of a timeline by query. */
export const originalAttribute = '$original'

/** In a copy of a whole store: the base that the timeline had when the copy was made, as 'TIMELINE@SEQ'. */
export const copiedAttribute = '$copied'

type Attributes = Readonly<Record<string, Attribute>>

interface Ancestor {
  readonly timeline: string
  readonly base: { readonly timeline: string; readonly seq: number } | null
  readonly attributes?: Attributes
}

/**
 * The inherited stretches of a lineage (itself first), the newest first. An empty list: it wrote all of its history.
 * @example inheritedBy([{ timeline: 'a/fork', base: { timeline: 'a/x', seq: 4 } }]) // [{ timeline: 'a/x', upTo: 4 }]
 */
export function inheritedBy(lineage: readonly Ancestor[]): Inherited[] {
  const self = lineage[0] && liveIdOf(lineage[0].timeline)
  const found: Inherited[] = []
  let upTo = Number.POSITIVE_INFINITY
  const copied = lineage[0]?.attributes?.[copiedAttribute]
  for (const { base } of lineage) {
    // Bases from before the copy are in the attribute, with the identities of the original.
    if (!base || (copied !== undefined && isCopied(copied, base))) break
    // A rollback may go to before the fork point: the lowest sequence counts.
    upTo = Math.min(upTo, base.seq)
    if (found.length > 0 || liveIdOf(base.timeline) !== self) found.push({ timeline: base.timeline, upTo })
  }
  const imported = importedInheritance(lineage[0]?.attributes)
  return [...found, ...imported.map((stretch) => ({ ...stretch, upTo: Math.min(upTo, stretch.upTo) }))]
}

/** The text of `copiedAttribute`. A rollback of the parent makes the base an archive; own archives keep their names. */
export function copiedText({ timeline, base }: Ancestor): string | null {
  if (!base) return null
  const isOwn = liveIdOf(base.timeline) === liveIdOf(timeline)
  return `${isOwn ? base.timeline : liveIdOf(base.timeline)}@${base.seq}`
}

function isCopied(copied: Attribute, { timeline, seq }: NonNullable<Ancestor['base']>): boolean {
  return copied === `${timeline}@${seq}` || copied === `${liveIdOf(timeline)}@${seq}`
}

/** The stretches from an import, the newest first. */
export function importedInheritance(attributes: Attributes | undefined): Required<Inherited>[] {
  const text = attributes?.[inheritedAttribute]
  if (typeof text !== 'string') return []
  const stretches = JSON.parse(text) as readonly (readonly [string, number, string | null])[]
  return stretches.map(([timeline, upTo, identity]) => ({ timeline, upTo, identity }))
}

/** The timeline that wrote the newest stretch from an import; null: nothing is inherited. */
export function importedOriginal(attributes: Readonly<Record<string, Attribute | null>>): string | null {
  const text = attributes[inheritedAttribute]
  const [newest] = typeof text === 'string' ? importedInheritance({ [inheritedAttribute]: text }) : []
  return newest ? liveIdOf(newest.timeline) : null
}

/** The attribute; null: nothing is inherited. If there are too many stretches, the newest represents those below it. */
export function inheritanceText(stretches: readonly Required<Inherited>[], lengthMax: number): string | null {
  if (stretches.length === 0) return null
  const text = JSON.stringify(stretches.map(({ timeline, upTo, identity }) => [timeline, upTo, identity]))
  return text.length <= lengthMax ? text : inheritanceText(stretches.slice(0, 1), Number.POSITIVE_INFINITY)
}

/** Whether a file's attribute has the form that importedInheritance reads. */
export function isInheritance(text: Attribute): boolean {
  try {
    const stretches: unknown = JSON.parse(String(text))
    return Array.isArray(stretches) && stretches.every(isStretch)
  } catch {
    return false
  }
}

function isStretch(stretch: unknown): boolean {
  if (!Array.isArray(stretch) || stretch.length !== 3) return false
  const [timeline, upTo, identity] = stretch as unknown[]
  return (
    typeof timeline === 'string' && Number.isSafeInteger(upTo) && (identity === null || typeof identity === 'string')
  )
}

/** The last inherited sequence; 0: none. */
export function inheritedSeq(inherited: readonly Inherited[]): number {
  return inherited[0]?.upTo ?? 0
}

/** The timeline that wrote this sequence; null: the fork itself. */
export function ownerOf(inherited: readonly Inherited[], seq: number): string | null {
  return inherited.findLast(({ upTo }) => seq <= upTo)?.timeline ?? null
}
