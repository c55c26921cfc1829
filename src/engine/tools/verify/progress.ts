// The progress of a verify: reported to the caller, and saved in the store, so that an interrupted verify can resume.
//
// The mark states: the store's own structures were checked without a fault up to `structures`, or completely at
// `structuresAt`; and every timeline up to `upTo`, in order of ids, was verified without a fault since `from`. A timeline
// written after `from` is verified again. Damage does not move the mark, and a store with damage is not written to: the
// resumed verify finds the damage again. The progress mark is an attribute of `reprise/store`, and names the location that was
// read: a copy of the store elsewhere was not verified.

import { RepriseError } from '../../../core/errors.ts'
import type { Head, Inspection } from '../../../core/store/ports.ts'
import { compareText } from '../../../core/store/text-order.ts'
import { warnOnReject } from '../../../lib/warn-on-reject.ts'
import type { EarlierVerify } from '../../storage/fault.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { changeNotes, readNote } from '../../storage/key-notes.ts'
import type { Tally } from './findings.ts'

/** The progress of a verify. */
export interface VerifyProgress {
  /** The store's own structures, then the timelines, then the stored chunks, then mirror and parity. */
  readonly part: 'structures' | 'timelines' | 'chunks' | 'copies'
  readonly done: number
  /** The approximate total; null: unknown. */
  readonly total: number | null
  /** The current item: a part of the structures, or a timeline. */
  readonly at: string | null
}

interface VerifyMark {
  readonly version: 1
  readonly location: string
  readonly from: number
  readonly at: number
  readonly structures: string | null
  readonly structuresAt: number | null
  readonly upTo: string | null
  /** The number of timelines, for people. */
  readonly done: number
  readonly total: number | null
}

interface WatchOptions {
  readonly timelines?: readonly string[]
  readonly repair?: boolean
  readonly resume?: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: VerifyProgress) => void
}

const name = '$verify'
const keepEveryMs = 1000
/** Older marks are ignored. */
const markAgeMaxMs = 7 * 86_400_000
/** Clocks of a store and of its writers may differ a little. */
const skewMs = 1000

export class VerifyWatch {
  readonly #kernel: Kernel
  readonly #options: WatchOptions
  readonly #location: string
  readonly #earlier: VerifyMark | null
  readonly #from: number
  #structures: string | null
  #structuresAt: number | null
  #total: number | null
  #keptAt: number
  #isKept: boolean
  #keeping: Promise<void> = Promise.resolve()
  #previous: string | null = null
  #done = 0
  #passed = 0
  #again = 0

  private constructor(kernel: Kernel, options: WatchOptions, location: string, earlier: VerifyMark | null) {
    this.#kernel = kernel
    this.#options = options
    this.#location = location
    this.#earlier = earlier
    this.#from = earlier?.from ?? kernel.worker.now()
    this.#structures = earlier?.structures ?? null
    this.#structuresAt = earlier?.structuresAt ?? null
    this.#total = earlier?.total ?? null
    this.#keptAt = kernel.clock.elapsed()
    this.#isKept = earlier !== null
  }

  static async begin(
    kernel: Kernel,
    options: WatchOptions,
    { location, isReadOnly }: { readonly location: string; readonly isReadOnly: boolean },
  ): Promise<VerifyWatch> {
    if (!options.resume) return new VerifyWatch(kernel, options, location, null)
    if (options.timelines || options.repair) {
      const what = 'resume applies to a verification of the whole store without repair: omit timelines and repair'
      throw new RepriseError('INVALID_ARGUMENT', what, {})
    }
    if (isReadOnly) {
      const what = 'verify stores its progress, and this store is read-only: omit resume'
      throw new RepriseError('STORE_READ_ONLY', what, { location })
    }
    const mark = toMark(await readNote(kernel, name))
    const isOurs = mark?.location === location && kernel.worker.now() - mark.from < markAgeMaxMs
    return new VerifyWatch(kernel, options, location, isOurs ? mark : null)
  }

  report(progress: VerifyProgress): void {
    warnOnReject(this.#options.onProgress?.(progress), 'onProgress')
    const { events } = this.#kernel
    if (events.has('progress')) events.emit('progress', { work: 'verify', timeline: null, ...progress })
  }

  get #isDue(): boolean {
    return this.#kernel.clock.elapsed() - this.#keptAt >= keepEveryMs
  }

  get areStructuresDone(): boolean {
    return this.#structuresAt !== null
  }

  inspection(): Inspection {
    const { signal } = this.#options
    return {
      ...(signal && { signal }),
      ...(this.#structures !== null && { after: this.#structures }),
      onProgress: ({ part, done, total, faults, mark }) => {
        if (faults === 0) this.#structures = mark
        if (faults === 0 && this.#isDue) void this.#keep()
        if (part.endsWith('timelines')) this.#total = total
        this.report({ part: 'structures', done, total, at: part })
      },
    }
  }

  /** Call it only if there was no fault: otherwise there is no mark. */
  async structuresDone(): Promise<void> {
    if (!this.areStructuresDone) {
      this.#structures = null
      this.#structuresAt = this.#kernel.worker.now()
    }
    if (this.#earlier?.structuresAt == null) await this.#keep()
  }

  /** Call it before a timeline is verified: those before it are done. Throws ABORTED. */
  async at({ timeline }: Head, tally: Tally): Promise<void> {
    const { signal } = this.#options
    this.report({ part: 'timelines', done: tally.timelines, total: this.#total, at: timeline })
    const isSound = tally.faults.length + tally.healed.length + tally.cannotTell.length === 0
    this.#done = tally.timelines
    if (isSound && (this.#isDue || signal?.aborted)) await this.#keep()
    if (signal?.aborted) {
      const done = { timelines: tally.timelines, upTo: this.#previous }
      throw new RepriseError('ABORTED', 'verify: aborted', done, signal.reason)
    }
    this.#previous = timeline
  }

  /** True: an earlier call verified it, and it was not written since. */
  wasVerified({ timeline, updatedAt }: Head): boolean {
    const upTo = this.#earlier?.upTo ?? null
    if (upTo === null || compareText(timeline, upTo) > 0) return false
    const isSame = updatedAt < this.#from - skewMs
    if (!isSame) this.#again += 1
    return isSame
  }

  passedOver(): void {
    this.#passed += 1
  }

  /** The verify is complete: nothing is left to resume. */
  async end(): Promise<void> {
    await this.#keeping
    if (this.#isKept) await this.#note(null)
  }

  get earlier(): EarlierVerify | null {
    const mark = this.#earlier
    if (!mark) return null
    const { from, at: to, upTo, structuresAt } = mark
    return { from, to, upTo, timelines: this.#passed, again: this.#again, structuresAt }
  }

  async #keep(): Promise<void> {
    if (!this.#options.resume) return
    this.#keptAt = this.#kernel.clock.elapsed()
    const before = this.#earlier?.upTo ?? null
    const previous = this.#previous
    // While already verified timelines are skipped, the earlier mark is the better one.
    const isBehind = before !== null && (previous === null || compareText(previous, before) < 0)
    if (isBehind) return
    const mark: VerifyMark = {
      version: 1,
      location: this.#location,
      from: this.#from,
      at: this.#kernel.worker.now(),
      structures: this.#structures,
      structuresAt: this.#structuresAt,
      upTo: previous,
      done: this.#done,
      total: this.#total,
    }
    const text = JSON.stringify(mark)
    if (text.length <= this.#kernel.limits.attributeTextLength) await this.#note(text)
  }

  /** Writes marks one after another. A mark that cannot be saved does not stop the verify. */
  #note(text: string | null): Promise<void> {
    this.#keeping = this.#keeping.then(async () => {
      try {
        await changeNotes(this.#kernel, { [name]: text })
        this.#isKept = text !== null
      } catch (error) {
        this.#kernel.events.emit('problem', { where: 'saving the progress of a verification', error })
      }
    })
    return this.#keeping
  }
}

/** A resumable verification that is in progress or was interrupted; null if there is none. */
export interface UnfinishedVerify {
  /** Milliseconds since 1970: the time of its start, and of its last saved progress. */
  readonly from: number
  readonly at: number
  readonly part: 'structures' | 'timelines'
  readonly upTo: string | null
  readonly done: number
  readonly total: number | null
}

export async function unfinishedVerify(kernel: Pick<Kernel, 'store'>): Promise<UnfinishedVerify | null> {
  const mark = toMark(await readNote(kernel, name))
  if (!mark) return null
  const { from, at, structuresAt, upTo, done, total } = mark
  return { from, at, part: structuresAt === null ? 'structures' : 'timelines', upTo, done, total }
}

/** Removes the name of an erased timeline from the mark: if it was in the mark, the verify restarts from the beginning. */
export async function forgetInMark(kernel: Kernel, timelines: readonly string[]): Promise<void> {
  const mark = toMark(await readNote(kernel, name))
  if (mark?.upTo != null && timelines.includes(mark.upTo)) await changeNotes(kernel, { [name]: null })
}

function toMark(text: unknown): VerifyMark | null {
  try {
    const mark = JSON.parse(String(text)) as VerifyMark | null
    return mark?.version === 1 ? mark : null
  } catch {
    return null
  }
}
