// The log of a store: recoveries, fallbacks, drills, failed and damaged checkpoints, repairs, housekeeping. It is fed
// by events and written in the background, with a delay and several at once, so nothing waits for it and nothing fails
// because of it.
// Any part of the engine adds a report by emitting the event 'report'.
// It is stored in separate timelines, `reprise/log/N`, each with a few hundred entries. A new one is begun when the
// last is full, and the oldest is removed: this bounds the log by count and by age.

import { type TimelineId, timelineId, type WorkerId } from '../../../core/coordinate.ts'
import { type Time, toTime } from '../../../core/duration.ts'
import { isReprise } from '../../../core/errors.ts'
import { originDigest, packEntries } from '../../../core/history/entry-run.ts'
import { guardOf } from '../../../core/store/commit-guard.ts'
import type { Head } from '../../../core/store/ports.ts'
import { Mutex, within } from '../../../lib/waiting.ts'
import type { EngineEvents } from '../../base/events.ts'
import type { RecoveryReport } from '../../base/recovery-report.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../history/history.ts'
import { type Kernel, newOperation } from '../../storage/kernel.ts'
import { sealEntry } from '../../storage/seal/entries.ts'

export interface Report {
  readonly at: number
  /** recovery, fallback, drill, checkpoint-failed, checkpoint-damaged, repair, collect, …: one word, for filters. */
  readonly kind: string
  /** Null: the store as a whole. */
  readonly timeline: string | null
  /** As text for people. */
  readonly what: string
  /** Name of the worker that reported it. */
  readonly worker: string
  readonly data?: unknown
}

export interface ReportFilter {
  readonly timeline?: string
  readonly kind?: string
  /** A Date, ISO text, or milliseconds since 1970. */
  readonly since?: Time
  /** Only this many of the newest. Default: 100. */
  readonly limit?: number
}

const scope = 'reprise/log/'
const reportType = 'report'
const segmentEntries = 400
const segmentsKept = 5
const ageMaxMs = 90 * 86_400_000
const pauseMs = 100
const waitingMax = 200
const attemptsMax = 5
const whatMax = 500

/** Writes until it is closed. A read-only or unwritable store has no log. */
export class ReportLog {
  readonly #kernel: Kernel
  readonly #off: (() => void)[] = []
  #waiting: Report[] = []
  #left = 0
  #cancel: (() => void) | null = null
  readonly #writing = new Mutex()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    const { events } = kernel
    const on = <Name extends keyof EngineEvents>(name: Name, listener: (event: EngineEvents[Name]) => void) =>
      this.#off.push(events.on(name, listener))
    on('report', ({ kind, timeline, what, data }) => this.#note(kind, timeline, what, data))
    on('recovered', ({ timeline, report }) => this.#recovered(timeline, report))
    on('drilled', ({ timeline, ok, ms, note }) => {
      const what = ok ? `restored to a separate place in ${Math.round(ms)} ms` : `failed: ${note}`
      this.#note('drill', timeline, what, { ok, ms })
    })
    on('checkpoint-failed', ({ timeline, error, failuresInARow }) =>
      this.#note('checkpoint-failed', timeline, wordsOf(error), { failuresInARow }),
    )
    on('checkpoint-damaged', ({ timeline, id, reason }) =>
      this.#note('checkpoint-damaged', timeline, `checkpoint ${id}: ${reason}`, { id }),
    )
    on('declared', ({ timeline, from, to }) =>
      this.#note('policy', timeline, `code declared ${JSON.stringify(to)} in place of ${JSON.stringify(from)}`, {
        from,
        to,
      }),
    )
    on('collected', ({ chunks, bytes }) => {
      if (chunks > 0) this.#note('collect', null, `${chunks} unneeded chunks`, { chunks, bytes })
    })
    on('deleted', ({ timeline, isErased }) => {
      if (!isErased) this.#note('delete', timeline, 'deleted for good')
      // Not even its id is kept.
      else this.#waiting = this.#waiting.filter((report) => !mentions(report, timeline))
      if (isErased) this.#note('erase', null, 'a timeline and its id were erased')
    })
  }

  /** Writes the waiting reports, if the store answers soon. */
  async close(): Promise<void> {
    for (const off of this.#off.splice(0)) off()
    this.#cancel?.()
    await within(this.#kernel.clock, 1000, this.#flush())
  }

  #recovered(timeline: string, report: RecoveryReport): void {
    const { skipped, checkpoint, entriesReplayed, totalMs, entriesLost } = report
    if (!checkpoint && skipped.length === 0 && entriesReplayed === 0) return
    const from = checkpoint ? `from the checkpoint at ${checkpoint.seq}` : 'from the start of history'
    const what = `${from}, ${entriesReplayed} entries replayed, ${Math.round(totalMs)} ms`
    const passed = skipped.map(({ seq, why }) => `skipped ${seq}: ${why}`)
    const kind = skipped.length > 0 ? 'fallback' : 'recovery'
    this.#note(kind, timeline, [what, ...passed].join('; '), {
      ...{ checkpoint, entriesReplayed, entriesLost, totalMs },
      ...(skipped.length > 0 && { skipped: skipped.slice(0, 10) }),
    })
  }

  #note(kind: string, timeline: string | null, what: string, data?: unknown): void {
    // The engine's own timelines are not reported.
    if (timeline !== null && /^reprise\//.test(timeline)) return
    if (this.#waiting.length >= waitingMax) {
      this.#left += 1
      return
    }
    const at = this.#kernel.clock.now()
    const worker = this.#kernel.worker.name
    const short = what.slice(0, whatMax)
    this.#waiting.push({ at, kind, timeline, what: short, worker, ...(data !== undefined && { data }) })
    this.#cancel ??= this.#kernel.clock.after(pauseMs, () => {
      this.#cancel = null
      void this.#flush()
    })
  }

  #flush(): Promise<void> {
    return this.#writing.run(async () => {
      const reports = this.#waiting
      const left = this.#left
      this.#waiting = []
      this.#left = 0
      if (left > 0) {
        const { at, worker } = reports.at(-1)!
        reports.push({ at, kind: 'left-out', timeline: null, what: `${left} more reports at the same time`, worker })
      }
      // A failed report is not an error: the reported event reports failures itself.
      if (reports.length > 0) await write(this.#kernel, reports).catch(() => undefined)
    })
  }
}

/** The newest matching reports, oldest of them first. @example await rp.log({ kind: 'drill' }) */
export async function readReports(kernel: Kernel, filter: ReportFilter = {}): Promise<Report[]> {
  const { timeline, kind, limit = 100 } = filter
  const since = filter.since === undefined ? 0 : toTime(filter.since, 'since')
  const found: Report[] = []
  for (const segment of await segments(kernel)) {
    const lineage = await lineageOf(kernel, segment)
    for await (const run of readHistory(kernel, lineage, floorOf(lineage), segment.seq)) {
      for (const entry of entriesOf(kernel, run)) {
        if (entry.type !== reportType) continue
        const report = entry.data as Report
        if (report.at < since || (kind !== undefined && report.kind !== kind)) continue
        if (timeline === undefined || report.timeline === timeline) found.push(report)
      }
    }
  }
  // Processes write in turns, each with its own batch.
  return found.sort((a, b) => a.at - b.at).slice(-limit)
}

/** The timelines of the log. */
export function reportTimelines(kernel: Pick<Kernel, 'store'>): Promise<Head[]> {
  return segments(kernel)
}

/** True if the report is about this timeline, or names it in its text. */
export function mentions(report: unknown, timeline: string): boolean {
  return JSON.stringify(report, (_, value) => (typeof value === 'bigint' ? String(value) : value)).includes(
    JSON.stringify(timeline).slice(1, -1),
  )
}

function segments({ store }: Pick<Kernel, 'store'>) {
  return store.timelines({ prefix: scope, limit: 1000 })
}

async function write(kernel: Kernel, reports: readonly Report[]): Promise<void> {
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const all = await segments(kernel)
    const last = all.at(-1)
    const isFull = !last || last.seq >= segmentEntries
    const number = isFull ? Number(last?.timeline.slice(scope.length) ?? 0) + 1 : null
    const timeline = number === null ? last!.timeline : timelineId(`${scope}${String(number).padStart(9, '0')}`)
    const at = isFull ? await startOf(kernel, timeline) : last!
    const drafts = reports.map((report, i) => {
      const data = kernel.codec.encode(report)
      return sealEntry(kernel.sealer, { type: reportType, version: 1, time: report.at, data }, at.digest, i)
    })
    const nonce = kernel.random.bytes(8)
    const run = packEntries(kernel.hash, { before: at.digest, first: at.seq + 1, epoch: at.epoch + 1, nonce }, drafts)
    const create = isFull ? { create: { digest: at.digest } } : {}
    const [outcome] = await kernel.store.commit([
      {
        operation: newOperation(kernel.random),
        guard: { timeline, epoch: at.epoch, seq: at.seq, digest: at.digest },
        take: { worker: 'log' as WorkerId, from: 'dead', ...create },
        release: true,
        run,
      },
    ])
    if (outcome?.ok) {
      if (isFull) await forgetOld(kernel)
      return
    }
  }
}

async function startOf(kernel: Kernel, timeline: TimelineId): Promise<Pick<Head, 'seq' | 'epoch' | 'digest'>> {
  const { epoch } = await kernel.identity.past(timeline)
  return { seq: 0, epoch, digest: originDigest(kernel.hash, timeline) }
}

/** Called when a new one was begun: removes those beyond the bound, and those whose last entry is too old. */
async function forgetOld(kernel: Kernel): Promise<void> {
  const all = await segments(kernel)
  const tooOld = kernel.worker.now() - ageMaxMs
  for (const [i, head] of all.entries()) {
    const isBeyond = i < all.length - segmentsKept
    if (!isBeyond && head.updatedAt >= tooOld) continue
    await kernel.store.commit([{ operation: newOperation(kernel.random), guard: guardOf(head), forget: true }])
  }
}

function wordsOf(error: unknown): string {
  if (isReprise(error)) return `${error.code}: ${error.message}`
  return error instanceof Error ? error.message : String(error)
}
