// The upkeep of the memory store: the calls of tools and housekeeping.

import { equalBytes, type MessageId, type TimelineId } from '../../core/coordinate.ts'
import { isWrapped } from '../../core/history/wrapped-record.ts'
import { isRedundancy } from '../../core/store/blobs.ts'
import type {
  Change,
  Hash,
  ManifestRecord,
  PastLife,
  PastRepair,
  Rewritable,
  Rewritten,
  RunChange,
  StoreFacts,
  StoreFault,
  Upkeep,
} from '../../core/store/ports.ts'
import { compareText } from '../../core/store/text-order.ts'
import { recall } from './past.ts'
import { mendLines, replace, rewrite } from './rewrite.ts'
import { tidy } from './upkeep.ts'
import type { MemoryWorld, Space, TimelineRow } from './world.ts'

export interface MemoryPlace {
  readonly namespace: string
  readonly hash: Hash
  readonly world: MemoryWorld
  /** Throws CLOSED. */
  readonly space: () => Space
}

export class MemoryUpkeep implements Upkeep {
  readonly salvage = null
  readonly #at: MemoryPlace

  constructor(at: MemoryPlace) {
    this.#at = at
  }

  async facts(): Promise<StoreFacts> {
    this.#at.space()
    return {
      kind: 'memory',
      location: `memory:${this.#at.namespace}`,
      schemaVersion: 1,
      durability: { survives: 'nothing: discarded when the process ends' },
      isReadOnly: false,
      sizeBytes: null,
    }
  }

  async namespaces(): Promise<string[]> {
    return [...this.#at.world.spaces.keys()]
  }

  async inspect(): Promise<StoreFault[]> {
    return inspect(this.#at.space(), this.#at.hash)
  }

  async rewrite(kind: Rewritable, change: Change): Promise<Rewritten> {
    const space = this.#at.space()
    return this.#at.world.writeLock.run(() => rewrite(space, kind, change))
  }

  async replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>> {
    const space = this.#at.space()
    return this.#at.world.writeLock.run(() => replace(space, timeline, runs))
  }

  async mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }> {
    const space = this.#at.space()
    await this.#at.world.writeLock.run(() => mendLines(space, timeline, lines))
    return { missing: 0 }
  }

  async hasCheckpoints(): Promise<boolean> {
    return this.#at.space().manifests.size > 0
  }

  async consumed(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]> {
    const rows = [...this.#at.space().messages.values()].filter(
      ({ to, consumedAt }) => to === timeline && consumedAt !== null,
    )
    const ids = rows.map(({ id }) => id).sort(compareText)
    return ids.filter((id) => after === null || compareText(id, after) > 0).slice(0, Math.max(0, limit))
  }

  async pasts(after: string | null, limit: number): Promise<PastLife[]> {
    const found = [...this.#at.space().pasts.values()].filter(({ name }) => after === null || name > after)
    return found.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, limit)
  }

  async recall(pasts: readonly PastLife[]): Promise<void> {
    const space = this.#at.space()
    await this.#at.world.writeLock.run(() => {
      for (const past of pasts) recall(space, past)
    })
  }

  async mendPasts(): Promise<PastRepair> {
    return { mended: [], lost: [] }
  }

  async tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }> {
    const space = this.#at.space()
    return this.#at.world.writeLock.run(() => tidy(space, before))
  }

  async scrub(): Promise<readonly string[]> {
    this.#at.space()
    return []
  }
}

/** The memory world's own check: rows that contradict each other, and bytes that do not match their digest. */
function inspect(space: Space, hash: Hash): StoreFault[] {
  const faults: StoreFault[] = []
  for (const row of space.timelines.values()) {
    inspectRuns(row, faults)
    for (const { id, body, bodyDigest } of row.catalog) {
      if (!isWrapped(body) && !equalBytes(hash(body), bodyDigest)) {
        faults.push({ where: `checkpoint ${id} of ${row.id}`, what: 'the manifest does not match its digest' })
      }
    }
  }
  for (const [name, { digest, bytes }] of space.chunks.entries()) {
    // A wrapped chunk is named by its content; parity and copies contain their own digest.
    if (isWrapped(bytes) || isRedundancy(digest)) continue
    if (!equalBytes(hash(bytes), digest)) faults.push({ where: `chunk ${name}`, what: 'it does not match its digest' })
  }
  return faults
}

function inspectRuns(row: TimelineRow, faults: StoreFault[]): void {
  let next = Math.max(row.floor, row.base?.seq ?? 0) + 1
  for (const run of row.runs) {
    if (run.first !== next) faults.push({ where: `${row.id}@${next}`, what: `the next run starts at ${run.first}` })
    next = run.first + run.count
  }
  if (row.runs.length > 0 && next !== row.seq + 1) {
    faults.push({ where: row.id, what: `history ends at ${next - 1}, but the head has ${row.seq}` })
  }
}
