// The state of one kind of resource, and the entries that make it. All objects of a kind share one history, so that a
// revision (the sequence of an entry) orders all changes of all objects, and a list has one revision.
//
//   put   { o, u? }     o: the new object, without its revision; a created one has no uid. u: the undo (json-undo.ts)
//                       with the revision before it; absent for a created object.
//   gone  { o }         o: the last state of the object, with that revision.
//   fence { by, epoch } a controller has a new owner: writes of an earlier one are refused.

import { RepriseError } from '../../../core/errors.ts'
import { Keyed } from '../../../core/keyed-state/keyed.ts'
import { type Undo, undone, undoOf } from './json-undo.ts'
import { type Draft, draftOf, type ResourceObject } from './object.ts'

export interface ResourceState {
  readonly objects: Keyed<ResourceObject>
  /** The epoch of the newest owner, by controller. */
  readonly fences: Keyed<number>
}

/** The fields of an entry that matter here. */
export interface ChangeEntry {
  readonly timeline: string
  readonly seq: number
  readonly type: string
  readonly data: unknown
}

export interface NewChange {
  readonly type: 'put' | 'gone' | 'fence'
  readonly data: unknown
}

export interface Change {
  readonly revision: number
  readonly type: 'added' | 'modified' | 'deleted'
  /** The object after the change; for a deleted one its last state, at the revision of the deletion. */
  readonly object: ResourceObject
  /** The object before the change; null: it was created. */
  readonly before: ResourceObject | null
}

interface Put {
  readonly o: Draft
  readonly u?: { readonly r: number; readonly d: Undo | null }
}

export function initialResources(): ResourceState {
  return { objects: new Keyed(), fences: new Keyed() }
}

export function applyResource(state: ResourceState, entry: ChangeEntry): void {
  const { type, seq, data } = entry
  switch (type) {
    case 'put': {
      const { o } = data as Put
      state.objects.set(o.name, objectOf(entry, o))
      return
    }
    case 'gone':
      state.objects.delete((data as { readonly o: ResourceObject }).o.name)
      return
    case 'fence': {
      const { by, epoch } = data as { readonly by: string; readonly epoch: number }
      state.fences.set(by, Math.max(epoch, state.fences.get(by) ?? 0))
      return
    }
    default:
      throw new RepriseError('FOLD_FAILED', `a resource has no entries of type ${type}`, { type, seq })
  }
}

/** The entry that turns `before` into `after`. */
export function entryFor(before: ResourceObject | null, after: Draft | 'gone'): NewChange {
  if (after === 'gone') return { type: 'gone', data: { o: before } }
  if (!before) return { type: 'put', data: { o: after } satisfies Put }
  const u = { r: before.revision, d: undoOf(after, draftOf(before)) }
  return { type: 'put', data: { o: after, u } satisfies Put }
}

/** The change that an entry describes; null: it concerns no object. */
export function changeOf(entry: ChangeEntry): Change | null {
  const { seq, type, data } = entry
  if (type === 'put') {
    const { o, u } = data as Put
    const object = objectOf(entry, o)
    if (!u) return { revision: seq, type: 'added', object, before: null }
    const before = { ...(undone(draftOf(object), u.d) as Draft & { uid: string }), revision: u.r }
    return { revision: seq, type: 'modified', object, before }
  }
  if (type !== 'gone') return null
  const { o } = data as { readonly o: ResourceObject }
  return { revision: seq, type: 'deleted', object: { ...o, revision: seq }, before: o }
}

/** The uid of an object that was made before uids were recorded. */
export function uidOf({ timeline, seq }: Pick<ChangeEntry, 'timeline' | 'seq'>): string {
  return `${timeline.slice(timeline.indexOf('/') + 1)}@${seq}`
}

function objectOf(entry: ChangeEntry, draft: Draft): ResourceObject {
  return { ...draft, uid: draft.uid ?? uidOf(entry), revision: entry.seq }
}

/** FENCED if the controller has registered a newer owner here. */
export function checkFence(
  state: Pick<ResourceState, 'fences'>,
  fence: { readonly by: string; readonly epoch: number },
) {
  const newest = state.fences.get(fence.by) ?? 0
  if (fence.epoch < newest) throw fencedOut(fence, newest)
}

/** The same check for a new fence: no two owners share an epoch. */
export function checkRaised(
  state: Pick<ResourceState, 'fences'>,
  fence: { readonly by: string; readonly epoch: number },
) {
  const newest = state.fences.get(fence.by) ?? 0
  if (fence.epoch <= newest) throw fencedOut(fence, newest)
}

function fencedOut(fence: { readonly by: string; readonly epoch: number }, newest: number): RepriseError {
  const what = `${fence.by} has a newer owner (epoch ${newest}): writes of epoch ${fence.epoch} are refused`
  return new RepriseError('FENCED', what, { by: fence.by, epoch: newest, given: fence.epoch })
}
