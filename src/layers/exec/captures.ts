// Captures of a folder, and restoring one. A capture reflects one moment: the folder is unchanged before and after its files
// are read, and had been unchanged for long enough that a write in between would show. If anything changed, nothing is
// captured.

import { isReprise, isSignal, orElse, RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { type Folder, openRoot } from '../../engine/base/file-tree/folder.ts'
import { isMatchedBy, parsePatterns } from '../../engine/base/file-tree/patterns.ts'
import { restoreTree, type Wanted } from '../../engine/base/file-tree/restore.ts'
import type { Choice } from '../../engine/base/file-tree/scan.ts'
import { isSameSurvey, type Stamp, type Survey, settleMsOf, surveyTree } from '../../engine/base/file-tree/survey.ts'
import { heldBy } from '../../engine/checkpoint/chunk-writer.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { readValue, removeRotten } from '../../engine/writing/stored-value.ts'
import { sleep } from '../../lib/waiting.ts'
import { entry, type Trigger } from './entries.ts'
import { type CapturedTree, ChangedWhileRead, isDamage, type KnownFiles, wantedFiles, writeTree } from './file-set.ts'
import { foldVersion } from './model.ts'

/** A capture in the store. */
export interface Capture {
  readonly id: string
  readonly seq: number
  readonly trigger: Trigger
  readonly files: number
  readonly bytes: number
  /** Stored bytes that no earlier capture had. */
  readonly addedBytes: number
  readonly tookMs: number
  readonly label: string | null
}

export interface Restored {
  readonly id: string
  readonly seq: number
  /** Time of the capture, by the clock of the capturing machine. */
  readonly at: number
  readonly files: number
  readonly bytes: number
  readonly written: number
  readonly removed: number
  readonly tookMs: number
  /** Newer captures that could not be used, with reasons. */
  readonly skipped: readonly { readonly seq: number; readonly why: string }[]
}

export interface CaptureRequest {
  readonly run: number
  readonly trigger: Trigger
  readonly label?: string | undefined
  readonly pin?: boolean | undefined
  /**
   * A survey that is complete and has been unchanged for long enough that the next write would show. Default: the current
   * one, if it stays unchanged for that long.
   */
  readonly expected?: Survey
}

/** Never captured: folders of version control and stores, and temporary files that programs rename later. */
const leftAloneAlways = ['.git/', '.reprise/']
export const leftAloneUsually: readonly string[] = ['*.tmp', '*.tmp.*', '.tmp*', '*.part', '*.partial', '*.swp', '*~']

const damageAttempts = 3

/** The earlier capture that a new one can reuse. */
interface Base {
  readonly held: ReadonlySet<string>
  readonly known: KnownFiles | null
  readonly record: ManifestRecord | null
}

const nothing: Base = { held: new Set(), known: null, record: null }

export class Captures {
  readonly #kernel: Kernel
  readonly #directory: string
  readonly #choice: Choice<null>
  readonly #keep: number
  readonly #owned: () => StateTimeline
  #known: { readonly files: KnownFiles; readonly record: ManifestRecord } | null = null

  constructor(kernel: Kernel, owned: () => StateTimeline, directory: string, ignore: readonly string[], keep: number) {
    this.#kernel = kernel
    this.#owned = owned
    this.#directory = directory
    this.#keep = keep
    const rules = parsePatterns([...leftAloneUsually, ...ignore, ...leftAloneAlways].join('\n'), '--ignore')
    this.#choice = {
      start: null,
      descend: async () => null,
      isLeftAlone: (_scope, path, isFolder) => isMatchedBy(rules, path, isFolder) === true,
    }
  }

  get #taken(): StateTimeline {
    return this.#owned()
  }

  async makeFolder(): Promise<void> {
    const root = await openRoot(this.#directory, { create: true })
    await root.close()
  }

  /** Null: the folder does not exist at this moment. It is opened each time: a program may replace it. */
  async survey(): Promise<Survey | null> {
    return await this.#inFolder((root) => surveyTree(root, this.#choice, this.#kernel.limits))
  }

  /** The real path of the folder. */
  async where(): Promise<string> {
    return (await this.#inFolder(async ({ path }) => path)) ?? this.#directory
  }

  async #inFolder<T>(work: (root: Folder) => Promise<T>): Promise<T | null> {
    const root = await openRoot(this.#directory).catch(orElse(null, 'NOT_FOUND', 'TREE_BLOCKED'))
    if (!root) return null
    try {
      return await work(root)
    } finally {
      await root.close()
    }
  }

  /**
   * Null: the folder is missing or changed during the read, so nothing was captured. Also resolves with the survey, for
   * comparison with later ones.
   */
  async take(request: CaptureRequest): Promise<{ readonly capture: Capture; readonly survey: Survey } | null> {
    const survey = await this.#settled(request.expected)
    if (!survey) return null
    for (let attempt = 1; ; attempt++) {
      const hold = await ChunkHold.begin(this.#kernel)
      try {
        const base = attempt === 1 ? await this.#base() : nothing
        return await this.#inFolder((root) => this.#takeUnder(hold, root, survey, base, request))
      } catch (error) {
        if (error instanceof ChangedWhileRead) return null
        const isGone = isSignal(error, 'BASE_GONE', 'SWEPT')
        if (!isGone && !isReprise(error, 'CHUNK_DAMAGED', 'CHUNK_MISSING')) throw error
        // The base is gone or damaged: the next attempt uses none.
        this.#known = null
        await removeRotten(this.#kernel, error)
        if (attempt >= damageAttempts) throw error
      } finally {
        hold.end()
      }
    }
  }

  /** The sequence of the newest capture, intact or not. */
  async newest(): Promise<number | null> {
    return (await this.#taken.records())[0]?.seq ?? null
  }

  /**
   * Null: there is no capture. Damaged captures are skipped and marked. `isOurs`: the folder belongs to this program, and its
   * content may be replaced; otherwise files that were not captured are a CONFLICT, and nothing is changed.
   */
  async restore(isOurs: boolean): Promise<Restored | null> {
    const skipped: { seq: number; why: string }[] = []
    const started = this.#kernel.clock.elapsed()
    for (const record of await this.#taken.records()) {
      if (record.invalid !== null) {
        skipped.push({ seq: record.seq, why: record.invalid })
        continue
      }
      try {
        // The whole capture is read and checked before the first file is changed.
        const { value, stream } = await readValue(this.#kernel, record)
        const tree = value as CapturedTree
        const wanted = await wantedFiles(this.#kernel, tree, stream)
        if (!isOurs) await this.#refuseForeign(tree)
        const { written, removed } = await this.#put(wanted)
        const { id, seq } = record
        const tookMs = this.#kernel.clock.elapsed() - started
        const sizes = { files: tree.files.length, bytes: tree.bytes, written: written.length, removed: removed.length }
        return { id, seq, at: tree.at, ...sizes, tookMs, skipped }
      } catch (error) {
        if (!isDamage(error)) throw error
        skipped.push({ seq: record.seq, why: error.message })
        this.#kernel.events.emit('checkpoint-damaged', {
          timeline: this.#taken.id,
          id: record.id,
          reason: error.message,
        })
        await this.#taken.mark({ id: record.id, invalid: error.message })
      }
    }
    if (skipped.length === 0) return null
    const what = `every capture of ${this.#taken.id} is damaged; --fresh starts with the folder as it is`
    throw new RepriseError('UNRECOVERABLE', what, { timeline: this.#taken.id, skipped })
  }

  async #refuseForeign(tree: CapturedTree): Promise<void> {
    const captured = new Map(tree.files.map((file) => [file.path, file]))
    const isForeign = (path: string, { bytes, modifiedNs, target }: Stamp) => {
      const file = captured.get(path)
      if (!file || (file.target ?? null) !== target) return true
      return target === null && (file.bytes !== bytes || Math.abs(file.modifiedMs - Number(modifiedNs) / 1e6) >= 1)
    }
    const survey = await this.survey()
    const foreign = [...(survey?.files ?? [])].filter(([path, stamp]) => isForeign(path, stamp)).map(([path]) => path)
    if (foreign.length === 0) return
    const files = foreign.length === 1 ? foreign[0] : `${foreign[0]} and ${foreign.length - 1} more`
    const what = `${this.#directory} holds files that ${this.#taken.id} did not write there (${files}), and a restore would delete them`
    const data = { timeline: this.#taken.id, folder: this.#directory, files: foreign.slice(0, 100) }
    throw new RepriseError('CONFLICT', `${what}: name another folder, or use --replace`, data)
  }

  async #put(wanted: ReadonlyMap<string, Wanted>) {
    const root = await openRoot(this.#directory, { create: true })
    try {
      return await restoreTree(root, wanted, this.#choice, this.#kernel.limits)
    } finally {
      await root.close()
    }
  }

  /** Two equal surveys, far enough apart that the next write is certain to show. */
  async #settled(expected?: Survey): Promise<Survey | null> {
    const first = expected ?? (await this.survey())
    if (!first) return null
    if (!expected) await sleep(this.#kernel.clock, settleMsOf(first))
    const second = await this.survey()
    return second && isSameSurvey(first, second) ? second : null
  }

  async #takeUnder(hold: ChunkHold, root: Folder, survey: Survey, base: Base, request: CaptureRequest) {
    const { clock } = this.#kernel
    const started = clock.elapsed()
    const written = await writeTree(this.#kernel, hold, root, survey, clock.now(), base)
    const after = await this.survey()
    if (!after || !isSameSurvey(survey, after)) return null
    const { tree, known, ...parts } = written
    const { run, trigger, label, pin } = request
    const files = tree.files.length
    const tookMs = Math.round(clock.elapsed() - started)
    const record = await this.#taken.publish({
      entry: entry('captured', { run, trigger, files, bytes: tree.bytes, tookMs }),
      ...parts,
      foldVersion,
      baseId: base.record?.id ?? null,
      trigger,
      ...{ label, pin },
      extras: { attributes: { files, bytes: tree.bytes, captured: new Date(tree.at).toISOString() } },
    })
    this.#known = { files: known, record }
    const { id, seq, addedBytes } = record
    const capture: Capture = { id, seq, trigger, files, bytes: tree.bytes, addedBytes, tookMs, label: label ?? null }
    return { capture, survey }
  }

  async retain(): Promise<void> {
    await this.#taken.retain({ checkpoints: this.#keep, history: 'all' }, foldVersion)
  }

  /** The newest intact capture: its content is referenced, not stored again. */
  async #base(): Promise<Base> {
    for (const record of await this.#taken.records()) {
      if (record.invalid !== null) continue
      try {
        const known = this.#known?.record.id === record.id ? this.#known.files : null
        return { held: await heldBy(this.#kernel, record), known, record }
      } catch (error) {
        if (!isDamage(error)) throw error
      }
    }
    return nothing
  }
}
