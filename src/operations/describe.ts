// Where one timeline stands: its head, its catalog, its relatives, and what its state says to people.

import type { Head, ManifestRecord } from '../core/ports.ts'
import { hostOf } from '../engine/host.ts'
import { lineageOf } from '../engine/recovery/history.ts'
import { recover } from '../engine/recovery/recover.ts'
import type { Reprise } from '../engine/reprise.ts'
import { shownHead } from './heads.ts'

const forksShown = 100

export async function describeTimeline(engine: Reprise, head: Head) {
  const { kernel, models } = hostOf(engine)
  const model = models.find(head.timeline)
  const [catalog, lineage, forks] = await Promise.all([
    engine.checkpoints(head.timeline),
    lineageOf(kernel, head),
    engine.list({ parent: head.timeline, limit: forksShown }),
  ])
  return {
    catalog,
    shown: {
      kind: model?.kind ?? null,
      ...shownHead(head),
      checkpoints: catalog.length,
      lineage: lineage.slice(1).map((each) => each.timeline),
      forks: forks.map((each) => each.timeline),
      summary: await summarize(),
    },
  }

  /** What the state says beyond the head, as its model reads it. */
  async function summarize(): Promise<Readonly<Record<string, unknown>> | null> {
    if (!model?.summarize || !model.fold) return null
    const { state } = await recover(kernel, head, model.fold)
    return model.summarize(state.value, head)
  }
}

/** A line of the catalog for people and programs, without the encoded manifest. */
export function shownCheckpoint(record: ManifestRecord) {
  const { body: _, bodyDigest: __, digest, ...rest } = record
  return { ...rest, digest: Buffer.from(digest).toString('hex') }
}
