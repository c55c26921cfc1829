// Objects as Kubernetes' clients and servers write them, and back: resourceVersion is the revision, observedGeneration and
// conditions are inside the status, and an owner is named by apiVersion and kind.

import { RepriseError } from '../../../core/errors.ts'
import { type ApiNames, apiVersionOf, usualGroup } from './api-names.ts'
import { isJsonObject } from './json.ts'
import type { Condition, OwnerReference, ResourceObject } from './object.ts'

export interface KubernetesObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly spec?: unknown
  readonly status?: unknown
}

/** Kinds that owner references may name, by the names of their resources. */
export type KnownKinds = ReadonlyMap<string, ApiNames>

/** The collection that objects belong to. */
export interface Collection {
  readonly api: ApiNames
  /** Undefined: the kind has no namespaces, or the collection spans all of them. */
  readonly namespace: string | undefined
  readonly kinds: KnownKinds
}

/** The fields of an object that a client may set. */
export interface GivenObject {
  readonly name: string | undefined
  readonly generateName: string | undefined
  readonly namespace: string | undefined
  readonly uid: string | undefined
  /** Undefined: any revision. */
  readonly revision: number | undefined
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly owners: readonly OwnerReference[]
  readonly finalizers: readonly string[]
  readonly spec: unknown
}

export interface GivenStatus {
  /** Undefined: the status has conditions only. */
  readonly status: unknown
  readonly observedGeneration: number | undefined
  readonly conditions: readonly Condition[]
}

/** In a collection that spans all namespaces, the object's name is `namespace/name`. */
export function encodeObject(object: ResourceObject, collection: Collection): KubernetesObject {
  const { api, namespace, kinds } = collection
  const { name, uid, revision, generation, labels, annotations, owners, finalizers } = object
  const status = encodeStatus(object)
  return {
    apiVersion: apiVersionOf(api),
    kind: api.kind,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      uid,
      resourceVersion: String(revision),
      generation,
      creationTimestamp: timeText(object.createdAt),
      ...(object.deletingAt !== undefined && {
        deletionTimestamp: timeText(object.deletingAt),
        deletionGracePeriodSeconds: 0,
      }),
      ...(Object.keys(labels).length > 0 && { labels }),
      ...(Object.keys(annotations).length > 0 && { annotations }),
      ...(owners.length > 0 && { ownerReferences: owners.map((owner) => encodeOwner(owner, kinds)) }),
      ...(finalizers.length > 0 && { finalizers }),
    },
    spec: object.spec,
    ...(status && { status }),
  }
}

/** A status that is not an object is encoded as `value`. */
export function encodeStatus(
  object: Pick<ResourceObject, 'status' | 'observedGeneration' | 'conditions'>,
): Record<string, unknown> | null {
  const { status, observedGeneration, conditions } = object
  if (status === undefined && observedGeneration === undefined && conditions.length === 0) return null
  return {
    ...(isJsonObject(status) ? status : status === undefined ? {} : { value: status }),
    ...(observedGeneration !== undefined && { observedGeneration }),
    ...(conditions.length > 0 && { conditions: conditions.map(encodeCondition) }),
  }
}

/** Decodes an object sent by a client. INVALID_ARGUMENT if it is not an object. */
export function decodeGiven(value: unknown, collection: Collection): GivenObject {
  const { api } = collection
  if (!isJsonObject(value)) throw refuse('an object is required')
  const unknown = Object.keys(value).find((name) => !knownFields.has(name))
  if (unknown !== undefined) throw refuse(`strict decoding error: unknown field "${unknown.slice(0, 80)}"`)
  const { apiVersion, kind, metadata = {}, spec } = value
  if (apiVersion !== undefined && apiVersion !== apiVersionOf(api)) {
    const what = `the API version in the data (${String(apiVersion).slice(0, 80)}) does not match the expected API version (${apiVersionOf(api)})`
    throw refuse(what)
  }
  if (kind !== undefined && kind !== api.kind) {
    throw refuse(`the kind in the data (${String(kind).slice(0, 80)}) does not match the expected kind (${api.kind})`)
  }
  if (!isJsonObject(metadata)) throw refuse('metadata must be an object')
  return { ...decodeMetadata(metadata, collection), spec: spec ?? {} }
}

/** Decodes an object sent by a server. INVALID_ARGUMENT if it is not an object. */
export function decodeObject(value: unknown, collection: Collection): ResourceObject {
  const { metadata, spec = null, status } = (isJsonObject(value) ? value : {}) as Partial<KubernetesObject>
  if (!isJsonObject(metadata)) throw refuse('the server sent a value that is not an object')
  const { name, namespace, uid, revision, labels, annotations, owners, finalizers } = decodeMetadata(
    metadata,
    collection,
  )
  const { generation, creationTimestamp, deletionTimestamp } = metadata
  if (name === undefined || uid === undefined || revision === undefined) {
    throw refuse('the server sent an object without name, uid or resourceVersion')
  }
  const given = status === undefined ? null : decodeStatus(status)
  const isAcross = collection.api.namespaced && collection.namespace === undefined
  return {
    name: isAcross ? `${namespace}/${name}` : name,
    ...{ uid, revision, labels, annotations, owners, finalizers },
    // Some kinds of a cluster have no generation.
    generation: typeof generation === 'number' ? generation : 1,
    createdAt: timeOf(creationTimestamp) ?? 0,
    ...(deletionTimestamp != null && { deletingAt: timeOf(deletionTimestamp) ?? 0 }),
    // For kinds without a spec (a ConfigMap), the spec is the object's content without the common fields.
    spec: spec ?? contentOf(value as Record<string, unknown>),
    ...(given?.status !== undefined && { status: given.status }),
    ...(given?.observedGeneration !== undefined && { observedGeneration: given.observedGeneration }),
    conditions: given?.conditions ?? [],
  }
}

export function decodeStatus(value: unknown): GivenStatus {
  if (!isJsonObject(value)) return { status: value ?? undefined, observedGeneration: undefined, conditions: [] }
  const { observedGeneration, conditions = [], ...rest } = value
  const observed = Number.isSafeInteger(observedGeneration) ? (observedGeneration as number) : undefined
  if (!Array.isArray(conditions)) throw refuse('status.conditions must be a list')
  const names = Object.keys(rest)
  return {
    status: names.length === 0 ? undefined : names.length === 1 && names[0] === 'value' ? rest.value : rest,
    observedGeneration: observed,
    conditions: conditions.map((each) => decodeCondition(each, observed)),
  }
}

/** A time in the format of Kubernetes: UTC, in whole seconds. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/** Revisions are numbers of a sequence here, as in every cluster on etcd. */
export function revisionOf(text: unknown): number {
  const revision = typeof text === 'string' && /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(revision)) return revision
  throw refuse(`resourceVersion must be a number (got ${String(text).slice(0, 40)})`)
}

const knownFields = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status'])

function decodeMetadata(metadata: Record<string, unknown>, collection: Collection): Omit<GivenObject, 'spec'> {
  const { name, generateName, namespace, uid, resourceVersion, labels, annotations, finalizers } = metadata
  const { ownerReferences = [] } = metadata
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
  if (ownerReferences !== null && !Array.isArray(ownerReferences)) throw refuse('ownerReferences must be a list')
  return {
    ...{ name: text(name), generateName: text(generateName), namespace: text(namespace), uid: text(uid) },
    revision: text(resourceVersion) === undefined ? undefined : revisionOf(resourceVersion),
    labels: (labels ?? {}) as Record<string, string>,
    annotations: (annotations ?? {}) as Record<string, string>,
    owners: (ownerReferences ?? []).map((each) => decodeOwner(each, text(namespace), collection)),
    finalizers: (finalizers ?? []) as string[],
  }
}

const fieldsOfEveryObject = new Set(['apiVersion', 'kind', 'metadata', 'status'])

function contentOf(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !fieldsOfEveryObject.has(name)))
}

function encodeCondition({ changedAt, ...condition }: Condition): Record<string, unknown> {
  return { ...condition, lastTransitionTime: timeText(changedAt) }
}

function decodeCondition(value: unknown, observed: number | undefined): Condition {
  const { type, status, reason, message, observedGeneration, lastTransitionTime } = isJsonObject(value) ? value : {}
  if (typeof type !== 'string' || type === '' || !['True', 'False', 'Unknown'].includes(status as string)) {
    throw refuse('a condition must have a type, and a status that is True, False or Unknown')
  }
  return {
    type,
    status: status as Condition['status'],
    ...(typeof reason === 'string' && { reason }),
    ...(typeof message === 'string' && { message }),
    observedGeneration: typeof observedGeneration === 'number' ? observedGeneration : (observed ?? 0),
    changedAt: timeOf(lastTransitionTime) ?? 0,
  }
}

function timeOf(text: unknown): number | null {
  const ms = typeof text === 'string' ? new Date(text).getTime() : Number.NaN
  return Number.isNaN(ms) ? null : ms
}

/** The kind of an owner that is unknown here, written so that it can be decoded again. */
const foreign = /^(\S+):([A-Z]\w*)$/

export function encodeOwner(owner: OwnerReference, kinds: KnownKinds): Record<string, unknown> {
  const { kind, name, uid, controller } = owner
  const api = kinds.get(kind.split('/')[0]!)
  const [, apiVersion, foreignKind] = foreign.exec(kind) ?? []
  return {
    apiVersion: api ? apiVersionOf(api) : (apiVersion ?? `${usualGroup}/v1`),
    kind: api?.kind ?? foreignKind ?? kind,
    // Owners are in the same namespace.
    name: name.slice(name.indexOf('/') + 1),
    uid,
    ...(controller && { controller, blockOwnerDeletion: true }),
  }
}

function decodeOwner(value: unknown, namespace: string | undefined, collection: Collection): OwnerReference {
  const { apiVersion, kind, name, uid, controller } = isJsonObject(value) ? value : {}
  const texts = [apiVersion, kind, name, uid]
  if (texts.some((each) => typeof each !== 'string' || each === '')) {
    throw refuse('an owner must have apiVersion, kind, name and uid')
  }
  const known = [...collection.kinds].find(([, api]) => api.kind === kind && apiVersionOf(api) === apiVersion)
  const isOne = known?.[1].namespaced === true && collection.namespace !== undefined
  const isAcross = known?.[1].namespaced === true && collection.namespace === undefined && namespace !== undefined
  const unknown = apiVersion === `${usualGroup}/v1` ? (kind as string) : `${String(apiVersion)}:${String(kind)}`
  return {
    kind: known ? (isOne ? `${known[0]}/${collection.namespace}` : known[0]) : unknown,
    name: isAcross ? `${namespace}/${String(name)}` : (name as string),
    uid: uid as string,
    ...(controller === true && { controller }),
  }
}

function refuse(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, {})
}
