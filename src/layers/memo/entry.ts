// One remembered result: a timeline of its own, whose checkpoint is the truth. It is visible when all of it is written
// and read back, so nobody ever gets half of one; what is damaged is a miss. memo/<name>/<scope>/<key>, one entry
// "computed" per result.

import type { Content } from '../../core/checkpoint/manifest.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import { timelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import type { Asker } from '../../engine/model/memo-protocol.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { CacheKind } from '../../engine/tools/cache/retention.ts'
import { readValue } from '../../engine/writing/stored-value.ts'
import type { KeyParts } from './key.ts'

export const foldVersion = 'memo/1'
/** Whose entries everybody may read. */
export const mainScope = 'main'

/** Who computed it, from what, and when. */
export interface Provenance {
  readonly parts: KeyParts
  readonly computedAt: number
  readonly tookMs: number
  /** The worker that computed it. */
  readonly by: string
  /** Where it was asked for: the coordinate of the run, if it was asked for in one. */
  readonly for: string | null
  /** The same with every part, if a run of a workflow or an item of a job asked (ctx.memo). */
  readonly asker?: Asker
  /** The level of the cache that it came from; left out: it was computed with this very store. */
  readonly origin?: Origin
}

/** Where an entry was fetched. */
export interface Origin {
  /** The address of the server. */
  readonly cache: string
  /** Its scope there. */
  readonly scope: string
  readonly at: number
}

export type Outcome =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'bytes' }
  | { readonly kind: 'error'; readonly name: string; readonly message: string }

export interface Envelope extends Provenance {
  readonly outcome: Outcome
}

export interface Remembered {
  readonly timeline: TimelineId
  /** Null: it was computed and could not be kept. */
  readonly record: ManifestRecord | null
  readonly envelope: Envelope
  readonly stream: Content | null
}

export function entryId(name: string, scope: string, key: string): TimelineId {
  return timelineId(`memo/${name}/${scope}/${key}`)
}

/** Without those that only help to look at files: their names begin with a dot. */
export const memoCache: CacheKind = {
  within: (name) => (name === undefined ? 'memo/' : `memo/${name}/`),
  place(id) {
    const [, name, scope, key] = id.split('/')
    return name === undefined || scope === undefined || !key || name.startsWith('.') ? null : { name, scope }
  },
}

/** What a damaged entry is refused with: it is a miss. */
export const damage = ['CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED', 'UNRECOVERABLE'] as const

/** Null: nothing usable is there. `unverified`: what its stream holds is checked as it is read. */
export async function readEntry(
  kernel: Kernel,
  timeline: TimelineId,
  options: { readonly unverified?: boolean; readonly onDamage?: () => void } = {},
): Promise<Remembered | null> {
  for (const record of await kernel.store.checkpoints(timeline)) {
    if (record.invalid !== null || record.foldVersion !== foldVersion) continue
    try {
      const { value, stream } = await readValue(kernel, record, options)
      return { timeline, record, envelope: value as Envelope, stream }
    } catch (error) {
      if (!isReprise(error, ...damage)) throw error
      options.onDamage?.()
      kernel.events.emit('checkpoint-damaged', { timeline, id: record.id, reason: error.message })
    }
  }
  return null
}
