// Resources over HTTP by the conventions of Kubernetes, so that its clients work: kubectl, client libraries, informers.

import type { QuerySchema, Route } from '../../route.ts'
import * as shapes from '../../shapes.ts'
import { discoveryRoutes } from './discovery.ts'
import { isWatch, list, listQuery, selecting, watch } from './listing.ts'
import {
  create,
  get,
  patch,
  patchStatus,
  patchTypes,
  remove,
  removeAll,
  statusPatchTypes,
  update,
  updateStatus,
} from './objects.ts'
import { asStatus } from './status.ts'

const truth: QuerySchema = { type: 'string', enum: ['true', 'false'] }

/** Parameters of a write. Parameters without effect here are declared, so that clients that send them are not refused. */
const writing: Readonly<Record<string, QuerySchema>> = {
  dryRun: { ...shapes.text, isList: true, description: 'refused: nothing is done' },
  fieldManager: shapes.text,
  fieldValidation: shapes.text,
  force: truth,
  pretty: shapes.text,
  timeout: shapes.text,
}
const deleting: Readonly<Record<string, QuerySchema>> = {
  ...writing,
  gracePeriodSeconds: { type: 'integer', minimum: 0 },
  propagationPolicy: { ...shapes.text, description: 'Background' },
  orphanDependents: truth,
}
const reading = { pretty: shapes.text, resourceVersion: shapes.text, timeout: shapes.text } as const

const json = ['application/json']

/** The id of a verb, and the path after the address of a collection. */
type Verb = Omit<Route, 'path' | 'id' | 'tag' | 'refusal' | 'answer'> & { readonly verb: string; readonly tail: string }

const verbs: readonly Verb[] = [
  {
    ...{ method: 'GET', tail: '', verb: 'List', role: 'read', query: listQuery, mayStream: isWatch },
    summary:
      'List objects, in pages of one revision; with watch=1 follow them: ADDED, MODIFIED, DELETED, BOOKMARK and ERROR, one line of JSON each',
    call: (call) => (isWatch(call.request.search) ? watch(call) : list(call)),
  },
  {
    ...{ method: 'POST', tail: '', verb: 'Create', role: 'write', query: writing, status: 201 },
    ...{ summary: 'Create an object', takesBytes: 'bodyBytes', bodyTypes: json, call: create },
  },
  {
    ...{
      method: 'DELETE',
      tail: '',
      verb: 'DeleteAll',
      role: 'write',
      query: { ...deleting, ...listQuery, ...selecting },
    },
    ...{ summary: 'Delete the selected objects', takesBytes: 'bodyBytes', bodyTypes: json, call: removeAll },
  },
  {
    ...{ method: 'GET', tail: '/{name}', verb: 'Get', role: 'read', query: reading },
    ...{ summary: 'One object as it is now', call: get },
  },
  {
    ...{ method: 'PUT', tail: '/{name}', verb: 'Update', role: 'write', query: writing },
    summary: 'Replace an object except its status; Conflict unless it is at the named resourceVersion',
    ...{ takesBytes: 'bodyBytes', bodyTypes: json, call: update },
  },
  {
    ...{ method: 'PATCH', tail: '/{name}', verb: 'Patch', role: 'write', query: writing },
    summary:
      'Change an object by a merge patch or a JSON patch, or apply the fields of one party (fieldManager, force)',
    ...{ takesBytes: 'bodyBytes', bodyTypes: patchTypes, call: patch },
  },
  {
    ...{ method: 'DELETE', tail: '/{name}', verb: 'Delete', role: 'write', query: deleting },
    summary: 'Delete an object: at once, or when its last finalizer is removed',
    ...{ takesBytes: 'bodyBytes', bodyTypes: json, call: remove },
  },
  {
    ...{ method: 'GET', tail: '/{name}/status', verb: 'GetStatus', role: 'read', query: reading },
    ...{ summary: 'One object with its status, as it is now', call: get },
  },
  {
    ...{ method: 'PUT', tail: '/{name}/status', verb: 'UpdateStatus', role: 'write', query: writing },
    summary: 'Replace only the status of an object; Conflict if the status of a newer generation was reported',
    ...{ takesBytes: 'bodyBytes', bodyTypes: json, call: updateStatus },
  },
  {
    ...{ method: 'PATCH', tail: '/{name}/status', verb: 'PatchStatus', role: 'write', query: writing },
    summary: 'Change the status of an object by a merge patch or a JSON patch',
    ...{ takesBytes: 'bodyBytes', bodyTypes: statusPatchTypes, call: patchStatus },
  },
]

function routesAt(path: string, suffix: string): Route[] {
  return verbs.map(({ verb, tail, ...rest }) => ({
    ...rest,
    path: path + tail,
    id: `kubernetes${verb}${suffix}`,
    tag: 'kubernetes',
    refusal: asStatus,
    answer: shapes.answer({ kind: shapes.text, apiVersion: shapes.text, metadata: { type: 'object' } }),
  }))
}

export const kubernetesRoutes: readonly Route[] = [
  ...discoveryRoutes,
  // Before the routes without a namespace, which would match `namespaces` as the plural of a kind.
  ...routesAt('/apis/{group}/{version}/namespaces/{namespace}/{plural}', 'InNamespace'),
  ...routesAt('/apis/{group}/{version}/{plural}', ''),
]
