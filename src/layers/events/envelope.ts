// An event as an entry. The data of an entry is [fields] or [fields, metadata]: the metadata is beside the event, so
// that neither `evolve` nor an upcaster has to handle it. Types that start with ":" belong to this layer (":refused": a
// command that arrived by mail was refused).

import { RepriseError } from '../../core/errors.ts'
import type { Renamed, Upcast, Upcasters } from '../../core/history/fold.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Entry } from '../../engine/history/history.ts'
import { systemPrefix } from '../../engine/model/definition.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import type { EventInfo, Metadata } from './types.ts'

export const layerPrefix = ':'
export const refusedType = ':refused'
/** The status of an aggregate's timeline after a rewrite. */
export const supersededStatus = 'superseded'

const noMetadata: Metadata = {}

/** `isPart`: the event belongs to the previous event with the key, and is skipped if that one is. */
export function toEntry(event: unknown, meta: Metadata, key: string | undefined, isPart = false): NewEntry {
  if (typeof event !== 'object' || event === null || typeof (event as { type?: unknown }).type !== 'string') {
    throw new RepriseError('INVALID_ARGUMENT', 'an event must be an object with a type')
  }
  const { type, ...fields } = event as { readonly type: string }
  if (type.startsWith(systemPrefix) || type.startsWith(layerPrefix)) {
    throw new RepriseError('INVALID_ARGUMENT', `the type of an event must not start with ${type[0]}`, { type })
  }
  const entry = entryOf(type, fields, meta, isPart ? undefined : key)
  return isPart ? { ...entry, partOf: key } : entry
}

export function entryOf(type: string, fields: unknown, meta: Metadata, key: string | undefined): NewEntry {
  return { type, data: Object.keys(meta).length > 0 ? [fields, meta] : [fields], key }
}

/**
 * For an entry that was decoded for this call only: its own fields become the event. A copy would cost more than the
 * fold.
 */
export function takeEvent(entry: Pick<Entry, 'type' | 'data'>): { readonly type: string } {
  const fields = fieldsOf(entry) as { type: string }
  fields.type = entry.type
  return fields
}

/** The event as its author wrote it: type and fields in one object. */
export function eventOf(entry: Pick<Entry, 'type' | 'data'>): { readonly type: string } & Record<string, unknown> {
  return { ...(fieldsOf(entry) as object), type: entry.type }
}

export function fieldsOf(entry: Pick<Entry, 'type' | 'data'>): unknown {
  const fields = Array.isArray(entry.data) ? (entry.data[0] as unknown) : null
  if (typeof fields === 'object' && fields !== null) return fields
  throw new RepriseError('MALFORMED', `an entry of type ${entry.type} is not an event`)
}

export function metaOf(entry: Pick<Entry, 'data'>): Metadata {
  return (Array.isArray(entry.data) ? (entry.data[1] as Metadata | undefined) : undefined) ?? noMetadata
}

export function infoOf(entry: Entry, prefix: string): EventInfo {
  const { timeline, seq, epoch, time, version, key } = entry
  return { timeline, id: timeline.slice(prefix.length), seq, epoch, time, version, key, meta: metaOf(entry) }
}

/** The author's upcasters receive the fields only. */
export function wrapUpcasters(upcasters: Upcasters): Upcasters {
  const wrapped: Record<string, { version: number; from?: Record<number, Upcast | Renamed> }> = {}
  for (const [type, { version, from }] of Object.entries(upcasters)) {
    const links: Record<number, Upcast | Renamed> = {}
    for (const [at, link] of Object.entries(from ?? {})) links[Number(at)] = wrapLink(link)
    wrapped[type] = { version, from: links }
  }
  return wrapped
}

function wrapLink(link: Upcast | Renamed): Upcast | Renamed {
  if (typeof link === 'function') return inside(link)
  return link.data ? { ...link, data: inside(link.data) } : link
}

function inside(upcast: Upcast): Upcast {
  return (data) => {
    const [fields, ...rest] = data as [unknown, ...unknown[]]
    const made = upcast(fields)
    refuseThenable(made, 'an upcaster', 'compute the new data from the old alone')
    return [made, ...rest]
  }
}
