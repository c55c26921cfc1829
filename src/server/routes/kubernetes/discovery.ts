// Discovery for clients of Kubernetes: groups, versions and kinds. A token sees the kinds in which it reaches at least one
// collection.

import type { ResourceDefinition } from '../../../layers/resource/resource.ts'
import { apiVersionOf } from '../../../layers/resource/rules/api-names.ts'
import { Reply } from '../../reply.ts'
import type { Call, Route } from '../../route.ts'
import { scopesFor } from '../../scope-filter.ts'
import * as shapes from '../../shapes.ts'
import { asStatus, Refused, statusReply } from './status.ts'

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
const statusVerbs = ['get', 'patch', 'update']

/** Shape of all responses here. */
const kindAnswer = shapes.answer({ kind: shapes.text })
const shared = { tag: 'kubernetes', role: 'read', refusal: asStatus, answer: kindAnswer } as const
/** The type without the @ of the request's, which no content type may contain. */
const binary = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf'
/** Sent by kubectl. */
const query = { timeout: shapes.text }

export const discoveryRoutes: readonly Route[] = [
  {
    ...shared,
    method: 'GET',
    path: '/api',
    id: 'kubernetesCoreVersions',
    summary: 'Versions of the core group, which is empty',
    query,
    call: () => ({ kind: 'APIVersions', versions: [], serverAddressByClientCIDRs: [] }),
  },
  {
    ...shared,
    method: 'GET',
    path: '/apis',
    id: 'kubernetesGroups',
    summary: 'Groups of the resources that the server has the definitions of',
    query,
    call: (call) => ({ kind: 'APIGroupList', apiVersion: 'v1', groups: groupsOf(call) }),
  },
  {
    ...shared,
    method: 'GET',
    path: '/apis/{group}',
    id: 'kubernetesGroup',
    summary: 'The versions of a group',
    query,
    call(call) {
      const group = groupsOf(call).find(({ name }) => name === call.params.group)
      return group ? { kind: 'APIGroup', apiVersion: 'v1', ...group } : nothing()
    },
  },
  {
    ...shared,
    method: 'GET',
    path: '/apis/{group}/{version}',
    id: 'kubernetesKinds',
    summary: 'The kinds of a group and version',
    query,
    call(call) {
      const { group, version } = call.params
      const kinds = seenBy(call).filter(({ api }) => api.group === group && api.version === version)
      if (kinds.length === 0) return nothing()
      const resources = kinds.flatMap(kindOf)
      return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: `${group}/${version}`, resources }
    },
  },
  {
    ...shared,
    method: 'GET',
    path: '/openapi/v2',
    id: 'kubernetesSchemas',
    summary: 'Schemas of the kinds for clients that check before they send: none, so that the server checks',
    answer: shapes.any,
    query,
    call({ request }) {
      const isBinary = request.header('accept')?.includes('application/com.github.proto-openapi.spec.v2')
      // An empty message of that format is a document without definitions.
      if (isBinary) return new Reply(new Uint8Array(), { 'content-type': binary })
      return { swagger: '2.0', info: { title: 'Reprise', version: 'v1' }, paths: {}, definitions: {} }
    },
  },
]

/** The same message for a nonexistent kind and for one that the caller does not reach. */
export function noSuchKind(): Refused {
  return new Refused(404, 'NotFound', 'the server could not find the requested resource', { details: {} })
}

function nothing(): Reply {
  return statusReply(noSuchKind().status)
}

function seenBy({ server, principal }: Call): readonly ResourceDefinition[] {
  return server.kinds.all.filter(({ prefix }) => scopesFor(principal, prefix).length > 0)
}

function groupsOf(call: Call) {
  const names = [...new Set(seenBy(call).map(({ api }) => api.group))]
  return names.map((name) => {
    const versions = new Set(seenBy(call).flatMap(({ api }) => (api.group === name ? [api.version] : [])))
    const shown = [...versions].map((version) => ({ groupVersion: apiVersionOf({ group: name, version }), version }))
    return { name, versions: shown, preferredVersion: shown[0]! }
  })
}

function kindOf({ api }: ResourceDefinition) {
  const { plural, singular, kind, namespaced, shortNames } = api
  return [
    { name: plural, singularName: singular, namespaced, kind, verbs, ...(shortNames.length > 0 && { shortNames }) },
    { name: `${plural}/status`, singularName: '', namespaced, kind, verbs: statusVerbs },
  ]
}
