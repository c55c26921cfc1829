// Garbage collection by reachability, beside writers. First retention for each timeline, then chunks: mark from every
// checkpoint in the catalog, sweep what is unmarked and has not been touched for the grace period.
//
// Why a checkpoint published during the sweep is safe: its new chunks were just put, hence younger than the grace period;
// its reused chunks belong to its base, which the store found in the catalog when it published. If that base was there
// when we marked, its chunks are marked; if the base itself came later, the same holds for it.

import { toHex } from '../core/coordinate.ts'
import { isReprise } from '../core/errors.ts'
import type { ChunkRow, Head } from '../core/ports.ts'
import type { RetentionPlan, RetentionPolicy } from '../core/retention.ts'
import { cursorHolds } from './cursor-holds.ts'
import { policyOf } from './declaration.ts'
import type { Kernel } from './kernel.ts'
import { stateIo } from './kernel-io.ts'
import { readManifest } from './recover.ts'
import { liveChunks } from './restore.ts'
import { planFor, retain } from './retain.ts'
import { headsOf } from './verify.ts'

export interface CollectOptions {
  /** Say what would go and why; change nothing. */
  readonly dryRun?: boolean
  readonly timelines?: readonly string[]
  /** Shorter than the engine's grace period only when no writer is at work. */
  readonly graceMs?: number
}

export interface CollectReport {
  readonly isDryRun: boolean
  readonly timelines: readonly {
    readonly timeline: string
    readonly drop: RetentionPlan['drop']
    readonly keep: RetentionPlan['keep']
    readonly floor: RetentionPlan['floor']
    readonly refused: readonly string[]
  }[]
  /** Left as they are: nobody here knows what is to be kept of them. */
  readonly unknown: readonly { readonly timeline: string; readonly because: string }[]
  readonly chunks: {
    readonly live: number
    readonly swept: number
    readonly sweptBytes: number
    readonly tooYoung: number
  }
}

export async function collect(kernel: Kernel, options: CollectOptions = {}): Promise<CollectReport> {
  await kernel.worker.register()
  const timelines: CollectReport['timelines'][number][] = []
  const unknown: CollectReport['unknown'][number][] = []
  for await (const head of headsOf(kernel, options.timelines)) {
    const known = await policyOf(kernel, head)
    if (typeof known === 'string') {
      unknown.push({ timeline: head.timeline, because: known })
      continue
    }
    const { policy, foldVersion } = known
    const { plan, refused } = options.dryRun
      ? { plan: await planAside(kernel, head, policy, foldVersion), refused: [] }
      : await retain(kernel, head, policy, foldVersion)
    timelines.push({ timeline: head.timeline, drop: plan.drop, keep: plan.keep, floor: plan.floor, refused })
  }
  const chunks = await sweep(kernel, options)
  if (!options.dryRun) {
    await kernel.store.tidy(kernel.worker.earliest() - kernel.graceMs)
    kernel.events.emit('collected', { chunks: chunks.swept, bytes: chunks.sweptBytes })
  }
  return { isDryRun: options.dryRun ?? false, timelines, unknown, chunks }
}

/** Only where history would go does it matter which cursor still needs it: the feed is read for that. */
async function planAside(
  kernel: Kernel,
  head: Head,
  policy: RetentionPolicy,
  foldVersion: string,
): Promise<RetentionPlan> {
  const plan = await planFor(kernel, head, policy, foldVersion)
  if (plan.floor.seq <= head.floor) return plan
  const held = (await cursorHolds(kernel, [head.timeline])).get(head.timeline)
  return held ? await planFor(kernel, head, policy, foldVersion, held) : plan
}

async function sweep(kernel: Kernel, options: CollectOptions): Promise<CollectReport['chunks']> {
  const graceMs = kernel.planted.has('no-grace') ? 0 : (options.graceMs ?? kernel.graceMs)
  const touchedBefore = kernel.worker.earliest() - graceMs
  const live = await mark(kernel)
  let swept = 0
  let sweptBytes = 0
  let tooYoung = 0
  for await (const page of chunkPages(kernel)) {
    const dead = page.filter((row) => !live.has(toHex(row.digest)))
    const old = dead.filter((row) => row.touchedAt < touchedBefore)
    tooYoung += dead.length - old.length
    swept += old.length
    for (const row of old) sweptBytes += row.bytes
    if (!options.dryRun && old.length > 0)
      await kernel.store.blobs.delete(
        old.map((row) => row.digest),
        touchedBefore,
      )
  }
  return { live: live.size, swept, sweptBytes, tooYoung }
}

/**
 * A rollback or a fork beside us moves or copies checkpoints to a timeline that was not in the list yet: lists are read
 * until one of them shows nothing new.
 */
async function mark(kernel: Kernel): Promise<ReadonlySet<string>> {
  const live = new Set<string>()
  const marked = new Set<string>()
  for (let before = -1; before < marked.size; ) {
    before = marked.size
    for await (const head of headsOf(kernel)) {
      if (marked.has(head.timeline)) continue
      marked.add(head.timeline)
      if (kernel.planted.has('collect-ignores-forks') && head.base) continue
      await markTimeline(kernel, head, live)
    }
  }
  return live
}

async function markTimeline(kernel: Kernel, head: Head, live: Set<string>): Promise<void> {
  const io = stateIo(kernel)
  for (const record of await kernel.store.checkpoints(head.timeline)) {
    try {
      for (const digest of await liveChunks(readManifest(kernel, record), io)) live.add(toHex(digest))
    } catch (error) {
      // A damaged manifest keeps nothing alive; verify tells about it. Anything else must stop the sweep.
      if (!isReprise(error, 'CHECKPOINT_DAMAGED', 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'MALFORMED')) throw error
    }
  }
}

async function* chunkPages(kernel: Kernel): AsyncGenerator<ChunkRow[]> {
  let after: Uint8Array | null = null
  for (;;) {
    const page: ChunkRow[] = await kernel.store.blobs.list(after, 500)
    if (page.length > 0) yield page
    if (page.length < 500) return
    after = page[page.length - 1]!.digest
  }
}
