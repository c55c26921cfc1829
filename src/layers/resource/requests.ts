// What callers may ask of objects, and how what they ask becomes a change: the shapes of updates, patches, applies and reports.

import { RepriseError } from '../../core/errors.ts'
import { checkOptions } from '../../core/options.ts'
import type { JsonPatch } from './json-patch.ts'
import type { ObjectChange, Precondition, ResourceObject, StatusChange } from './rules/object.ts'

/** The revision that was read, so that nobody's change in between is lost; 'any': whatever is there. */
export interface Updating<Spec> extends ObjectChange<Spec> {
  readonly name: string
  readonly revision: number | 'any'
  readonly uid?: string
}

/** Lists are one value; of objects, any part. */
export type PartOf<V> = V extends readonly unknown[]
  ? V
  : V extends object
    ? { readonly [K in keyof V]?: PartOf<V[K]> }
    : V

/** What one party wants of an object, and nothing that it has no opinion on. */
export interface Applying<Spec> extends Omit<ObjectChange, 'spec'> {
  readonly name: string
  /** Who applies: the owner of the fields that are named here, the same name every time. */
  readonly by: string
  readonly spec?: PartOf<Spec>
  /** Takes fields over that another owner wants otherwise. */
  readonly force?: boolean
}

/** By a merge patch (RFC 7386) of labels, annotations, owners, finalizers and spec, or by a JSON patch (RFC 6902) of them. */
export type Patch = { readonly merge: object } | { readonly json: JsonPatch }

export interface Reporting<Status> extends StatusChange<Status>, Precondition {
  readonly name: string
}

const knownPatch = new Set(['merge', 'json'])
const knownPatched = new Set(['labels', 'annotations', 'owners', 'finalizers', 'spec'])

/** What a user sets. */
export function fieldsIn({ labels, annotations, owners, finalizers, spec }: ResourceObject): object {
  return { labels, annotations, owners, finalizers, spec }
}

export function checkPatch(patch: Patch): { readonly merge?: object; readonly json?: JsonPatch } {
  checkOptions('patch', patch, knownPatch)
  const { merge, json } = patch as { merge?: object; json?: JsonPatch }
  if ((merge === undefined) !== (json === undefined)) return { ...(merge && { merge }), ...(json && { json }) }
  throw new RepriseError('INVALID_ARGUMENT', 'a patch must be { merge } or { json }, one of them', {})
}

/** What a patch takes away is empty from then on. There is no object without its spec. */
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

/** An object that was read can be given as a change: what nobody can set is left out. */
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
