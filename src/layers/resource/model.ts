// Model of resources, for tools: objects of one kind in one timeline, resource/<name> or resource/<name>/<id>.

import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Instead, Model } from '../../engine/model/model.ts'
import { applyResource, type ChangeEntry, changeOf, initialResources, type ResourceState } from './rules/state.ts'

export const resourcePrefix = 'resource/'

export const usualPolicy: NonNullable<Model['usual']> = {
  checkpoint: { every: 10_000, recoverWithin: '2s' },
  retain: { checkpoints: 2, history: { for: '1h' }, keys: { last: 1000 } },
}

/** One fold for all kinds: the contents of an object are opaque to it. */
export function resourceFold(policy: Pick<Fold<unknown>, 'checkpoint' | 'retain'> = usualPolicy): Fold<ResourceState> {
  return {
    version: 'resource/1',
    initial: initialResources,
    apply: applyResource,
    isOurs: true,
    checkpoint: policy.checkpoint,
    retain: policy.retain,
  }
}

const forward: Instead = {
  instead: 'watchers rely on increasing revisions: read an earlier state with reprise at, and write it again',
  isForGood: true,
}
const alone: Instead = {
  instead: 'a copy would have the same uids and revisions as the original: export it, and import it into another store',
}

export const resourceKind: Model = {
  kind: 'resource',
  name: null,
  scope: resourcePrefix,
  fold: resourceFold() as Fold<unknown>,
  policy: 'declared',
  entryRow,
  summarize: (state) => summaryOf(state as ResourceState),
  statusLine: (state) => ({ text: statusText(state as ResourceState) }),
  actions: { rollback: forward, fork: alone },
}

export function resourceModel(name: string, scope: string, fold: Fold<ResourceState>): Model {
  return { ...resourceKind, name, scope, fold: fold as Fold<unknown>, usual: usualPolicy }
}

function summaryOf({ objects }: ResourceState): { objects: number; deleting: number; outdated: number } {
  let [deleting, outdated] = [0, 0]
  for (const { deletingAt, observedGeneration, generation } of objects.values()) {
    if (deletingAt !== undefined) deleting += 1
    if (observedGeneration !== undefined && observedGeneration < generation) outdated += 1
  }
  return { objects: objects.size, deleting, outdated }
}

function statusText(state: ResourceState): string {
  const { objects, deleting, outdated } = summaryOf(state)
  const parts = [
    `${objects.toLocaleString('en')} ${objects === 1 ? 'object' : 'objects'}`,
    ...(deleting > 0 ? [`${deleting} being deleted`] : []),
    ...(outdated > 0 ? [`${outdated} whose status reports an older generation`] : []),
  ]
  return parts.join(', ')
}

function entryRow(entry: Entry): JournalRow | null {
  const row = (title: string, note: string) => journalRow(`~${entry.seq}`, 'step', 'is', { title, note })
  if (entry.type === 'fence') {
    const { by, epoch } = entry.data as { readonly by: string; readonly epoch: number }
    return row(`${by} has a new owner`, `epoch ${epoch}`)
  }
  const change = changeOf(entry as ChangeEntry)
  if (!change) return null
  const { object, before, type } = change
  const { name, generation, observedGeneration } = object
  if (type === 'deleted') return row(`${name} was deleted`, `it was at generation ${generation}`)
  const isStatus = before !== null && before.generation === generation
  const about = observedGeneration === undefined ? '' : `, status of ${observedGeneration}`
  return row(`${name} ${type}`, `${isStatus ? 'not its spec; ' : ''}generation ${generation}${about}`)
}
