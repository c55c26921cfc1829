// The objects of one kind in a cluster, behind the contract of origins: list, watch and writes of an API server.

import { RepriseError } from '../../core/errors.ts'
import type { OriginCollection, OriginEvent, OriginObject, OriginPage } from '../../layers/resource/origin.ts'
import { apiVersionOf, qualifiedName } from '../../layers/resource/rules/api-names.ts'
import { equalJson, isJsonObject } from '../../layers/resource/rules/json.ts'
import {
  type Collection,
  decodeObject,
  decodeStatus,
  encodeOwner,
  encodeStatus,
  revisionOf,
} from '../../layers/resource/rules/kubernetes.ts'
import type { Draft, ResourceObject } from '../../layers/resource/rules/object.ts'
import type { ApiClient, Ask } from './api-client.ts'

/** How long one watch lasts; then it is resumed from its last position. */
const watchSeconds = 290
const silentMs = (watchSeconds + 30) * 1000

interface Raw {
  readonly metadata: Readonly<Record<string, unknown>>
  readonly status?: { readonly conditions?: readonly unknown[] }
}

export class KubernetesCollection implements OriginCollection {
  readonly #client: ApiClient
  readonly #at: Collection

  constructor(client: ApiClient, at: Collection) {
    this.#client = client
    this.#at = at
    if (at.namespace !== undefined && !at.api.namespaced) {
      const what = `${at.api.plural} have no namespaces: open them without an id, or set namespaced: true`
      throw new RepriseError('INVALID_ARGUMENT', what, { namespace: at.namespace })
    }
  }

  get where(): string {
    const { api, namespace } = this.#at
    return `${qualifiedName(api)}${namespace === undefined ? '' : ` in ${namespace}`} of a cluster`
  }

  async list(options: { limit?: number; continue?: string; labels?: string }): Promise<OriginPage> {
    const { limit, continue: next, labels: labelSelector } = options
    const query = { limit, continue: next, labelSelector }
    const value = (await this.#ask({ method: 'GET', path: this.#path(), query })) as {
      readonly metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number }
      readonly items: readonly unknown[]
    }
    const { metadata, items } = value
    return {
      revision: revisionOf(metadata.resourceVersion),
      items: items.map((item) => decodeObject(item, this.#at)),
      continue: metadata.continue || null,
      remaining: metadata.remainingItemCount ?? null,
    }
  }

  async *watch(from: number, signal: AbortSignal): AsyncGenerator<OriginEvent> {
    const query = { watch: 1, resourceVersion: from, allowWatchBookmarks: 'true', timeoutSeconds: watchSeconds }
    const ask = { method: 'GET', path: this.#path(), query, about: this.#about() } as const
    for await (const line of this.#client.lines(ask, silentMs, signal)) {
      const { type, object } = line as {
        readonly type: string
        readonly object: Raw & { code?: number; message?: string }
      }
      switch (type) {
        case 'ADDED':
        case 'MODIFIED':
          yield { type: 'put', object: decodeObject(object, this.#at) }
          break
        case 'DELETED':
          yield { type: 'gone', object: decodeObject(object, this.#at) }
          break
        case 'BOOKMARK':
          yield { type: 'bookmark', revision: revisionOf(object.metadata.resourceVersion) }
          break
        case 'ERROR': {
          const isGone = object.code === 410
          const what = `the watch of ${this.where} ended: ${object.message ?? 'the server gave no reason'}`
          throw new RepriseError(isGone ? 'REVISION_GONE' : 'STORE_UNREACHABLE', what, this.#about())
        }
      }
    }
  }

  async read(name: string): Promise<OriginObject | undefined> {
    try {
      const raw = await this.#ask({ method: 'GET', path: this.#path(name) }, name)
      return { raw, object: decodeObject(raw, this.#at) }
    } catch (error) {
      if (error instanceof RepriseError && error.code === 'NOT_FOUND') return undefined
      throw error
    }
  }

  async create(draft: Draft): Promise<ResourceObject> {
    const { api } = this.#at
    const { namespace, name } = this.#place(draft.name)
    const metadata = { name, ...(namespace !== undefined && { namespace }), ...this.#metadataOf(draft) }
    const body = { apiVersion: apiVersionOf(api), kind: api.kind, metadata, spec: draft.spec }
    const path = this.#path(undefined, namespace)
    return decodeObject(await this.#ask({ method: 'POST', path, body }, draft.name), this.#at)
  }

  async replace({ object, raw }: OriginObject, draft: Draft): Promise<ResourceObject> {
    const { metadata, ...rest } = raw as Raw & Record<string, unknown>
    // For a kind without a spec, the draft is the rest of the object.
    const content = 'spec' in rest ? { spec: draft.spec } : (draft.spec as object)
    const own = this.#metadataOf(draft)
    const owners = equalJson(draft.owners, object.owners) && { ownerReferences: metadata.ownerReferences }
    const body = { ...rest, ...content, metadata: { ...metadata, ...own, ...owners } }
    return decodeObject(await this.#ask({ method: 'PUT', path: this.#path(draft.name), body }, draft.name), this.#at)
  }

  async report({ raw }: OriginObject, draft: Draft): Promise<ResourceObject> {
    const status = encodeStatus(draft) ?? {}
    const known = (raw as Raw).status?.conditions ?? []
    // A condition that is already reported with the same content stays as its writer left it.
    const conditions = (status.conditions as readonly { readonly type: string }[] | undefined)?.map((condition) => {
      const before = known.find((each) => isJsonObject(each) && each.type === condition.type)
      return before && isSameCondition(before, condition) ? before : condition
    })
    const body = { ...(raw as object), status: { ...status, ...(conditions && { conditions }) } }
    const path = `${this.#path(draft.name)}/status`
    return decodeObject(await this.#ask({ method: 'PUT', path, body }, draft.name), this.#at)
  }

  async delete({ object }: OriginObject): Promise<ResourceObject | null> {
    const { uid, revision, name } = object
    const preconditions = { uid, resourceVersion: String(revision) }
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, propagationPolicy: 'Background' }
    const answer = await this.#ask({ method: 'DELETE', path: this.#path(name), body }, name)
    return (answer as { readonly kind?: string }).kind === 'Status' ? null : decodeObject(answer, this.#at)
  }

  #metadataOf({ labels, annotations, owners, finalizers }: Draft) {
    const ownerReferences = owners.map((owner) => encodeOwner(owner, this.#at.kinds))
    return { labels, annotations, ownerReferences, finalizers }
  }

  async #ask(ask: Omit<Ask, 'about'>, name?: string): Promise<unknown> {
    return await this.#client.ask({ ...ask, about: this.#about(name) })
  }

  #about(name?: string): Readonly<Record<string, unknown>> {
    const { api, namespace } = this.#at
    return { kind: api.plural, ...(namespace !== undefined && { namespace }), ...(name !== undefined && { name }) }
  }

  /** For objects of all namespaces, a name starts with its namespace. */
  #place(name: string): { readonly namespace: string | undefined; readonly name: string } {
    const { api, namespace } = this.#at
    if (!api.namespaced || namespace !== undefined) return { namespace, name }
    const [own, ...rest] = name.split('/')
    if (rest.length === 1) return { namespace: own!, name: rest[0]! }
    const what = `objects of all namespaces are called namespace/name (got ${name.slice(0, 80)})`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }

  #path(full?: string, of?: string): string {
    const { api } = this.#at
    const { namespace, name } =
      full === undefined ? { namespace: of ?? this.#at.namespace, name: '' } : this.#place(full)
    const base = api.group === '' ? `/api/${api.version}` : `/apis/${api.group}/${api.version}`
    const within = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`
    return `${base}${within}/${api.plural}${name === '' ? '' : `/${encodeURIComponent(name)}`}`
  }
}

function isSameCondition(before: unknown, condition: unknown): boolean {
  const read = (value: unknown) => decodeStatus({ conditions: [value] }).conditions
  return equalJson(read(before), read(condition))
}
