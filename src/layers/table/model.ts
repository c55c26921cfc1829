// Models of tables and state stores, for tools.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { otherKind } from '../../engine/checkpoint/stored-policy.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import type { EditedFork, ForkEdit } from '../../engine/model/fork-edit.ts'
import type { HeadAgain, Model, Surroundings } from '../../engine/model/model.ts'
import { buildsIn, endedStatus } from '../../engine/tools/generations.ts'
import { abandonRescale } from './give-up-rescale.ts'
import { entryRow } from './journal-rows.ts'
import { catalogOf, generationOf, isOfStore, layoutVersion } from './layout.ts'
import type { TableState } from './state.ts'

/** All partitions of the store, because its keys are spread over them, and the timeline that records the live generation. */
async function family(rp: Engine, head: Head): Promise<string[]> {
  const engine = hostOf(rp)
  const name = head.timeline.split('/')[1]!
  const heads = await engine.list({ prefix: `table/${name}/`, limit: 10_000 })
  return heads.map((each) => each.timeline as string).filter((id) => isOfStore(name, id))
}

type Policy = NonNullable<Model['usual']>

export const usualPolicy: Policy = {
  checkpoint: { every: 10_000, recoverWithin: '2s' },
  retain: { checkpoints: 2, history: 'needed' },
}

/** The kind of tables. Rows are the user's values, but all tables share one fold. */
export const tableKind: Model = {
  ...{ kind: 'table', name: null, scope: 'table/', fold: null, policy: 'declared', entryRow },
  edits: { names: 'row', of: editRows },
  abandons: { rescale: abandonRescale },
}

export function tableModel(name: string, scope: string, fold: Fold<never>): Model {
  return {
    ...tableKind,
    name,
    scope,
    fold: fold as unknown as Fold<unknown>,
    usual: usualPolicy,
    mayBeOther: (timeline) => isOfStore(name, timeline),
    summarize: (state) => ({ rows: (state as TableState<unknown>).rows.size }),
    statusLine: (state) => ({ text: `${(state as TableState<unknown>).rows.size.toLocaleString('en')} rows` }),
  }
}

/** A state store of this name may be declared here, too: its partitions have ids that tables could have. */
export function checkIsTable(engine: Host, timeline: string): void {
  const known = engine.models.find(timeline)
  if (known && known.kind !== tableKind.kind) throw otherKind(timeline, known.kind, tableKind.kind)
}

/** A partition has an id that a table could have: its kind is always stored, so that one is not opened as the other. */
export function partitionModel(name: string, scope: string, fold: Fold<never>): Model {
  // Only the store as a whole knows the partition of a row, and a fork copies one partition.
  const { usual: _, edits: __, ...model } = tableModel(name, scope, fold)
  return { ...model, kind: 'state-store', family, headOf: (_, head, kernel) => partitionHead(name, head, kernel) }
}

/**
 * During a rescale it is unknown whether this partition's final state was copied: it counts as copied, so that it is not
 * written before the rescale is finished.
 */
async function partitionHead(name: string, { timeline }: Head, { store }: Surroundings): Promise<HeadAgain> {
  const generation = generationOf(name, timeline)
  if (generation === null) return { status: '' }
  const [catalog] = await store.head([timelineId(catalogOf(name))])
  const { live, building } = buildsIn(catalog?.attributes ?? {}, layoutVersion)
  return { status: generation === building || (generation === live && building === null) ? '' : endedStatus }
}

/** Rows that a fork of a table may start with instead, by key, in one entry that records the editor. */
function editRows(at: unknown, { set, unset, by }: ForkEdit, timeline: string): EditedFork {
  const { rows } = at as TableState<unknown>
  const missing = unset.find((key) => !rows.has(key))
  if (missing !== undefined) {
    const what = `${timeline} has no row ${missing} at that sequence`
    throw new RepriseError('NOT_FOUND', what, { timeline, key: missing })
  }
  return {
    entries: [{ type: 'w', data: { s: Object.entries(set).flat(), d: unset, by } }],
  }
}
