// One stored result: a timeline of its own, whose checkpoint holds the result. It becomes visible once all of it is written
// and read back, so no reader gets a partial result; a damaged entry is a miss. memo/<name>/<scope>/<key>, one entry
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
/** The scope whose entries every other scope may read. */
export const mainScope = 'main'

/** The worker that computed a result, its inputs, and the time. */
export interface Provenance {
  readonly parts: KeyParts
  readonly computedAt: number
  readonly tookMs: number
  /** The worker that computed it. */
  readonly by: string
  /** The coordinate of the run that requested the result, if any. */
  readonly for: string | null
  /** The same in full, if a workflow run or a job item requested it (ctx.memo). */
  readonly asker?: Asker
  /** The level of the cache it was fetched from; undefined: it was computed with this store. */
  readonly origin?: Origin
}

/** The source of a fetched entry. */
export interface Origin {
  /** The address of the server. */
  readonly cache: string
  /** Its scope on that server. */
  readonly scope: string
  readonly at: number
}

export type MemoOutcome =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'bytes' }
  | { readonly kind: 'error'; readonly name: string; readonly message: string }

export interface Envelope extends Provenance {
  readonly outcome: MemoOutcome
}

export interface Remembered {
  readonly timeline: TimelineId
  /** Null: the result was computed but could not be stored. */
  readonly record: ManifestRecord | null
  readonly envelope: Envelope
  readonly stream: Content | null
}

export function entryId(name: string, scope: string, key: string): TimelineId {
  return timelineId(`memo/${name}/${scope}/${key}`)
}

/** Excludes the internal timelines with file digests: their names begin with a dot. */
export const memoCache: CacheKind = {
  within: (name) => (name === undefined ? 'memo/' : `memo/${name}/`),
  place(id) {
    const [, name, scope, key] = id.split('/')
    return name === undefined || scope === undefined || !key || name.startsWith('.') ? null : { name, scope }
  },
}

/** Error codes of a damaged entry, which is a miss. */
export const damage = ['CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED', 'UNRECOVERABLE'] as const

/** Null: no usable entry. `unverified`: the stream is checked as it is read. */
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
