// Where the objects of a kind are if not in the store: another API server. The narrow contract of what is asked of it; how it is
// asked is an adapter's (src/adapters/kubernetes), and what is done with the answers is that of every kind (origin-resource.ts).

import type { ApiNames } from './rules/api-names.ts'
import type { Draft, ResourceObject } from './rules/object.ts'

export interface OriginKind {
  /** Of the resource. */
  readonly name: string
  readonly api: ApiNames
}

export interface ResourceOrigin {
  /** Told once for each kind, so that owners of it are known by its name. */
  declare(kind: OriginKind): void
  /** The objects of a namespace, or of all of them where the kind has namespaces and none is named. */
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
  /** Nothing up to here is missing. */
  | { readonly type: 'bookmark'; readonly revision: number }

/** An object, and all that the origin says of it: what is not known here must not be lost when it is written back. */
export interface OriginObject {
  readonly object: ResourceObject
  readonly raw: unknown
}

/**
 * Revisions are numbers that only grow. What is written applies only to the object that was read: CONFLICT if it has changed
 * since, NOT_FOUND if it is gone, EXISTS if one of its name is there already. An answer that never came is OUTCOME_UNKNOWN for a
 * write, and STORE_UNREACHABLE for everything else.
 */
export interface OriginCollection {
  /** For people: where it is. */
  readonly where: string
  /** All pages that follow each other are of one revision; REVISION_GONE if that is no longer to be had. */
  list(options: {
    limit?: number | undefined
    continue?: string | undefined
    labels?: string | undefined
  }): Promise<OriginPage>
  /** Every change after a revision, in order. It may end at any time; REVISION_GONE: it cannot begin there. */
  watch(from: number, signal: AbortSignal): AsyncIterable<OriginEvent>
  read(name: string): Promise<OriginObject | undefined>
  create(draft: Draft): Promise<ResourceObject>
  /** All but its status. */
  replace(read: OriginObject, draft: Draft): Promise<ResourceObject>
  /** Its status, and nothing else. */
  report(read: OriginObject, draft: Draft): Promise<ResourceObject>
  /** As it waits for its finalizers; null: it is gone. */
  delete(read: OriginObject): Promise<ResourceObject | null>
}
