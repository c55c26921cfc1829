// What a fork begins with that its parent does not have: edits, in the commit that makes it, and the mark on its head that tells
// of them. What a name is and which entries change it only the model knows (ForkEdits); the rest is the same for all.

import type { Codec } from '../../core/codec/codec.ts'
import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/store/attribute.ts'
import type { Hash, Head } from '../../core/store/ports.ts'
import type { NewEntry } from './entry.ts'

export interface ForkOptions {
  /**
   * What the fork goes on with in place of what is recorded, by name. Its model says what a name is: a step of a workflow, a
   * row of a table, a field of a session.
   */
  readonly set?: Readonly<Record<string, unknown>>
  /** What the fork goes on without, by name: rows of a table. */
  readonly unset?: readonly string[]
  /** Of a workflow: the fork's input. */
  readonly input?: unknown
  /** Who edits it; written down with the edit. */
  readonly by?: string
  /** Asked again with the same key, it is done once. */
  readonly key?: string
}

/** What is asked for, checked. */
export interface ForkEdit {
  readonly set: Readonly<Record<string, unknown>>
  readonly unset: readonly string[]
  readonly by: string
  readonly input?: unknown
}

/** What a model knows of the edits that its forks take. */
export interface ForkEdits {
  /** What a name is, in one word for people: a step, a row, a field. */
  readonly names: string
  /** A fork may have another input. It starts there, unless somebody says where. */
  readonly inputSeq?: number
  /**
   * Throws what cannot be edited, with the reason. `state` is that of the place that was named. Left out: its own `fork` does
   * it, with the edit that it is given.
   */
  of?(state: unknown, edit: ForkEdit, timeline: string): EditedFork
}

export interface EditedFork {
  /** They go into the commit that makes the fork, so nobody ever sees it without them. */
  readonly entries: readonly NewEntry[]
  /** Where the fork leaves its parent, if not at the place that was named. */
  readonly seq?: number
}

/** What the head of a fork tells of how it was made. */
export interface ForkMark {
  /** The names that were edited, the first few of them. */
  readonly edited: readonly string[]
  /** How many there are in all. */
  readonly count: number
  readonly by: string | null
  /** The digest of what was asked for under a key. */
  readonly asked?: string
}

export const forkAttribute = '$fork'
const namesKept = 8
const nameLengthMax = 80

/** Null: no edit. */
export function editOf(options: ForkOptions): ForkEdit | null {
  const { set = {}, unset = [], by = 'somebody' } = options
  if (typeof set !== 'object' || set === null || Array.isArray(set)) {
    throw new RepriseError('INVALID_ARGUMENT', "set must be an object: { set: { 'step': value } }", {
      given: typeof set,
    })
  }
  if (!Array.isArray(unset) || unset.some((name) => typeof name !== 'string')) {
    throw new RepriseError('INVALID_ARGUMENT', 'unset must be a list of names', { given: typeof unset })
  }
  if (typeof by !== 'string' || by === '') {
    throw new RepriseError('INVALID_ARGUMENT', 'by must be the name of somebody', { given: typeof by })
  }
  const twice = unset.find((name) => Object.hasOwn(set, name))
  if (twice !== undefined) {
    throw new RepriseError('INVALID_ARGUMENT', `${twice} cannot be both set and unset`, { name: twice })
  }
  const hasInput = 'input' in options && options.input !== undefined
  if (Object.keys(set).length === 0 && unset.length === 0 && !hasInput) return null
  return { set, unset, by, ...(hasInput && { input: options.input }) }
}

/** Null: there is nothing to tell. */
export function markOf(
  kernel: { readonly codec: Pick<Codec, 'encode'>; readonly hash: Hash },
  parent: string,
  edit: ForkEdit | null,
  key: string | undefined,
): ForkMark | null {
  if (!edit && key === undefined) return null
  const { set, unset, by } = edit ?? { set: {}, unset: [], by: null }
  const names = [...Object.keys(set), ...unset, ...(edit && 'input' in edit ? ['input'] : [])]
  const asked = key === undefined ? null : kernel.codec.encode({ key, parent, set, unset, input: edit?.input })
  return {
    edited: names.slice(0, namesKept).map((name) => name.slice(0, nameLengthMax)),
    count: names.length,
    by,
    ...(asked && { asked: toHex(kernel.hash(asked)) }),
  }
}

/** A fork of a fork has its own mark, or none. */
export function markAttribute(mark: ForkMark | null | undefined): Readonly<Record<string, Attribute | null>> {
  return { [forkAttribute]: mark ? JSON.stringify(mark) : null }
}

/** What its head tells; null: nothing. */
export function forkMarkOf({ attributes }: Pick<Head, 'attributes'>): ForkMark | null {
  const text = attributes[forkAttribute]
  if (typeof text !== 'string') return null
  try {
    return JSON.parse(text) as ForkMark
  } catch {
    return null
  }
}

/** The edits of a fork, in words for people; null: it has none. @example 'charge, by ann' */
export function editWords(head: Pick<Head, 'attributes'>): string | null {
  const mark = forkMarkOf(head)
  if (!mark || mark.count === 0) return null
  const more = mark.count > mark.edited.length ? ` and ${mark.count - mark.edited.length} more` : ''
  return `${mark.edited.join(', ')}${more}, by ${mark.by}`
}
