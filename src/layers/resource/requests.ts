// The requests that callers make of objects, and their conversion into changes: updates, patches, applies and reports.

import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, checkOptions } from '../../core/options.ts'
import type { JsonPatch } from './json-patch.ts'
import type { ObjectChange, Precondition, ResourceObject, StatusChange } from './rules/object.ts'

/** `revision` is the one that was read, so that no concurrent change is overwritten; 'any' skips the check. */
export interface Updating<Spec> extends ObjectChange<Spec> {
  readonly name: string
  readonly revision: number | 'any'
  readonly uid?: string
}

/** A list is one value; of an object, any part. */
export type PartOf<V> = V extends readonly unknown[]
  ? V
  : V extends object
    ? { readonly [K in keyof V]?: PartOf<V[K]> }
    : V

/** The fields that one party wants to set on an object, and no others. */
export interface Applying<Spec> extends Omit<ObjectChange, 'spec'> {
  readonly name: string
  /** The party that applies: owner of the fields named here. It uses the same name every time. */
  readonly by: string
  readonly spec?: PartOf<Spec>
  /** Takes over fields that another owner has set to a different value. */
  readonly force?: boolean
}

/** A merge patch (RFC 7386) or a JSON patch (RFC 6902) of labels, annotations, owners, finalizers and spec. */
export type Patch = { readonly merge: object } | { readonly json: JsonPatch }

export interface Reporting<Status> extends StatusChange<Status>, Precondition {
  readonly name: string
}

const knownPatch = new Set(['merge', 'json'])
const knownPatched = new Set(['labels', 'annotations', 'owners', 'finalizers', 'spec'])

/** The fields that a user sets. */
export function fieldsIn({ labels, annotations, owners, finalizers, spec }: ResourceObject): object {
  return { labels, annotations, owners, finalizers, spec }
}

export function checkPatch(patch: Patch): { readonly merge?: object; readonly json?: JsonPatch } {
  checkGivenOptions('patch', patch, knownPatch)
  const { merge, json } = patch as { merge?: object; json?: JsonPatch }
  if ((merge === undefined) !== (json === undefined)) return { ...(merge && { merge }), ...(json && { json }) }
  throw new RepriseError('INVALID_ARGUMENT', 'a patch must be either { merge } or { json }', {})
}

/** A field removed by a patch becomes empty. An object always has a spec. */
export function patchedFrom<Spec>(name: string, patched: unknown): Updating<Spec> {
  const given = patched as Partial<Updating<Spec>> | null
  if (typeof given !== 'object' || Array.isArray(given) || given?.spec === undefined || given.spec === null) {
    throw new RepriseError('INVALID_ARGUMENT', `the patch would leave ${name} without a spec`, { name })
  }
  checkOptions('patch', given, knownPatched)
  return pick({
    labels: {},
    annotations: {},
    owners: [],
    finalizers: [],
    ...given,
    name,
    revision: 0,
  } as Updating<Spec>)
}

/** An object that was read can be passed as a change: fields that callers cannot set are dropped. */
export function pick<Spec>(change: Updating<Spec>): Updating<Spec> {
  const { name, revision, uid, labels, annotations, owners, finalizers, spec } = change
  return {
    name,
    revision,
    ...(uid !== undefined && { uid }),
    ...(labels !== undefined && { labels }),
    ...(annotations !== undefined && { annotations }),
    ...(owners !== undefined && { owners }),
    ...(finalizers !== undefined && { finalizers }),
    ...(spec !== undefined && { spec }),
  }
}
