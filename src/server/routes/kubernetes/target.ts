// The objects that a request is about, restricted to the caller's reach, and refusals in the form of an API server.

import type { ResourceDefinition } from '../../../layers/resource/resource.ts'
import { namespaceForm } from '../../../layers/resource/rules/api-names.ts'
import { mayReach } from '../../access.ts'
import { parseJson } from '../../request.ts'
import type { OpenCollection } from '../../resource-kinds.ts'
import type { Call } from '../../route.ts'
import { noSuchKind } from './discovery.ts'
import { Refused, statusOf, statusReply } from './status.ts'

/** 404 for a nonexistent kind and for one that the principal does not reach: the same message. */
function definitionOf({ server, principal, params }: Call): ResourceDefinition {
  const { group, version, plural, namespace } = params
  const definition = server.kinds.find(group!, version!, plural!)
  if (!definition || definition.api.namespaced < (namespace !== undefined)) throw noSuchKind()
  if (namespace !== undefined && !namespaceForm.test(namespace)) throw noSuchKind()
  const { prefix, api } = definition
  if (!mayReach(principal, namespace === undefined ? prefix : `${prefix}/${namespace}`)) throw noSuchKind()
  if (api.namespaced && namespace === undefined) {
    const what = `${api.plural} have one history per namespace: name one namespace`
    throw new Refused(400, 'BadRequest', what)
  }
  return definition
}

/** Responds with the result, or with the Status of the refusal. `isValue`: the object itself is refused. */
export async function answering(
  call: Call,
  act: (collection: OpenCollection) => Promise<unknown>,
  isValue = false,
): Promise<unknown> {
  return await holding(
    call,
    async (collection, release) => {
      try {
        return await act(collection)
      } finally {
        release()
      }
    },
    isValue,
  )
}

/** The same, for a collection that stays open until `release` is called. */
export async function holding(
  call: Call,
  act: (collection: OpenCollection, release: () => void) => Promise<unknown>,
  isValue = false,
): Promise<unknown> {
  const { params, server } = call
  let definition: ResourceDefinition | undefined
  try {
    definition = definitionOf(call)
    const { collection, release } = await server.kinds.hold(definition, params.namespace)
    return await act(collection, release)
  } catch (error) {
    if (error instanceof Refused) return statusReply(error.status)
    const name = params.name ?? (error as { data?: { name?: string } }).data?.name
    const status = definition && statusOf(error, { api: definition.api, name, isValue })
    if (!status) throw error
    return statusReply(status)
  }
}

const jsonType = 'application/json'

/** The body as JSON, and its type. 415 for any other type. */
export function sent(call: Call, types: readonly string[] = [jsonType], isOptional = false) {
  const { bytes } = call
  const type = typeOf(call)
  if (isOptional && (!bytes || bytes.length === 0)) return { type, value: {} }
  if (!types.includes(type)) {
    const what = `the body of the request was in an unknown format - accepted media types include: ${types.join(', ')}`
    throw new Refused(415, 'UnsupportedMediaType', what)
  }
  return { type, value: parseJson(bytes ?? new Uint8Array()) }
}

export function typeOf({ request }: Call): string {
  return (request.header('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
}

/** A dry run is refused rather than executed. */
export function refuseDryRun({ query }: Call): void {
  if (query.list('dryRun').length === 0) return
  throw new Refused(400, 'BadRequest', 'dryRun is not supported: nothing was done')
}
