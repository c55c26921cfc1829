// What tools know of tables and state stores.

import { timelineId } from '../../core/coordinate.ts'
import type { Head } from '../../core/store/ports.ts'
import { otherKind } from '../../engine/checkpoint/declaration.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import type { HeadAgain, Model, Surroundings } from '../../engine/model/model.ts'
import { buildsIn, endedStatus } from '../../engine/tools/generations.ts'
import { rowEdits } from './edit.ts'
import { abandonRescale } from './give-up-rescale.ts'
import { catalogOf, generationOf, isOfStore, layoutVersion } from './layout.ts'
import type { TableState } from './state.ts'
import { tells } from './tells.ts'

/** All partitions of the store: its keys are spread over them. And what says which of them count. */
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

/** Tables as a kind. Rows are values of the user, but the fold is the same for all. */
export const tableKind: Model = {
  ...{ kind: 'table', name: null, scope: 'table/', fold: null, policy: 'declared', tells },
  edits: rowEdits,
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
    stands: (state) => ({ text: `${(state as TableState<unknown>).rows.size.toLocaleString('en')} rows` }),
  }
}

/** A state store of this name may be declared here, too: its partitions lie where tables of such ids would. */
export function checkIsTable(engine: Host, timeline: string): void {
  const known = engine.models.find(timeline)
  if (known && known.kind !== tableKind.kind) throw otherKind(timeline, known.kind, tableKind.kind)
}

/** A partition lies where a table of that id would: its kind is always stored, so that one is not opened as the other. */
export function partitionModel(name: string, scope: string, fold: Fold<never>): Model {
  // Which partition a row belongs to only the store as a whole knows, and a fork is of one of them.
  const { usual: _, edits: __, ...model } = tableModel(name, scope, fold)
  return { ...model, kind: 'state-store', family, headOf: (_, head, kernel) => partitionHead(name, head, kernel) }
}

/**
 * While a rescale is under way, whether this partition was copied for good is not known: then it counts as copied, and nobody
 * writes to it before the rescale is finished.
 */
async function partitionHead(name: string, { timeline }: Head, { store }: Surroundings): Promise<HeadAgain> {
  const generation = generationOf(name, timeline)
  if (generation === null) return { status: '' }
  const [catalog] = await store.head([timelineId(catalogOf(name))])
  const { live, building } = buildsIn(catalog?.attributes ?? {}, layoutVersion)
  return { status: generation === building || (generation === live && building === null) ? '' : endedStatus }
}
