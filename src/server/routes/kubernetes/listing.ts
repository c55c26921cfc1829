// List and watch under one address: pages of one revision, then every change after it as one line of JSON.

import { isReprise } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import { hostOf } from '../../../engine/host/host.ts'
import { type ListOptions, laterToken } from '../../../layers/resource/list.ts'
import { apiVersionOf } from '../../../layers/resource/rules/api-names.ts'
import { encodeObject, revisionOf } from '../../../layers/resource/rules/kubernetes.ts'
import type { SelectorText } from '../../../layers/resource/rules/selector.ts'
import type { Watch, WatchEvent } from '../../../layers/resource/watch.ts'
import { type ByteSource, Reply } from '../../reply.ts'
import type { OpenCollection } from '../../resource-kinds.ts'
import type { Call, QuerySchema, QueryValues } from '../../route.ts'
import * as shapes from '../../shapes.ts'
import { failure, Refused, type Status, statusOf } from './status.ts'
import { answering, holding } from './target.ts'

const truth: QuerySchema = { type: 'string', enum: ['true', 'false', '1', '0'] }
const number: QuerySchema = { type: 'integer', minimum: 0, maximum: 2_147_483_647 }

export const selecting = { labelSelector: shapes.text, fieldSelector: shapes.text } as const

export const listQuery: Readonly<Record<string, QuerySchema>> = {
  ...selecting,
  limit: { ...number, description: 'objects per page (default: all)' },
  continue: { type: 'string', maxLength: 4096, description: 'the metadata.continue of the previous page' },
  resourceVersion: shapes.text,
  resourceVersionMatch: { type: 'string', enum: ['Exact', 'NotOlderThan'] },
  watch: { ...truth, description: 'changes after resourceVersion as lines of JSON, in place of a list' },
  allowWatchBookmarks: truth,
  sendInitialEvents: truth,
  timeoutSeconds: number,
  pretty: shapes.text,
  timeout: shapes.text,
}

/** Whether a request is for a stream, detected before it is parsed. */
export function isWatch(search: string): boolean {
  return /(?:^|&)watch=(?:true|1)(?:&|$)/.test(search)
}

const isTrue = (query: QueryValues, name: string) => ['true', '1'].includes(query.text(name) ?? '')

/** Default duration of a watch: one hour; clients reconnect. */
const longestMs = 3_600_000
const bookmarkMs = 10_000

export function list(call: Call): Promise<unknown> {
  return answering(call, async (collection) => {
    const { handle, api } = collection
    const { query } = call
    const page = await handle.list(await listOptions(call, collection)).catch((error: unknown) => {
      const given = query.text('continue')
      if (given === undefined || !isReprise(error, 'REVISION_GONE')) throw error
      const what =
        'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.'
      throw new Refused(410, 'Expired', what, { metadata: { continue: laterToken(given) } })
    })
    return {
      apiVersion: apiVersionOf(api),
      kind: `${api.kind}List`,
      metadata: {
        resourceVersion: String(page.revision),
        ...(page.continue !== null && { continue: page.continue }),
        ...(page.continue !== null && page.remaining !== null && { remainingItemCount: page.remaining }),
      },
      items: page.items.map((object) => encodeObject(object, collection)),
    }
  })
}

async function listOptions({ query }: Call, collection: OpenCollection): Promise<ListOptions> {
  const { handle } = collection
  const limit = query.number('limit') ?? 0
  const [given, match] = [query.text('continue'), query.text('resourceVersionMatch')]
  const at = query.text('resourceVersion') ?? ''
  if (isTrue(query, 'sendInitialEvents')) throw bad('sendInitialEvents is forbidden for list')
  const wanted = { ...selectorOf(query, collection), ...(limit > 0 && { limit }) }
  if (given !== undefined) {
    if (at !== '' && at !== '0') throw bad('specifying resource version is not allowed when using continue')
    return { ...wanted, continue: given }
  }
  if (match !== undefined && at === '')
    throw bad('resourceVersionMatch is forbidden unless resourceVersion is provided')
  const revision = at === '' ? 0 : await revisionFrom(at, collection)
  if (match === 'Exact') {
    if (revision === 0) throw bad('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    await reach(handle, revision)
    return { ...wanted, revision }
  }
  if (revision > 0) await reach(handle, revision)
  return wanted
}

/**
 * Throws REVISION_GONE before the response begins: the revision belongs to a history that a restore discarded, or to a
 * deleted kind.
 */
async function revisionFrom(text: string, { handle }: OpenCollection): Promise<number> {
  const revision = revisionOf(text)
  if (revision > 0) await handle.checkRevision(revision)
  return revision
}

/** A revision beyond the current one may belong to another history: the client is instructed to retry or to start over. */
async function reach(handle: OpenCollection['handle'], revision: number): Promise<void> {
  await handle.shared.refresh()
  if (revision <= handle.revision) return
  throw new Refused(504, 'Timeout', `Too large resource version: ${revision}, current: ${handle.revision}`, {
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
  })
}

export function watch(call: Call): Promise<unknown> {
  return holding(call, async (collection, release) => {
    try {
      return await followed(call, collection, release)
    } catch (error) {
      release()
      throw error
    }
  })
}

async function followed(call: Call, collection: OpenCollection, release: () => void): Promise<Reply> {
  const { query, signal } = call
  const { handle } = collection
  const isInitial = isTrue(query, 'sendInitialEvents')
  const match = query.text('resourceVersionMatch')
  if ((match !== undefined) !== (query.text('sendInitialEvents') !== undefined) || match === 'Exact') {
    throw bad('sendInitialEvents needs resourceVersionMatch=NotOlderThan, and that needs sendInitialEvents')
  }
  const at = query.text('resourceVersion') ?? ''
  const revision = at === '' ? 0 : await revisionFrom(at, collection)
  if (isInitial && revision > 0) await reach(handle, revision)
  const bookmarks = isTrue(query, 'allowWatchBookmarks')
  const options = { ...selectorOf(query, collection), ...(bookmarks && { bookmarks: bookmarkMs }), signal }
  const events = handle.watch(isInitial || revision === 0 ? options : { ...options, from: revision })
  const seconds = query.number('timeoutSeconds') ?? 0
  const waitMs = seconds > 0 ? Math.min(seconds * 1000, longestMs) : longestMs
  const { clock } = hostOf(call.engine)
  const source = new EventLines({ collection, events, isInitial, bookmarks, waitMs, clock, release })
  return new Reply(source, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' })
}

interface Following {
  readonly collection: OpenCollection
  readonly events: Watch
  /** The client waits for the bookmark that ends the initial list. */
  readonly isInitial: boolean
  readonly bookmarks: boolean
  readonly waitMs: number
  readonly clock: Clock
  release(): void
}

/** Lines of a watch, created on demand: a slow client receives them slowly, and delays no other client. */
class EventLines implements ByteSource {
  readonly #following: Following
  readonly #cancel: () => void
  #isLate = false
  #isOver = false

  constructor(following: Following) {
    this.#following = following
    const { clock, waitMs, events } = following
    this.#cancel = clock.after(waitMs, () => {
      this.#isLate = true
      events.close()
    })
  }

  async next(): Promise<Uint8Array | null> {
    const { events, bookmarks, collection } = this.#following
    if (this.#isOver) return null
    try {
      for (;;) {
        const event = await events.next()
        const line = event && this.#lineOf(event)
        if (line) return Buffer.from(line)
        if (event) continue
        this.#isOver = true
        // Its time is over: a bookmark marks where to resume.
        return this.#isLate && bookmarks && events.revision > 0 ? this.#bookmark(events.revision) : null
      }
    } catch (error) {
      this.#isOver = true
      const status =
        statusOf(error, { api: collection.api }) ?? failure(500, 'InternalError', 'an unexpected error occurred')
      return Buffer.from(`${JSON.stringify({ type: 'ERROR', object: status satisfies Status })}\n`)
    }
  }

  close(): void {
    this.#isOver = true
    this.#cancel()
    this.#following.events.close()
    this.#following.release()
  }

  #lineOf(event: WatchEvent): string | null {
    const { collection, isInitial, bookmarks } = this.#following
    if (event.type !== 'bookmark') {
      return `{"type":"${event.type.toUpperCase()}","object":${collection.json(event.object)}}\n`
    }
    if (event.isInitialEnd && isInitial) return this.#bookmark(event.revision, true).toString()
    return bookmarks ? this.#bookmark(event.revision).toString() : null
  }

  #bookmark(revision: number, isInitialEnd = false): Buffer {
    const { collection } = this.#following
    const { api } = collection
    const annotations = isInitialEnd && { annotations: { 'k8s.io/initial-events-end': 'true' } }
    const object = {
      kind: api.kind,
      apiVersion: apiVersionOf(api),
      metadata: { resourceVersion: String(revision), creationTimestamp: null, ...annotations },
    }
    return Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`)
  }
}

/** The namespace is in the address: a selector for another namespace matches nothing. */
export function selectorOf(query: QueryValues, { namespace }: OpenCollection): SelectorText {
  const [labels, fields = ''] = [query.text('labelSelector'), query.text('fieldSelector')]
  const kept: string[] = []
  for (const term of fields.split(',').map((each) => each.trim())) {
    const [, sign, value] = /^metadata\.namespace\s*(!=|==?)\s*(\S*)$/.exec(term) ?? []
    if (value === undefined) kept.push(term)
    else if ((value === (namespace ?? '')) === (sign === '!=')) kept.push('metadata.name=')
  }
  const text = kept.join(',')
  return { ...(labels !== undefined && { labels }), ...(text !== '' && { fields: text }) }
}

function bad(what: string): Refused {
  return new Refused(400, 'BadRequest', what)
}
