// reprise/kubernetes: objects of a cluster for informers and controllers, with the same code as for Reprise's own resources.

import type { OriginKind, ResourceOrigin } from '../../layers/resource/origin.ts'
import type { ApiNames } from '../../layers/resource/rules/api-names.ts'
import { ApiClient } from './api-client.ts'
import { KubernetesCollection } from './collection.ts'
import { connectTo, type KubernetesAddress } from './connection.ts'
import type { Kubeconfig } from './kubeconfig.ts'

export type {
  OriginCollection,
  OriginEvent,
  OriginKind,
  OriginObject,
  OriginPage,
  ResourceOrigin,
} from '../../layers/resource/origin.ts'
export type { ApiNames, ApiOptions } from '../../layers/resource/rules/api-names.ts'
export type { FieldOwners } from '../../layers/resource/rules/field-owners.ts'
export type { Condition, Draft, OwnerReference, ResourceObject } from '../../layers/resource/rules/object.ts'
export type { KubernetesAddress } from './connection.ts'
export type { Kubeconfig } from './kubeconfig.ts'

/**
 * Any Kubernetes API server: by its address, by a kubeconfig (a file, or `{ kubeconfig, context }`), or as a pod finds it.
 * Kinds that own each other's objects must share one.
 * @example const sites = resource<Site>('sites', { api: { group: 'shop.example.com' }, from: kubernetes('kubeconfig.yaml') })
 */
export function kubernetes(where?: string | KubernetesAddress | Kubeconfig): ResourceOrigin {
  const client = new ApiClient(connectTo(where))
  const kinds = new Map<string, ApiNames>()
  return {
    declare({ name, api }: OriginKind) {
      kinds.set(name, api)
    },
    collection: ({ api }: OriginKind, namespace) => new KubernetesCollection(client, { api, namespace, kinds }),
  }
}
