// The objects of a kind and the rules for changing one: the desired state (spec), the actual state (status, with the
// generation it was written for), and the parties that must release it before it is deleted (finalizers). Values in, values
// out: a rule takes the current object and returns the next one, or refuses.
//
// The generation counts changes of the desired state: of the spec, and the request to delete. The revision is the position of
// the object's last change in the history of its kind (state.ts).

import { RepriseError } from '../../../core/errors.ts'
import { type FieldOwners, stillOwned } from './field-owners.ts'
import { copyJson, equalJson, isJsonObject, type Json } from './json.ts'

export interface OwnerReference {
  /** The kind of the owner: the name of its resource, with its id if it has one: `deployments`, `deployments/tenant-1`. */
  readonly kind: string
  readonly name: string
  /** Identifies the owner; another object of the same name has another uid. */
  readonly uid: string
  /** Marks the one managing owner, as clients of Kubernetes do. Not evaluated here. */
  readonly controller?: boolean
}

export interface Condition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason?: string
  readonly message?: string
  /** The generation that the condition was observed for. */
  readonly observedGeneration: number
  /** When `status` last changed; ms since 1970. */
  readonly changedAt: number
}

export interface ResourceObject<Spec = unknown, Status = unknown> {
  readonly name: string
  /** Unique to this object: an object created again under the same name has another uid. */
  readonly uid: string
  /** The position of the object's last change in the history of its kind. */
  readonly revision: number
  /** Number of changes of the desired state, starting at 1. */
  readonly generation: number
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly owners: readonly OwnerReference[]
  /** Each party listed here must remove itself before a deleted object disappears. */
  readonly finalizers: readonly string[]
  readonly createdAt: number
  /** Time of deletion; the object waits for its finalizers. */
  readonly deletingAt?: number
  readonly spec: Spec
  readonly status?: Status
  /** The generation that `status` was observed for; lower than `generation` if the status is outdated. */
  readonly observedGeneration?: number
  readonly conditions: readonly Condition[]
  /** The applied fields per owner, as pointers (`/spec/replicas`); undefined if no fields were applied. */
  readonly fieldOwners?: FieldOwners
}

export interface NewObject<Spec = unknown> {
  readonly name: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly owners?: readonly OwnerReference[]
  readonly finalizers?: readonly string[]
  readonly spec: Spec
}

/** Omitted fields keep their values. */
export type ObjectChange<Spec = unknown> = Partial<Omit<NewObject<Spec>, 'name'>>

export interface StatusChange<Status = unknown> {
  /** Default: the existing status, which then holds for `observedGeneration` as well. */
  readonly status?: Status
  /** Each replaces the condition of the same type; the others are kept. */
  readonly conditions?: readonly NewCondition[]
  /** The generation that was observed. CONFLICT if a newer one was already reported on. */
  readonly observedGeneration: number
}

export type NewCondition = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>

/** The object that the caller expects; CONFLICT if it is a different one. */
export interface Precondition {
  /** The object has not changed since this revision. */
  readonly revision?: number | undefined
  /** The object has this uid; a different object with the same name does not match. */
  readonly uid?: string | undefined
}

/** An object before it is written: it has no revision, and a new one has no uid. */
export type Draft = Omit<ResourceObject, 'revision' | 'uid'> & { readonly uid?: string }

const nameMax = 253
const listMax = 100

export function checkObjectName(name: unknown): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused here.
  if (typeof name === 'string' && name.length >= 1 && name.length <= nameMax && !/[\u0000-\u001f\u007f]/.test(name)) {
    return name
  }
  const what = `the name of an object must have 1 to ${nameMax} characters, without control characters`
  throw new RepriseError('INVALID_ARGUMENT', what, { name: String(name).slice(0, 80) })
}

export function created(
  kind: string,
  before: ResourceObject | undefined,
  given: NewObject,
  now: number,
  fieldOwners?: FieldOwners,
): Draft {
  const name = checkObjectName(given.name)
  if (before) {
    const what = `${kind} ${name} already exists, at revision ${before.revision}`
    throw new RepriseError('EXISTS', what, { kind, name, revision: before.revision })
  }
  return {
    name,
    generation: 1,
    ...metadataOf(given, { labels: {}, annotations: {}, owners: [], finalizers: [] }),
    createdAt: now,
    spec: copyJson(given.spec, 'spec'),
    conditions: [],
    ...ownedBy(fieldOwners),
  }
}

/** Null: nothing changes. 'gone': the last finalizer was removed. */
export function updated(
  kind: string,
  before: ResourceObject | undefined,
  change: ObjectChange,
  at: Precondition & { readonly name: string },
  applied?: FieldOwners,
): Draft | 'gone' | null {
  const object = mustBe(kind, before, at)
  const next = metadataOf(change, object)
  const spec = change.spec === undefined ? (object.spec as Json) : copyJson(change.spec, 'spec')
  const isDesired = !equalJson(spec, object.spec)
  if (object.deletingAt !== undefined) {
    const added = next.finalizers.find((one) => !object.finalizers.includes(one))
    if (added !== undefined) {
      const what = `${kind} ${at.name} is being deleted: no finalizer can be added (${added})`
      throw new RepriseError('INVALID_ARGUMENT', what, { kind, name: at.name, finalizer: added })
    }
    if (next.finalizers.length === 0) return 'gone'
  }
  const { fieldOwners = {}, ...rest } = draftOf(object)
  const generation = object.generation + (isDesired ? 1 : 0)
  const owned = ownedBy(applied ?? stillOwned(fieldOwners, object, { ...next, spec }))
  const after = { ...rest, ...next, spec, generation, ...owned }
  return equalJson(after, draftOf(object)) ? null : after
}

/** Sets the status and the generation it was observed for in one change. Null: nothing changes. */
export function reported(
  kind: string,
  before: ResourceObject | undefined,
  change: StatusChange,
  at: Precondition & { readonly name: string },
  now: number,
): Draft | null {
  const object = mustBe(kind, before, at)
  const observed = change.observedGeneration
  const seen = object.observedGeneration ?? 0
  if (!Number.isSafeInteger(observed) || observed < 1 || observed > object.generation) {
    const what = `${kind} ${at.name} is at generation ${object.generation}: a status cannot describe ${observed}`
    throw new RepriseError('INVALID_ARGUMENT', what, { kind, name: at.name, observedGeneration: observed })
  }
  if (observed < seen) {
    const what = `the status of ${kind} ${at.name} already describes generation ${seen}, which is newer than ${observed}`
    throw new RepriseError('CONFLICT', what, { kind, name: at.name, observedGeneration: seen, given: observed })
  }
  const after: Draft = {
    ...draftOf(object),
    ...(change.status !== undefined && { status: copyJson(change.status, 'status') }),
    observedGeneration: observed,
    conditions: conditionsAfter(object.conditions, change.conditions ?? [], observed, now),
  }
  return equalJson(after, draftOf(object)) ? null : after
}

/** 'gone': it has no finalizers. A draft: it waits for its finalizers. Null: it is already being deleted. */
export function deleted(
  kind: string,
  before: ResourceObject | undefined,
  at: Precondition & { readonly name: string },
  now: number,
): Draft | 'gone' | null {
  const object = mustBe(kind, before, at)
  if (object.finalizers.length === 0) return 'gone'
  if (object.deletingAt !== undefined) return null
  return { ...draftOf(object), deletingAt: now, generation: object.generation + 1 }
}

export function draftOf({ revision: _, ...draft }: ResourceObject): Draft & { readonly uid: string } {
  return draft
}

function ownedBy(fieldOwners: FieldOwners = {}): { readonly fieldOwners?: FieldOwners } {
  return Object.keys(fieldOwners).length === 0 ? {} : { fieldOwners }
}

function mustBe(
  kind: string,
  object: ResourceObject | undefined,
  at: Precondition & { readonly name: string },
): ResourceObject {
  const { name } = at
  if (!object) throw new RepriseError('NOT_FOUND', `there is no ${kind} ${name}`, { kind, name })
  if (at.uid !== undefined && at.uid !== object.uid) {
    const what = `${kind} ${name} was replaced: its uid is ${object.uid}, not ${at.uid}`
    throw new RepriseError('CONFLICT', what, { kind, name, uid: object.uid })
  }
  if (at.revision !== undefined && at.revision !== object.revision) {
    const what = `${kind} ${name} has been changed: it is at revision ${object.revision}, not ${at.revision}`
    throw new RepriseError('CONFLICT', what, { kind, name, revision: object.revision })
  }
  return object
}

type Metadata = Pick<ResourceObject, 'labels' | 'annotations' | 'owners' | 'finalizers'>

function metadataOf(given: ObjectChange, before: Metadata): Metadata {
  return {
    labels: given.labels === undefined ? before.labels : textsOf(given.labels, 'labels'),
    annotations: given.annotations === undefined ? before.annotations : textsOf(given.annotations, 'annotations'),
    owners: given.owners === undefined ? before.owners : ownersOf(given.owners),
    finalizers: given.finalizers === undefined ? before.finalizers : finalizersOf(given.finalizers),
  }
}

function textsOf(given: unknown, what: string): Readonly<Record<string, string>> {
  const texts = copyJson(given, what)
  if (!isJsonObject(texts) || Object.values(texts).some((value) => typeof value !== 'string')) {
    throw new RepriseError('INVALID_ARGUMENT', `${what} must be an object whose values are texts`)
  }
  return texts as Readonly<Record<string, string>>
}

function ownersOf(given: readonly OwnerReference[]): readonly OwnerReference[] {
  if (!Array.isArray(given) || given.length > listMax) throw notAList('owners', '{ kind, name, uid }')
  return given.map((owner: Partial<OwnerReference> | null) => {
    const { kind, name, uid, controller } = owner ?? {}
    if (typeof kind !== 'string' || typeof name !== 'string' || typeof uid !== 'string' || uid === '') {
      throw notAList('owners', '{ kind, name, uid }')
    }
    return { kind, name, uid, ...(controller === true && { controller }) }
  })
}

function finalizersOf(given: readonly string[]): readonly string[] {
  const isList = Array.isArray(given) && given.length <= listMax
  if (!isList || given.some((one) => typeof one !== 'string' || one === '')) throw notAList('finalizers', 'names')
  return [...new Set(given)]
}

function notAList(what: string, of: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `${what} must be a list of at most ${listMax} ${of}`)
}

function conditionsAfter(
  before: readonly Condition[],
  given: readonly NewCondition[],
  observedGeneration: number,
  now: number,
): readonly Condition[] {
  const byType = new Map(before.map((one) => [one.type, one]))
  for (const { type, status, reason, message } of given) {
    if (typeof type !== 'string' || type === '' || !['True', 'False', 'Unknown'].includes(status)) {
      const what = 'a condition must have a type, and a status that is True, False or Unknown'
      throw new RepriseError('INVALID_ARGUMENT', what, { type: String(type).slice(0, 80), status: String(status) })
    }
    const old = byType.get(type)
    byType.set(type, {
      type,
      status,
      ...(reason !== undefined && { reason }),
      ...(message !== undefined && { message }),
      observedGeneration,
      changedAt: old?.status === status ? old.changedAt : now,
    })
  }
  return [...byType.values()]
}
