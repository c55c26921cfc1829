// The models of aggregates, projections, process managers and the keys of personal data, for tools.

import { usualPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { timelineId } from '../../core/coordinate.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { brief, type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { HeadAgain, Instead, Model, Surroundings } from '../../engine/model/model.ts'
import { buildsIn, endedStatus } from '../../engine/tools/generations.ts'
import { fieldsOf, metaOf, refusedType, supersededStatus } from './envelope.ts'

function kindOf(kind: string, scope: string, policy: Model['policy'], more: Partial<Model> = {}): Model {
  return { kind, name: null, scope, fold: null, policy, ...more }
}

const rebuild: Instead = {
  instead: 'a projection is derived: rebuild it from the events, or roll back the aggregate that made them',
}
const key: Instead = { instead: 'a key is created only once; forgetting it erases the data encrypted with it' }
const reads: Instead = { instead: 'a process manager reads a feed that only goes forward' }

export const aggregateKind = kindOf('aggregate', 'events/', 'declared', {
  entryRow,
  marksRollback: true,
  headOf: (_, { attributes }) => ({
    status: attributes.supersededBy !== undefined ? supersededStatus : attributes.rewrites !== undefined ? 'open' : '',
  }),
})
export const projectionKind = kindOf('projection', 'projection/', 'fixed', {
  headOf: generationHead,
  actions: { rollback: rebuild, fork: rebuild },
  transfer: { stays: 'it reads the feed of its own store: move the aggregates, and rebuild it there' },
})
export const processKind = kindOf('process-manager', 'process/', 'fixed', {
  actions: { rollback: reads, fork: reads },
  transfer: { stays: 'it reads the feed of its own store' },
})
export const keysKind = kindOf('personal-keys', 'keys/', 'fixed', { actions: { rollback: key, fork: key } })

export function aggregateModel(name: string, scope: string, fold: Fold<never>): Model {
  return {
    ...aggregateKind,
    name,
    scope,
    fold: fold as unknown as Fold<unknown>,
    usual: { checkpoint: usualPolicy },
    entries: { fields: fieldsFor, inTurns: true },
  }
}

export function helperModel(kind: Model, name: string, scope: string, fold: Fold<never>): Model {
  return { ...kind, name, scope, fold: fold as unknown as Fold<unknown> }
}

/** A replaced generation must stay ended; otherwise its rows in the user's tables would be written a second time. */
async function generationHead(_: unknown, { timeline }: Head, { store }: Surroundings): Promise<HeadAgain> {
  const [, name, version, generation] = /^projection\/(.+)@(.+)-(\d+)(?:\/\d+)?$/.exec(timeline) ?? []
  if (name === undefined || version === undefined) return { status: '' }
  const [catalog] = await store.head([timelineId(catalogOf(name))])
  const { live, building } = buildsIn(catalog?.attributes ?? {}, version)
  return { status: [live, building].includes(Number(generation)) ? '' : endedStatus }
}

/** The fields of the event, with `meta` beside them. */
function fieldsFor(entry: Entry): unknown {
  return Array.isArray(entry.data) ? { ...(fieldsOf(entry) as object), meta: metaOf(entry) } : entry.data
}

function entryRow(entry: Entry): JournalRow | null {
  if (!Array.isArray(entry.data)) return null
  const { type, seq } = entry
  const title = type === refusedType ? 'command refused' : type
  return journalRow(`~${seq}`, 'step', 'is', { title, note: brief(fieldsOf(entry)) })
}

/** The timeline that records which generation of a projection is live. */
export function catalogOf(name: string): string {
  return `projection/${name}`
}

export function generationTimeline(
  name: string,
  version: string,
  generation: number,
  partition: number | null,
): string {
  const tail = partition === null ? '' : `/${partition}`
  return `projection/${name}@${version}-${generation}${tail}`
}
