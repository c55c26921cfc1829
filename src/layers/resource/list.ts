// Lists of one consistent revision, in pages. The first page shows the current revision; later pages show the same revision
// regardless of writes in between. They are read from a snapshot that shares its pages with the state, or, if this process
// has no snapshot (it was dropped, or another process made the first page), from the current state with later changes undone.

import { RepriseError } from '../../core/errors.ts'
import type { Keyed } from '../../core/keyed-state/keyed.ts'
import { checkCount } from '../../core/options.ts'
import { changesAfter, insideOf, revisionGone } from './history.ts'
import type { OpenResource } from './open-resource.ts'
import type { ResourceObject } from './rules/object.ts'
import { type SelectorText, selectorOf } from './rules/selector.ts'

export interface ListOptions extends SelectorText {
  /** Maximum number of items; `continue` reads the rest. */
  readonly limit?: number
  /** The `continue` of the previous page: returns the next page, at the same revision. */
  readonly continue?: string
  /** Lists the objects as of this revision. REVISION_GONE if it is no longer available. Default: the current revision. */
  readonly revision?: number
}

export interface ResourceList<Spec = unknown, Status = unknown> {
  /** All items are as of this revision; a watch from here misses nothing. */
  readonly revision: number
  readonly items: readonly ResourceObject<Spec, Status>[]
  /** Token for the next page; null: this is the last page. */
  readonly continue: string | null
  /** Number of items after this page; null if counting them would require testing every object against a selector. */
  readonly remaining: number | null
}

type Objects = Pick<Keyed<ResourceObject>, 'entries' | 'keys' | 'size'>

const snapshotsMax = 8

export class Lists {
  readonly #resource: OpenResource
  /** By revision, the most recently used last. */
  readonly #snapshots = new Map<number, Keyed<ResourceObject>>()
  #branch = 0

  constructor(resource: OpenResource) {
    this.#resource = resource
  }

  async page(options: ListOptions): Promise<ResourceList> {
    const { limit } = options
    if (limit !== undefined) checkCount('list: limit', limit)
    const selector = selectorOf(options)
    const token = options.continue === undefined ? null : readToken(options.continue)
    const { revisions } = this.#resource
    await this.#resource.refresh()
    const given = options.revision === undefined ? undefined : await insideOf(this.#resource, options.revision)
    if (token) await this.#resource.engine.identity.current()
    const era = revisions.number
    if (token && token.era !== era) {
      const why = 'the store was restored, or the kind created again, since the previous page'
      throw revisionGone(this.#resource.timeline, token.era + token.revision, why, true)
    }
    const isLater = token?.revision === laterRevision
    const revision = (isLater ? undefined : token?.revision) ?? given ?? this.#resource.revision
    const at = revisions.outside(revision)
    const objects = await this.#at(revision)
    const items: ResourceObject[] = []
    const from = token ? `${token.after}\u0000` : ''
    let last: string | null = null
    let isMore = false
    for (const [name, object] of objects.entries({ prefix: selector.prefix, from })) {
      if (!selector.matches(object)) continue
      if (items.length === limit) {
        isMore = true
        break
      }
      items.push(revisions.shown(object))
      last = name
    }
    const isCounted = selector.isAll && selector.prefix === '' && !isLater
    if (!isMore) return { revision: at, items, continue: null, remaining: isCounted ? 0 : null }
    this.#keep(revision)
    const remaining = isCounted ? objects.size - (token?.given ?? 0) - items.length : null
    const next = tokenOf({ revision, era, after: last!, given: (token?.given ?? 0) + items.length })
    return { revision: at, items, continue: next, remaining }
  }

  /** The objects as of a revision. For the newest revision these are the state's own: use them before the next await. */
  async #at(revision: number): Promise<Objects> {
    const resource = this.#resource
    if (this.#branch !== resource.branch) this.#snapshots.clear()
    this.#branch = resource.branch
    if (revision === resource.revision || resource.engine.planted.has('page-of-now')) return resource.state.objects
    const held = this.#snapshots.get(revision)
    if (held) {
      this.#snapshots.delete(revision)
      this.#snapshots.set(revision, held)
      return held
    }
    if (!Number.isSafeInteger(revision) || revision < 0 || revision > resource.revision) {
      const end = resource.revisions.outside(resource.revision)
      throw revisionGone(resource.timeline, resource.revisions.number + revision, `history ends at ${end}`)
    }
    const past = await this.#undone(revision)
    this.#hold(revision, past)
    return past
  }

  /** Restores each object changed since then to its value before the first of those changes. */
  async #undone(revision: number): Promise<Keyed<ResourceObject>> {
    const { state, revision: now, engine, timeline, revisions } = this.#resource
    const outside = (seq: number) => revisions.outside(seq)
    const past = state.objects.snapshot()
    const seen = new Set<string>()
    for (let at: { seq: number; digest?: Uint8Array | undefined } = { seq: revision }; at.seq < now; ) {
      const page = await changesAfter(engine.kernel, timeline, at, 1000, { to: now, outside })
      for (const { object, before } of page.changes) {
        const { name } = object
        if (seen.has(name)) continue
        seen.add(name)
        if (before) past.set(name, before)
        else past.delete(name)
      }
      at = page.at
    }
    return past
  }

  #keep(revision: number): void {
    if (this.#snapshots.has(revision) || revision !== this.#resource.revision) return
    this.#hold(revision, this.#resource.state.objects.snapshot())
  }

  #hold(revision: number, objects: Keyed<ResourceObject>): void {
    this.#snapshots.set(revision, objects)
    for (const oldest of this.#snapshots.keys()) {
      if (this.#snapshots.size <= snapshotsMax) return
      this.#snapshots.delete(oldest)
    }
  }
}

interface Token {
  readonly revision: number
  /** The era of the history when the page was returned (revisions.ts). */
  readonly era: number
  /** The last name returned, and the number of names returned so far. */
  readonly after: string
  readonly given: number
}

/** Marks a token that is bound to no revision: it continues with the current names after `after`. */
const laterRevision = -1

/**
 * @internal A token to continue a list after REVISION_GONE without starting over: changes made between the earlier and the
 * later pages may be missing.
 */
export function laterToken(text: string): string {
  return tokenOf({ ...readToken(text), revision: laterRevision })
}

function tokenOf({ revision, era, after, given }: Token): string {
  return Buffer.from(JSON.stringify({ v: 1, r: revision, e: era, a: after, n: given })).toString('base64url')
}

function readToken(text: string): Token {
  try {
    const { v, r, e = 0, a, n } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<string, unknown>
    if (v === 1 && typeof a === 'string' && Number.isSafeInteger(r) && Number.isSafeInteger(n)) {
      return { revision: r as number, era: e as number, after: a, given: n as number }
    }
  } catch {
    // Reported below.
  }
  throw new RepriseError('INVALID_ARGUMENT', 'list: continue must be the token of the previous page', {
    continue: text.slice(0, 80),
  })
}
