// The content of a store by model: timelines, checkpoints and their bytes, and the most recent checkpoints.

import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { isOfStore } from '../engine/model/id-prefixes.ts'
import { headsOf } from '../engine/storage/sound-page.ts'
import { shownCheckpoints } from './describe.ts'

/** Each costs one read from the store. */
const timelinesLookedAt = 2000
const recentShown = 200

export interface KindStorage {
  readonly kind: string | null
  readonly timelines: number
  readonly checkpoints: number
  /** Size of the newest checkpoint of each timeline. */
  readonly stateBytes: number
  /** Bytes added by all kept checkpoints. */
  readonly addedBytes: number
}

type Counted = { -readonly [Key in keyof KindStorage]: KindStorage[Key] }

export async function storageOf(engine: Reprise) {
  const { kernel, models } = hostOf(engine)
  const kinds = new Map<string | null, Counted>()
  type Shown = Awaited<ReturnType<typeof shownCheckpoints>>[number]
  const recent: (Shown & { readonly timeline: string; readonly kind: string | null })[] = []
  let [looked, isPartial] = [0, false]
  for await (const { timeline } of headsOf(kernel)) {
    if (isOfStore(timeline)) continue
    if (looked === timelinesLookedAt) {
      isPartial = true
      break
    }
    looked += 1
    const kind = models.find(timeline)?.kind ?? null
    const row = kinds.get(kind) ?? { kind, timelines: 0, checkpoints: 0, stateBytes: 0, addedBytes: 0 }
    kinds.set(kind, row)
    const catalog = await shownCheckpoints(engine, timeline)
    row.timelines += 1
    row.checkpoints += catalog.length
    row.stateBytes += catalog[0]?.totalBytes ?? 0
    for (const record of catalog) {
      row.addedBytes += record.addedBytes
      recent.push({ timeline, kind, ...record })
    }
  }
  recent.sort((a, b) => b.createdAt - a.createdAt)
  return {
    store: await engine.facts(),
    kinds: [...kinds.values()].sort((a, b) => b.addedBytes - a.addedBytes),
    checkpoints: recent.slice(0, recentShown),
    looked,
    isPartial,
  }
}
