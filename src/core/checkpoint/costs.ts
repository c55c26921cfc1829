// Measured costs of checkpoints, restores and replays of one timeline. They are a plain value, stored with the timeline, so
// that the next process starts from them. Costs without a measurement are assumed, on the slow side.
//
// A recovery takes: open (read the head and the catalog) + restore (grows with the checkpoint) + entries × replay. The
// replay of an entry takes the time of `apply` (measured live) plus the time to read and decode the entry.

/** Smoothed values; null until the first sample. */
export interface MeasuredCosts {
  /** From the decision to make a checkpoint until its publication. */
  readonly checkpointMs: number | null
  /** Reading head, lineage and catalog, before anything is restored. */
  readonly openMs: number | null
  /** Duration of a restore, and the stored size of the restored checkpoint: a larger one takes longer. */
  readonly restoreMs: number | null
  readonly restoreBytes: number | null
  /** The fold alone, timed live. */
  readonly applyMsPerEntry: number | null
  /** The rest of a replay: reading, checking and decoding. */
  readonly readMsPerEntry: number | null
  /** Stored size of an entry, and the arrival rate: entries that arrive during a checkpoint must be replayed too. */
  readonly bytesPerEntry: number | null
  readonly entriesPerMs: number | null
  /** Stored size of the newest checkpoint. */
  readonly checkpointBytes: number | null
  /** The longest time that the last checkpoint blocked the process. */
  readonly stallMs: number | null
  /** How busy this process was, from 0 to 1, between the last two checkpoints. */
  readonly load: number | null
}

export type CostSample =
  | { readonly kind: 'checkpoint'; readonly ms: number; readonly bytes?: number; readonly stallMs?: number }
  | { readonly kind: 'open'; readonly ms: number }
  | { readonly kind: 'restore'; readonly ms: number; readonly bytes?: number }
  /** A recovery's replay: reading, decoding and folding. */
  | { readonly kind: 'replay'; readonly ms: number; readonly entries: number }
  /** The current mean of live folds (engine/history/replay-meter.ts); it replaces the previous value. */
  | { readonly kind: 'apply'; readonly ms: number }
  /** Entries that arrived, their size in bytes, and the time in which they arrived. */
  | { readonly kind: 'arrivals'; readonly ms: number; readonly entries: number; readonly bytes?: number }
  | { readonly kind: 'load'; readonly ms: number; readonly activeMs: number }

export const noCosts: MeasuredCosts = {
  checkpointMs: null,
  openMs: null,
  restoreMs: null,
  restoreBytes: null,
  applyMsPerEntry: null,
  readMsPerEntry: null,
  bytesPerEntry: null,
  entriesPerMs: null,
  checkpointBytes: null,
  stallMs: null,
  load: null,
}

/** Assumptions on the slow side, used until a value is measured. */
const assumed = {
  checkpointMs: 50,
  openMs: 5,
  /** The fixed cost of a restore, and the cost per byte: 25 MB of stored bytes per second. */
  restoreMs: 3,
  restoreMsPerByte: 1 / 25_000,
  applyMsPerEntry: 0.005,
  /** The fixed cost of reading an entry, and the cost per byte: 50 MB per second. */
  readMsPerEntry: 0.01,
  readMsPerByte: 1 / 50_000,
} as const
/** Weight of a new sample. */
const weight = 0.25
/** Below this size round trips dominate a restore, above it bytes do. */
const fixedBytes = 64 * 1024
/** A replay of fewer entries measures the round trip rather than the entries. */
const replayEntriesMin = 16

/** The first sample has full weight, later ones a quarter. Invalid samples (negative, infinite, empty) are ignored. */
export function observe(costs: MeasuredCosts, sample: CostSample): MeasuredCosts {
  if (!Number.isFinite(sample.ms) || sample.ms < 0) return costs
  switch (sample.kind) {
    case 'checkpoint':
      return {
        ...costs,
        checkpointMs: smooth(costs.checkpointMs, sample.ms),
        checkpointBytes: sample.bytes ?? costs.checkpointBytes,
        stallMs: sample.stallMs ?? costs.stallMs,
      }
    case 'open':
      return { ...costs, openMs: smooth(costs.openMs, sample.ms) }
    case 'restore': {
      const { bytes = 0 } = sample
      return {
        ...costs,
        // The known cost is scaled to the size of this sample first; otherwise the two would not be comparable.
        restoreMs: smooth(costs.restoreMs === null ? null : restoreMsAt(costs, bytes), sample.ms),
        restoreBytes: bytes,
        checkpointBytes: bytes,
      }
    }
    case 'replay': {
      if (!(sample.entries >= replayEntriesMin)) return costs
      const each = sample.ms / sample.entries
      // Before any live sample, fold and reading cannot be separated: all of it counts as fold, which errs on the slow side.
      if (costs.applyMsPerEntry === null) return { ...costs, applyMsPerEntry: each }
      return { ...costs, readMsPerEntry: smooth(costs.readMsPerEntry, Math.max(0, each - costs.applyMsPerEntry)) }
    }
    case 'apply':
      return { ...costs, applyMsPerEntry: sample.ms }
    case 'arrivals': {
      if (!(sample.entries > 0) || sample.ms === 0) return costs
      const { bytes } = sample
      return {
        ...costs,
        entriesPerMs: smooth(costs.entriesPerMs, sample.entries / sample.ms),
        bytesPerEntry: bytes === undefined ? costs.bytesPerEntry : smooth(costs.bytesPerEntry, bytes / sample.entries),
      }
    }
    case 'load':
      if (sample.ms === 0 || !(sample.activeMs >= 0)) return costs
      return { ...costs, load: smooth(costs.load, Math.min(1, sample.activeMs / sample.ms)) }
  }
}

export interface EstimatedCosts {
  readonly checkpointMs: number
  readonly openMs: number
  readonly restoreMs: number
  readonly replayMsPerEntry: number
}

/** Measured values, or assumed ones where there is no measurement. `isFirst`: there is no checkpoint to restore yet. */
export function estimate(costs: MeasuredCosts, isFirst = false): EstimatedCosts {
  return {
    checkpointMs: costs.checkpointMs ?? assumed.checkpointMs,
    openMs: costs.openMs ?? assumed.openMs,
    restoreMs: isFirst ? 0 : restoreMsAt(costs, costs.checkpointBytes ?? 0),
    // Never 0: budgets are divided by it.
    replayMsPerEntry: Math.max(1e-6, (costs.applyMsPerEntry ?? assumed.applyMsPerEntry) + readMsPerEntry(costs)),
  }
}

/** The time to read and decode these entries, without folding them. */
export function readMsOf({ readMsPerEntry: measured }: MeasuredCosts, entries: number, bytes: number): number {
  return measured === null ? entries * assumed.readMsPerEntry + bytes * assumed.readMsPerByte : entries * measured
}

export interface AssumedCosts {
  readonly checkpoint: boolean
  readonly restore: boolean
  readonly replay: boolean
}

/** Which estimates are assumptions. */
export function isAssumed({ checkpointMs, restoreMs, applyMsPerEntry }: MeasuredCosts): AssumedCosts {
  return { checkpoint: checkpointMs === null, restore: restoreMs === null, replay: applyMsPerEntry === null }
}

function restoreMsAt({ restoreMs, restoreBytes }: MeasuredCosts, bytes: number): number {
  if (restoreMs === null) return assumed.restoreMs + bytes * assumed.restoreMsPerByte
  return restoreMs * Math.max(1, (bytes + fixedBytes) / ((restoreBytes ?? 0) + fixedBytes))
}

function readMsPerEntry(costs: MeasuredCosts): number {
  return readMsOf(costs, 1, costs.bytesPerEntry ?? 0)
}

function smooth(before: number | null, sample: number): number {
  return before === null ? sample : before + (sample - before) * weight
}

const names = Object.keys(noCosts) as readonly (keyof MeasuredCosts)[]

/** Encodes the costs as text for an attribute, rounded to four significant digits. */
export function encodeCosts(costs: MeasuredCosts): string {
  return JSON.stringify(names.map((name) => (costs[name] === null ? null : Number(costs[name].toPrecision(4)))))
}

/** Unreadable text counts as no measurement. */
export function decodeCosts(text: unknown): MeasuredCosts {
  if (typeof text !== 'string') return noCosts
  try {
    const values: unknown = JSON.parse(text)
    if (!Array.isArray(values)) return noCosts
    const read = names.map((name, i) => [name, isCost(values[i]) ? values[i] : null])
    return Object.fromEntries(read) as unknown as MeasuredCosts
  } catch {
    return noCosts
  }
}

function isCost(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
