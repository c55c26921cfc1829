// The contract of another API server that holds the objects of a kind in place of the store. An adapter implements the
// requests (src/adapters/kubernetes); origin-resource.ts handles the responses the same way for every origin.

import type { ApiNames } from './rules/api-names.ts'
import type { Draft, ResourceObject } from './rules/object.ts'

export interface OriginKind {
  /** The name of the resource. */
  readonly name: string
  readonly api: ApiNames
}

export interface ResourceOrigin {
  /** Called once for each kind, so that owner references to it can use its name. */
  declare(kind: OriginKind): void
  /** The objects of a namespace. Default: of all namespaces, if the kind has them. */
  collection(kind: OriginKind, namespace: string | undefined): OriginCollection
}

export interface OriginPage {
  readonly revision: number
  readonly items: readonly ResourceObject[]
  readonly continue: string | null
  readonly remaining: number | null
}

export type OriginEvent =
  | { readonly type: 'put' | 'gone'; readonly object: ResourceObject }
  /** No change up to this revision is missing. */
  | { readonly type: 'bookmark'; readonly revision: number }

/** An object, with the origin's raw representation: fields unknown here must not be lost when it is written back. */
export interface OriginObject {
  readonly object: ResourceObject
  readonly raw: unknown
}

/**
 * Revisions are increasing numbers. A write applies only to the object that was read: CONFLICT if it has changed since,
 * NOT_FOUND if it was deleted, EXISTS if an object of its name already exists. A lost response is OUTCOME_UNKNOWN for a write,
 * and STORE_UNREACHABLE for every other request.
 */
export interface OriginCollection {
  /** The location, for messages to people. */
  readonly where: string
  /** Consecutive pages have the same revision; REVISION_GONE if that revision is no longer available. */
  list(options: {
    limit?: number | undefined
    continue?: string | undefined
    labels?: string | undefined
  }): Promise<OriginPage>
  /** Every change after a revision, in order. The stream may end at any time; REVISION_GONE: it cannot start there. */
  watch(from: number, signal: AbortSignal): AsyncIterable<OriginEvent>
  read(name: string): Promise<OriginObject | undefined>
  create(draft: Draft): Promise<ResourceObject>
  /** Replaces everything except the status. */
  replace(read: OriginObject, draft: Draft): Promise<ResourceObject>
  /** Replaces the status only. */
  report(read: OriginObject, draft: Draft): Promise<ResourceObject>
  /** Returns the object waiting for its finalizers; null: it was deleted. */
  delete(read: OriginObject): Promise<ResourceObject | null>
}
