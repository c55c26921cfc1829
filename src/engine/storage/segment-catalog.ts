// Segments of history in the catalog of their timeline: a line for each, at the sequence where it starts, with a manifest
// that names its chunks. So they are published in the transaction that raises the floor, collected by reachability, sealed,
// copied and mended as checkpoints are. For everybody else `store.checkpoints` leaves them out: they restore no state.
//
// They follow one another without a gap up to the floor. How far down they go is how far back history can be read.

import { type TimelineId, toHex } from '../../core/coordinate.ts'
import type { ManifestRecord, Store } from '../../core/store/ports.ts'

/** In the place of a fold's version, and of what triggered a checkpoint. */
const mark = '$history'

export function isSegment({ foldVersion, trigger }: Pick<ManifestRecord, 'foldVersion' | 'trigger'>): boolean {
  return foldVersion === mark && trigger === mark
}

export const segmentMark = { foldVersion: mark, trigger: mark } as const

type Catalog = (timeline: TimelineId) => Promise<ManifestRecord[]>

/** On a store that leaves segments out: the way to all lines, for an engine that is put over the store of another. */
const allLines = Symbol('all lines of the catalog')

/** The lines of a timeline that are not checkpoints. */
export class Segments {
  /** All lines of the catalog: what keeps chunks alive. */
  readonly all: Catalog

  constructor(store: Store) {
    this.all = catalogOf(store)
  }

  /** Oldest first. */
  async of(timeline: TimelineId): Promise<ManifestRecord[]> {
    return segmentsIn(await this.all(timeline))
  }
}

/** For a store as the engine sees it: with checkpoints only. */
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

/** Oldest first; of several that start in one place, the one that was written last. */
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
