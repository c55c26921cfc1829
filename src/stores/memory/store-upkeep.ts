// The upkeep of the memory store: the calls of tools and housekeeping.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type {
  Change,
  Hash,
  ManifestRecord,
  PastLife,
  Rewritable,
  Rewritten,
  RunChange,
  StoreFacts,
  StoreFault,
  Upkeep,
} from '../../core/store/ports.ts'
import { compareText } from '../../core/store/text-order.ts'
import { inspect } from './inspect.ts'
import { recall } from './past.ts'
import { mendLines, replace, rewrite } from './rewrite.ts'
import { tidy } from './upkeep.ts'
import type { MemoryWorld, Space } from './world.ts'

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
      durability: { survives: 'nothing: gone with the process' },
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

  async tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }> {
    const space = this.#at.space()
    return this.#at.world.writeLock.run(() => tidy(space, before))
  }

  async scrub(): Promise<readonly string[]> {
    this.#at.space()
    return []
  }
}
