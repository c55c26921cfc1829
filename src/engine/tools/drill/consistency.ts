// The consistency of each checkpoint of one timeline.

import { type Consistency, consistencyOf, cutOf } from '../../../core/checkpoint/consistency.ts'
import { timelineId } from '../../../core/coordinate.ts'
import type { ManifestRecord } from '../../../core/store/ports.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { cutScope } from '../timeline-groups/records.ts'

export async function consistencies(
  kernel: Kernel,
  timeline: string,
  catalog: readonly ManifestRecord[],
): Promise<ReadonlyMap<string, Consistency>> {
  const model = kernel.models.find(timeline)
  const facts = { isChecked: model?.fold?.valid !== undefined, announced: model?.announced ?? [] }
  const cuts = [...new Set(catalog.flatMap((record) => cutOf(record) ?? []))]
  const heads = cuts.length === 0 ? [] : await kernel.store.head(cuts.map((cut) => timelineId(cutScope + cut)))
  // A person may give a savepoint any label: only a complete cut of that name makes it part of one.
  const complete = new Set(cuts.filter((_, n) => heads[n]?.status.startsWith('complete')))
  return new Map(
    catalog.map((record) => {
      const cut = cutOf(record)
      return [record.id, consistencyOf(record.trigger, { ...facts, isOfCut: cut !== null && complete.has(cut) })]
    }),
  )
}
