// The entries a fork starts with beyond its parent's history: edits, written in the commit that creates it, and the
// mark on its head that records them. Only the model knows the meaning of a name and the entries that change it
// (ForkEdits); the rest is the same for all models.

import type { Codec } from '../../core/codec/codec.ts'
import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/store/attribute.ts'
import type { Hash, Head } from '../../core/store/ports.ts'
import type { NewEntry } from './entry.ts'

export interface ForkOptions {
  /**
   * Values that replace recorded ones in the fork, by name. The model defines the names: a step of a workflow, a row of
   * a table, a field of a session.
   */
  readonly set?: Readonly<Record<string, unknown>>
  /** Names to remove in the fork: rows of a table. */
  readonly unset?: readonly string[]
  /** For a workflow: the fork's input. */
  readonly input?: unknown
  /** The author of the edit, recorded with it. */
  readonly by?: string
  /** A repeated request with the same key is done once. */
  readonly key?: string
}

/** The request, validated. */
export interface ForkEdit {
  readonly set: Readonly<Record<string, unknown>>
  readonly unset: readonly string[]
  readonly by: string
  readonly input?: unknown
}

/** The edits that a model's forks accept. */
export interface ForkEdits {
  /** The word for an edited name in messages: step, row or field. */
  readonly names: string
  /** Set if a fork may have another input: the sequence at which it then starts by default. */
  readonly inputSeq?: number
  /**
   * Throws for anything that cannot be edited, with the reason. `state` is that of the requested sequence. Default: the
   * model's own `fork` applies the edit.
   */
  of?(state: unknown, edit: ForkEdit, timeline: string): EditedFork
}

export interface EditedFork {
  /** Part of the commit that creates the fork, so no reader ever sees the fork without them. */
  readonly entries: readonly NewEntry[]
  /** Where the fork leaves its parent. Default: the requested sequence. */
  readonly seq?: number
}

/** How a fork was made, as stored in its head. */
export interface ForkMark {
  /** The first few edited names. */
  readonly edited: readonly string[]
  /** The number of all edited names. */
  readonly count: number
  readonly by: string | null
  /** The digest of the request made under a key. */
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
    throw new RepriseError('INVALID_ARGUMENT', 'by must be a name', { given: typeof by })
  }
  const twice = unset.find((name) => Object.hasOwn(set, name))
  if (twice !== undefined) {
    throw new RepriseError('INVALID_ARGUMENT', `${twice} cannot be both set and unset`, { name: twice })
  }
  const hasInput = 'input' in options && options.input !== undefined
  if (Object.keys(set).length === 0 && unset.length === 0 && !hasInput) return null
  return { set, unset, by, ...(hasInput && { input: options.input }) }
}

/** Null: there is nothing to record. */
export function markOf(
  kernel: { readonly codec: Pick<Codec, 'encode'>; readonly hash: Hash },
  parent: string,
  edit: ForkEdit | null,
  key: string | undefined,
): ForkMark | null {
  if (!edit && key === undefined) return null
  const { set, unset, by } = edit ?? { set: {}, unset: [], by: null }
  const names = [...Object.keys(set), ...unset, ...(edit && 'input' in edit ? ['input'] : [])]
  const requestBytes = key === undefined ? null : kernel.codec.encode({ key, parent, set, unset, input: edit?.input })
  return {
    edited: names.slice(0, namesKept).map((name) => name.slice(0, nameLengthMax)),
    count: names.length,
    by,
    ...(requestBytes && { asked: toHex(kernel.hash(requestBytes)) }),
  }
}

/** A fork of a fork has its own mark, or none. */
export function markAttribute(mark: ForkMark | null | undefined): Readonly<Record<string, Attribute | null>> {
  return { [forkAttribute]: mark ? JSON.stringify(mark) : null }
}

/** The mark in the head. Null: none. */
export function forkMarkOf({ attributes }: Pick<Head, 'attributes'>): ForkMark | null {
  const text = attributes[forkAttribute]
  if (typeof text !== 'string') return null
  try {
    return JSON.parse(text) as ForkMark
  } catch {
    return null
  }
}

/** The edits of a fork, as text for people. Null: none. @example 'charge, by ann' */
export function editWords(head: Pick<Head, 'attributes'>): string | null {
  const mark = forkMarkOf(head)
  if (!mark || mark.count === 0) return null
  const more = mark.count > mark.edited.length ? ` and ${mark.count - mark.edited.length} more` : ''
  return `${mark.edited.join(', ')}${more}, by ${mark.by}`
}
