// Segments of history in the catalog of their timeline: an entry for each, at the sequence where it starts, with a
// manifest that names its chunks. They are therefore published in the transaction that raises the floor, and collected,
// sealed, copied and repaired like checkpoints. `store.checkpoints` omits them, because they restore no state. They
// follow one another without a gap up to the floor; the oldest one determines how far back history can be read.

import { type TimelineId, toHex } from '../../core/coordinate.ts'
import type { ManifestRecord, Store } from '../../core/store/ports.ts'

/** Used in place of a fold's version and of a checkpoint's trigger. */
const mark = '$history'

export function isSegment({ foldVersion, trigger }: Pick<ManifestRecord, 'foldVersion' | 'trigger'>): boolean {
  return foldVersion === mark && trigger === mark
}

export const segmentMark = { foldVersion: mark, trigger: mark } as const

type Catalog = (timeline: TimelineId) => Promise<ManifestRecord[]>

/** On a store that omits segments: the method that reads all catalog entries, for an engine on top of another one's store. */
const allLines = Symbol('all lines of the catalog')

/** The catalog entries of a timeline that are not checkpoints. */
export class Segments {
  /** All catalog entries: those that keep chunks alive. */
  readonly all: Catalog

  constructor(store: Store) {
    this.all = catalogOf(store)
  }

  /** Oldest first. */
  async of(timeline: TimelineId): Promise<ManifestRecord[]> {
    return segmentsIn(await this.all(timeline))
  }
}

/** The store as the engine sees it: with checkpoints only. */
export function checkpointsOnly(store: Store): PropertyDescriptorMap {
  const all = catalogOf(store)
  return {
    checkpoints: { value: async (id: TimelineId) => withoutSegments(await all(id)), enumerable: true },
    [allLines]: { value: all },
  }
}

function catalogOf(store: Store): Catalog {
  return (store as { readonly [allLines]?: Catalog })[allLines] ?? ((timeline) => store.checkpoints(timeline))
}

/** Oldest first; of several with the same start, the one written last. */
export function segmentsIn(catalog: readonly ManifestRecord[]): ManifestRecord[] {
  const starts = new Map<string, ManifestRecord>()
  for (const record of catalog) {
    if (!isSegment(record) || record.invalid !== null) continue
    const place = `${record.seq} ${toHex(record.digest)}`
    const known = starts.get(place)
    if (!known || known.createdAt < record.createdAt) starts.set(place, record)
  }
  return [...starts.values()].sort((a, b) => a.seq - b.seq)
}

function withoutSegments(catalog: readonly ManifestRecord[]): ManifestRecord[] {
  return catalog.some(isSegment) ? catalog.filter((record) => !isSegment(record)) : [...catalog]
}
