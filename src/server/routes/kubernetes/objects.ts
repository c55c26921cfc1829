// Objects over HTTP as clients of Kubernetes read and write them. An update names the resourceVersion that was read; a patch
// is applied to the current object, and retried if another writer wrote first.

import { ignoring, isReprise, RepriseError } from '../../../core/errors.ts'
import { hostOf } from '../../../engine/host/host.ts'
import { type JsonPatch, jsonPatch, mergePatch } from '../../../layers/resource/index.ts'
import {
  decodeGiven,
  decodeStatus,
  encodeObject,
  type GivenObject,
  type KubernetesObject,
  revisionOf,
} from '../../../layers/resource/rules/kubernetes.ts'
import type { ResourceObject } from '../../../layers/resource/rules/object.ts'
import type { OpenCollection } from '../../resource-kinds.ts'
import type { Call } from '../../route.ts'
import { selectorOf } from './listing.ts'
import { jsonReply, Refused, statusReply } from './status.ts'
import { answering, refuseDryRun, sent, typeOf } from './target.ts'

const jsonPatchType = 'application/json-patch+json'
const mergePatchType = 'application/merge-patch+json'
/** Clients send JSON, which is valid YAML; other YAML is refused. */
const applyType = 'application/apply-patch+yaml'
export const statusPatchTypes = [jsonPatchType, mergePatchType]
export const patchTypes = [...statusPatchTypes, applyType]

export function get(call: Call): Promise<unknown> {
  return answering(call, async (collection) => encodeObject(await found(collection, call), collection))
}

export function create(call: Call): Promise<unknown> {
  return answering(
    call,
    async (collection) => {
      refuseDryRun(call)
      const given = decoded(sent(call).value, collection, call)
      if (given.revision !== undefined) {
        throw new Refused(400, 'BadRequest', 'resourceVersion should not be set on objects to be created')
      }
      const name = given.name ?? generated(call, given.generateName)
      const { labels, annotations, owners, finalizers, spec } = given
      const made = await collection.handle.create({ name, labels, annotations, owners, finalizers, spec })
      return answer(made, collection, 201)
    },
    true,
  )
}

export function update(call: Call): Promise<unknown> {
  return answering(
    call,
    async (collection) => {
      refuseDryRun(call)
      const given = decoded(sent(call).value, collection, call)
      await found(collection, call)
      return answer(await written(collection, call, given, mustName(given, call)), collection)
    },
    true,
  )
}

export function patch(call: Call): Promise<unknown> {
  if (typeOf(call) === applyType) return applying(call)
  return patching(call, async (collection, patched) => {
    const given = decoded(patched, collection, call)
    return await written(collection, call, given, given.revision)
  })
}

/**
 * Applies the fields of one party, and creates the object if it does not exist. Fields applied by other parties remain
 * theirs.
 */
function applying(call: Call): Promise<unknown> {
  return answering(
    call,
    async (collection) => {
      refuseDryRun(call)
      const { value } = sent(call, patchTypes)
      const by = call.query.text('fieldManager')
      if (by === undefined) throw new Refused(400, 'BadRequest', 'apply requires fieldManager')
      decoded(value, collection, call)
      const { metadata = {}, spec } = value as Partial<KubernetesObject>
      const { labels, annotations, owners, finalizers } = decodeGiven(value, collection)
      const fields = { labels, annotations, finalizers, owners }
      const names = {
        labels: 'labels',
        annotations: 'annotations',
        finalizers: 'finalizers',
        owners: 'ownerReferences',
      }
      // Only the fields that the body names are applied.
      const named = Object.entries(fields).filter(([field]) => names[field as keyof typeof names] in metadata)
      const { handle } = collection
      const name = call.params.name!
      const isThere = (await handle.get(name)) !== undefined
      const force = call.query.text('force') === 'true'
      const wanted = { ...Object.fromEntries(named), ...((spec !== undefined || !isThere) && { spec: spec ?? {} }) }
      const made = await handle.apply({ name, by, force, ...wanted })
      return answer(made, collection, isThere ? 200 : 201)
    },
    true,
  )
}

export function remove(call: Call): Promise<unknown> {
  return answering(call, async (collection) => {
    const at = preconditionsOf(call)
    const before = await found(collection, call)
    const after = await collection.handle.delete(call.params.name!, at)
    if (after.deletingAt !== undefined && after.finalizers.length > 0) return answer(after, collection)
    const { api } = collection
    const details = { name: before.name, group: api.group, kind: api.plural, uid: before.uid }
    return statusReply({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details })
  })
}

/**
 * Deletes one object after another, each only if it is still the listed one; objects that others delete meanwhile are
 * skipped.
 */
export function removeAll(call: Call): Promise<unknown> {
  return answering(call, async (collection) => {
    preconditionsOf(call)
    const { handle, api } = collection
    const { items, revision } = await handle.list(selectorOf(call.query, collection))
    for (const { name, uid } of items) {
      await handle.delete(name, { uid }).catch(ignoring('NOT_FOUND', 'CONFLICT'))
    }
    return {
      apiVersion: `${api.group}/${api.version}`,
      kind: `${api.kind}List`,
      metadata: { resourceVersion: String(revision) },
      items: items.map((object) => encodeObject(object, collection)),
    }
  })
}

export function updateStatus(call: Call): Promise<unknown> {
  return answering(
    call,
    async (collection) => {
      refuseDryRun(call)
      const value = sent(call).value
      const given = decoded(value, collection, call)
      await found(collection, call)
      return answer(await reported(collection, call, value, given, mustName(given, call)), collection)
    },
    true,
  )
}

export function patchStatus(call: Call): Promise<unknown> {
  return patching(call, async (collection, patched) => {
    const given = decoded(patched, collection, call)
    return await reported(collection, call, patched, given, given.revision)
  })
}

/** Writes the patched object if it has not changed meanwhile; a patch that names a resourceVersion is tried once. */
function patching(
  call: Call,
  write: (collection: OpenCollection, patched: unknown) => Promise<ResourceObject>,
): Promise<unknown> {
  return answering(
    call,
    async (collection) => {
      refuseDryRun(call)
      const { type, value } = sent(call, statusPatchTypes)
      for (;;) {
        const before = encodeObject(await found(collection, call), collection)
        const patched = patchedBy(type, before, value)
        const isNamed = (patched as KubernetesObject).metadata?.resourceVersion !== before.metadata.resourceVersion
        try {
          return answer(await write(collection, patched), collection)
        } catch (error) {
          if (isNamed || !isReprise(error, 'CONFLICT') || !('revision' in error.data)) throw error
        }
      }
    },
    true,
  )
}

function patchedBy(type: string, before: KubernetesObject, patch: unknown): unknown {
  try {
    return type === jsonPatchType ? jsonPatch(before, patch as JsonPatch) : mergePatch(before, patch)
  } catch (error) {
    // A missing path, or a failed test.
    if (!isReprise(error, 'CONFLICT')) throw error
    throw new Refused(
      422,
      'Invalid',
      `the server rejected our request due to an error in our request: ${error.message}`,
    )
  }
}

function written({ handle }: OpenCollection, { params }: Call, given: GivenObject, revision: number | undefined) {
  const { labels, annotations, owners, finalizers, spec, uid } = given
  const change = { name: params.name!, revision: revision ?? ('any' as const), ...(uid !== undefined && { uid }) }
  return handle.update({ ...change, labels, annotations, owners, finalizers, spec })
}

function reported(
  { handle }: OpenCollection,
  { params }: Call,
  value: unknown,
  { uid }: GivenObject,
  revision: number | undefined,
) {
  return handle.replaceStatus({
    ...decodeStatus((value as KubernetesObject).status),
    name: params.name!,
    uid,
    revision,
  })
}

async function found({ handle }: OpenCollection, { params }: Call): Promise<ResourceObject> {
  const name = params.name!
  const object = await handle.get(name)
  if (!object) throw new RepriseError('NOT_FOUND', `there is no ${handle.kind} ${name}`, { name })
  return object
}

function answer(object: ResourceObject, collection: OpenCollection, status = 200) {
  return jsonReply(JSON.stringify(encodeObject(object, collection)), status)
}

/** A body that is not an object of this kind, or is meant for another location, is refused before validation. */
function decoded(value: unknown, collection: OpenCollection, call: Call): GivenObject {
  try {
    const given = decodeGiven(value, collection)
    checkPlace(given, call)
    return given
  } catch (error) {
    if (!isReprise(error, 'INVALID_ARGUMENT')) throw error
    throw new Refused(400, 'BadRequest', error.message.replace(/ \[[A-Z_]+\]$/, ''))
  }
}

function checkPlace({ name, namespace }: GivenObject, { params }: Call): void {
  if (params.name !== undefined && name !== undefined && name !== params.name) {
    const what = `the name of the object (${name}) does not match the name on the URL (${params.name})`
    throw new Refused(400, 'BadRequest', what)
  }
  if (namespace !== undefined && namespace !== (params.namespace ?? '')) {
    throw new Refused(
      400,
      'BadRequest',
      'the namespace of the provided object does not match the namespace sent on the request',
    )
  }
}

function mustName({ revision }: GivenObject, { params }: Call): number {
  if (revision !== undefined) return revision
  const causes = [
    {
      reason: 'FieldValueInvalid',
      message: 'Invalid value: 0: must be specified for an update',
      field: 'metadata.resourceVersion',
    },
  ]
  const what = `"${params.name}" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`
  throw new Refused(422, 'Invalid', what, { details: { name: params.name!, causes } })
}

const letters = 'bcdfghjklmnpqrstvwxz2456789'

function generated({ engine }: Call, start: string | undefined): string {
  if (start === undefined) {
    throw new Refused(422, 'Invalid', 'name or generateName is required', {
      details: {
        causes: [{ reason: 'FieldValueRequired', message: 'name or generateName is required', field: 'metadata.name' }],
      },
    })
  }
  const { random } = hostOf(engine)
  const tail = Array.from({ length: 5 }, () => letters[Math.floor(random.number() * letters.length)])
  return start + tail.join('')
}

/** The preconditions in the options of a deletion. Dependents are always deleted in the background. */
function preconditionsOf(call: Call): { readonly uid?: string; readonly revision?: number } {
  refuseDryRun(call)
  const { value } = sent(call, undefined, true)
  const { preconditions, propagationPolicy, dryRun, orphanDependents } = (value ?? {}) as Record<string, unknown>
  const policy = propagationPolicy ?? call.query.text('propagationPolicy') ?? 'Background'
  if (Array.isArray(dryRun) && dryRun.length > 0) {
    throw new Refused(400, 'BadRequest', 'dryRun is not supported: nothing was done')
  }
  if (policy !== 'Background' || orphanDependents === true || call.query.text('orphanDependents') === 'true') {
    const what = `propagationPolicy must be Background: objects that it owns are deleted after it (got ${String(policy)})`
    throw new Refused(400, 'BadRequest', what)
  }
  const { uid, resourceVersion } = (preconditions ?? {}) as { uid?: string; resourceVersion?: string }
  return {
    ...(typeof uid === 'string' && { uid }),
    ...(typeof resourceVersion === 'string' && { revision: revisionOf(resourceVersion) }),
  }
}
