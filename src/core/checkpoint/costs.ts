// What checkpoints, restores and replays of one timeline cost, as measured while it was at work. A plain value: it is
// kept with the timeline, so that the next process starts from it. What was never measured is assumed, on the slow side.
//
// A recovery takes: open (read the head and the catalog) + restore (grows with the checkpoint) + entries × replay, and an
// entry's replay is what `apply` takes (timed while the work goes on) plus what reading and decoding it take.

/** Smoothed; null until the first sample. */
export interface MeasuredCosts {
  /** From the decision until it is published. */
  readonly checkpointMs: number | null
  /** Reading head, lineage and catalog, before anything is restored. */
  readonly openMs: number | null
  /** A restore, and the stored size of what was restored: a larger checkpoint takes longer. */
  readonly restoreMs: number | null
  readonly restoreBytes: number | null
  /** The fold alone, timed live. */
  readonly applyMsPerEntry: number | null
  /** What a replay takes beyond the fold: reading, checking and decoding. */
  readonly readMsPerEntry: number | null
  /** Stored size of an entry, and how many come: what arrives while a checkpoint is written has to be replayed too. */
  readonly bytesPerEntry: number | null
  readonly entriesPerMs: number | null
  /** Stored size of the newest checkpoint. */
  readonly checkpointBytes: number | null
  /** The longest that the last checkpoint held up the process. */
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
  /** The mean that a meter of live folds has now (engine/history/replay-meter.ts): it takes the place of the one before. */
  | { readonly kind: 'apply'; readonly ms: number }
  /** Entries that came, the bytes they take, and the time in which they came. */
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

/** Guesses on the slow side, used until something is measured. */
const assumed = {
  checkpointMs: 50,
  openMs: 5,
  /** Of a checkpoint of no size, and what each byte adds: 25 MB of stored bytes a second. */
  restoreMs: 3,
  restoreMsPerByte: 1 / 25_000,
  applyMsPerEntry: 0.005,
  /** And what each byte adds: 50 MB a second. */
  readMsPerEntry: 0.01,
  readMsPerByte: 1 / 50_000,
} as const
/** Weight of a new sample. */
const weight = 0.25
/** Below this size a restore is round trips, above it is bytes. */
const fixedBytes = 64 * 1024
/** A replay of fewer entries says more about the round trip than about an entry. */
const replayEntriesMin = 16

/** The first sample counts whole, later ones by a quarter. Nonsense (negative, not finite, of no entries) is left out. */
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
        // What is known is brought to the size of this sample first: they would not compare otherwise.
        restoreMs: smooth(costs.restoreMs === null ? null : restoreMsAt(costs, bytes), sample.ms),
        restoreBytes: bytes,
        checkpointBytes: bytes,
      }
    }
    case 'replay': {
      if (!(sample.entries >= replayEntriesMin)) return costs
      const each = sample.ms / sample.entries
      // Before any live sample nobody can tell fold and reading apart: all of it counts as fold, which errs on the slow side.
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

/** What is measured, and where nothing is, what is assumed. `isFirst`: there is nothing to restore yet. */
export function estimate(costs: MeasuredCosts, isFirst = false): EstimatedCosts {
  return {
    checkpointMs: costs.checkpointMs ?? assumed.checkpointMs,
    openMs: costs.openMs ?? assumed.openMs,
    restoreMs: isFirst ? 0 : restoreMsAt(costs, costs.checkpointBytes ?? 0),
    // Never nothing: a budget divided by it is a number of entries.
    replayMsPerEntry: Math.max(1e-6, (costs.applyMsPerEntry ?? assumed.applyMsPerEntry) + readMsPerEntry(costs)),
  }
}

/** What reading and decoding these entries takes, without folding them. */
export function readMsOf({ readMsPerEntry: measured }: MeasuredCosts, entries: number, bytes: number): number {
  return measured === null ? entries * assumed.readMsPerEntry + bytes * assumed.readMsPerByte : entries * measured
}

export interface AssumedCosts {
  readonly checkpoint: boolean
  readonly restore: boolean
  readonly replay: boolean
}

/** Which of the estimates rest on no measurement. */
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

/** As text, for an attribute: four digits say all there is to say. */
export function encodeCosts(costs: MeasuredCosts): string {
  return JSON.stringify(names.map((name) => (costs[name] === null ? null : Number(costs[name].toPrecision(4)))))
}

/** What cannot be read is as good as nothing measured. */
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
