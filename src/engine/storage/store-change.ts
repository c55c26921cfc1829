// Long changes of a store: a restore, an import, a move, a rescale, a rekey, the addition of a shard. Each has one note
// in the store, written before its first step and removed after its last one. A change whose process died is therefore
// visible to every process that opens the store, until it is resumed or abandoned (change-actions.ts).
//   $change:ID, an attribute of `reprise/store` = JSON of `Note`

import { timelineId, toHex, type WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { headsIn } from './heads.ts'
import type { Kernel } from './kernel.ts'
import { changeNotes } from './key-notes.ts'

export type ChangeKind = 'restore' | 'import' | 'move' | 'rescale' | 'rekey' | 'shards'

/** A change of the store that has started and not finished. */
export interface StoreChange {
  /** For `rp.resumeChange` and `rp.abandonChange`. */
  readonly id: string
  readonly kind: ChangeKind
  /** The subject: the file, the timeline, the state store or the key. */
  readonly of: string
  readonly startedAt: number
  /** Completed steps: timelines, rows or records. */
  readonly done: number
  /** Null: unknown. */
  readonly total: number | null
  /** A live process executes it. False: it was interrupted. */
  readonly isRunning: boolean
  /** The store has only a part of its timelines: open() refuses the store. */
  readonly blocks: boolean
}

export interface Note extends Pick<StoreChange, 'kind' | 'of' | 'done' | 'total'> {
  readonly began: number
  /** The worker that executes it. Null: it failed, and no process executes it. */
  readonly by: string | null
  /** Identifies the content of a change that no other content may continue (the digest of a backup). */
  readonly mark?: string
  /** The options of the call that decide its result: a resume passes them again, and a repeat must have the same. */
  readonly options?: ChangeOptions
  /** Additional data for a resume or an abandon. */
  readonly detail?: Readonly<Record<string, string>>
  /** Timelines that it creates here, or their scope: until it ends, no other caller may create one of them. */
  readonly coming?: readonly string[]
}

export type ChangeOptions = Readonly<Record<string, string | true>>

export type NotedChange = StoreChange & Pick<Note, 'mark' | 'options' | 'detail' | 'by' | 'coming'>

const prefix = '$change:'
const noted = /^\$change:(.+)$/
const storeTimeline = timelineId('reprise/store')
/** While one of these is unfinished, the store has only a part of its timelines. */
const blocking: ReadonlySet<ChangeKind> = new Set(['restore'])
/** Kinds of which only one can exist at a time: their id is the kind. */
const single: ReadonlySet<ChangeKind> = new Set(['restore', 'rekey', 'shards'])
const progressMs = 1000

/** Set on a timeline that is being imported: the id of the change. */
export const importingAttribute = '$importing'
export const importingStatus = 'importing'

/** The changes that have started and not finished, oldest first. */
export async function storeChanges(kernel: Kernel): Promise<StoreChange[]> {
  return (await notedChanges(kernel)).map(
    ({ mark: _, options: __, detail: ___, by: ____, coming: _____, ...change }) => change,
  )
}

async function notedChanges(kernel: Kernel): Promise<NotedChange[]> {
  const [head] = await kernel.store.head([storeTimeline])
  const notes = head ? notesIn(head) : []
  if (notes.length === 0) return []
  const workers = await kernel.store.workers()
  const isAtWork = (id: string | null) => workers.some((row) => row.id === id && kernel.worker.isAtWork(row))
  return notes
    .map(([id, { began, by, ...note }]) => {
      return { ...note, by, id, startedAt: began, isRunning: isAtWork(by), blocks: blocking.has(note.kind) }
    })
    .sort((a, b) => a.startedAt - b.startedAt)
}

export function notesIn({ attributes }: Head): [string, Note][] {
  return Object.entries(attributes).flatMap(([name, text]) => {
    const id = noted.exec(name)?.[1]
    return id === undefined || typeof text !== 'string' ? [] : [[id, JSON.parse(text) as Note]]
  })
}

/** For open(): refuses a store that has only a part of its timelines. Throws CHANGE_UNFINISHED. */
export async function refuseUnfinished(kernel: Kernel): Promise<void> {
  const change = (await storeChanges(kernel)).find(({ blocks }) => blocks)
  if (change) throw unfinished(change)
}

/** For a timeline whose import has not finished. */
export function refuseImporting(head: Head): void {
  if (head.status !== importingStatus) return
  const what = `${head.timeline} is incomplete: its import has not finished. Repeat the import or the move, or abandon the import (reprise changes)`
  throw new RepriseError('CHANGE_UNFINISHED', what, {
    timeline: head.timeline,
    change: head.attributes[importingAttribute] ?? null,
  })
}

export function unfinished(change: StoreChange): RepriseError {
  const { id, kind, of, startedAt, done, total, isRunning } = change
  const what = `${changeWords(change)}: ${isRunning ? 'wait for it, or stop it' : `reprise changes ${id} --resume continues it`}, reprise changes ${id} --abandon undoes it`
  return new RepriseError('CHANGE_UNFINISHED', what, { id, kind, of, startedAt, done, total, isRunning })
}

/** For a repeated call whose options differ from those of the call that began the change. */
function otherOptions(change: StoreChange, options: ChangeOptions): RepriseError {
  const words = Object.entries(options).map(([name, value]) => (value === true ? name : `${name} ${value}`))
  const began = words.length === 0 ? 'without options' : `with ${words.join(', ')}`
  const { id, kind, of } = change
  const what = `${changeWords(change)}; it began ${began}, and only the same call can continue it: repeat that call, or reprise changes ${id} --resume; reprise changes ${id} --abandon undoes it`
  return new RepriseError('CHANGE_UNFINISHED', what, { id, kind, of, options })
}

/** @example changeWords(change) // 'the restore of app.rpb began at 2026-01-31T12:00:00.000Z and has not finished (12 of 200)' */
export function changeWords({ kind, of, startedAt, done, total, isRunning }: StoreChange): string {
  const progress = total === null ? `${done} done` : `${done} of ${total}`
  const state = isRunning ? 'is in progress' : 'has not finished'
  const what = kind === 'shards' ? 'the addition of shard' : `the ${kind} of`
  return `${what} ${of} began at ${new Date(startedAt).toISOString()} and ${state} (${progress})`
}

export interface ChangeRequest {
  readonly kind: ChangeKind
  readonly of: string
  readonly mark?: string
  readonly options?: ChangeOptions
  readonly detail?: Readonly<Record<string, string>>
  readonly coming?: readonly string[]
  readonly total?: number
}

/** A note is one attribute. */
const comingLengthMax = 1200

/** The ids, or their common scope if they are too many. */
function comingOf(ids: readonly string[]): readonly string[] {
  if (JSON.stringify(ids).length <= comingLengthMax) return ids
  const parts = ids.map((id) => id.split('/'))
  const first = parts[0]!
  const shared = first.findIndex((part, i) => parts.some((each) => each[i] !== part))
  // Timelines without a common scope are refused one by one, once their import has begun.
  return shared > 0 ? [`${first.slice(0, shared).join('/')}/`] : []
}

export function changeIdOf({ hash }: Pick<Kernel, 'hash'>, { kind, of, mark }: ChangeRequest): string {
  if (single.has(kind)) return kind
  return `${kind}-${toHex(hash(new TextEncoder().encode(`reprise/1 change ${kind} ${mark ?? of}`))).slice(0, 8)}`
}

/**
 * Executes a change under its note. The note stays if `work` fails or the process dies, unless `work` did nothing
 * (`nothingDone`) and no earlier attempt did. Throws CHANGE_UNFINISHED if another change of this kind must end first.
 */
export async function underNote<Result>(
  kernel: Kernel,
  request: ChangeRequest,
  work: (note: ChangeNote) => Promise<Result>,
): Promise<Result> {
  const note = await ChangeNote.begin(kernel, request)
  try {
    const result = await work(note)
    await note.end()
    return result
  } catch (error) {
    await note.interrupted().catch(() => undefined)
    throw error
  }
}

/**
 * Details that only the first attempt knows. `arriving`: an earlier attempt may have created the timeline, and a later one that
 * stops before that does not undo it. `before`: what an abandon puts back; missing in notes of older versions.
 */
function detailOf(
  detail: Readonly<Record<string, string>>,
  earlier: NotedChange | undefined,
): Readonly<Record<string, string>> {
  if (!earlier) return detail
  const { before: _, ...own } = detail
  const { arriving, before } = earlier.detail ?? {}
  return { ...own, ...(arriving !== undefined && { arriving }), ...(before !== undefined && { before }) }
}

/** Notes of older versions have no options. */
function isSameCall(earlier: NotedChange, options: ChangeOptions = {}): boolean {
  if (!earlier.options) return true
  const names = new Set([...Object.keys(earlier.options), ...Object.keys(options)])
  return [...names].every((name) => earlier.options![name] === options[name])
}

/** The note of a change that this process executes. */
export class ChangeNote {
  readonly id: string
  readonly isResumed: boolean
  /** The completed steps of earlier attempts. */
  readonly doneBefore: number
  readonly #kernel: Kernel
  #note: Note
  #writtenAt: number
  #isToStay = false
  #hasBegun: boolean

  private constructor(kernel: Kernel, id: string, note: Note, isResumed: boolean) {
    this.#kernel = kernel
    this.id = id
    this.#note = note
    this.isResumed = isResumed
    this.doneBefore = note.done
    this.#hasBegun = isResumed
    this.#writtenAt = kernel.clock.elapsed()
  }

  static async begin(kernel: Kernel, request: ChangeRequest): Promise<ChangeNote> {
    const { kind, of, mark, options, detail, coming, total } = request
    const id = changeIdOf(kernel, request)
    const by: WorkerId = await kernel.worker.register()
    const earlier = (await notedChanges(kernel)).find((each) => each.id === id)
    if (earlier && earlier.mark !== mark) throw unfinished(earlier)
    if (earlier && !isSameCall(earlier, options)) throw otherOptions(earlier, earlier.options!)
    const note: Note = {
      ...{ kind, of, by },
      began: earlier?.startedAt ?? kernel.worker.now(),
      done: earlier?.done ?? 0,
      total: total ?? earlier?.total ?? null,
      ...(mark !== undefined && { mark }),
      ...(options && { options }),
      ...(detail && { detail: detailOf(detail, earlier) }),
      ...(coming && { coming: comingOf(coming) }),
    }
    const begun = new ChangeNote(kernel, id, note, earlier !== undefined)
    await begun.#write(note)
    return begun
  }

  get startedAt(): number {
    return this.#note.began
  }

  /** From here on the store is changed: the note stays if the work fails. */
  began(): void {
    this.#hasBegun = true
  }

  /** The work ended with a part left for later: the note stays. */
  stays(): void {
    this.#isToStay = true
  }

  /** Written at most once per second. */
  async progress(done: number, total: number | null = this.#note.total): Promise<void> {
    this.#hasBegun = true
    this.#note = { ...this.#note, done, total, by: this.#kernel.worker.id }
    if (this.#kernel.clock.elapsed() - this.#writtenAt < progressMs) return
    await this.#write(this.#note)
  }

  /** Stores additional data for a resume or an abandon. */
  async detail(detail: Readonly<Record<string, string>>): Promise<void> {
    await this.#write({ ...this.#note, detail: { ...this.#note.detail, ...detail } })
  }

  async end(): Promise<void> {
    if (this.#isToStay) await this.interrupted()
    else await removeNote(this.#kernel, this.id)
  }

  async interrupted(): Promise<void> {
    if (this.#hasBegun || this.#isToStay) await this.#write({ ...this.#note, by: null })
    else await removeNote(this.#kernel, this.id)
  }

  async #write(note: Note): Promise<void> {
    this.#note = note
    this.#writtenAt = this.#kernel.clock.elapsed()
    await changeNotes(this.#kernel, { [prefix + this.id]: JSON.stringify(note) })
  }
}

/** The change ended other than by its own work: removes its note, if there is one. */
export async function endNote(kernel: Kernel, request: ChangeRequest): Promise<void> {
  const id = changeIdOf(kernel, request)
  const [head] = await kernel.store.head([storeTimeline])
  if (head?.attributes[prefix + id] !== undefined) await removeNote(kernel, id)
}

export async function removeNote(kernel: Kernel, id: string): Promise<void> {
  await changeNotes(kernel, { [prefix + id]: null })
}

/** Throws NOT_FOUND. */
export async function changeOf(kernel: Kernel, id: string): Promise<NotedChange> {
  const change = (await notedChanges(kernel)).find((each) => each.id === id)
  if (change) return change
  throw new RepriseError('NOT_FOUND', `there is no unfinished change ${id}`, { id })
}

/** The timelines whose import has not finished. */
export async function* importedBy(kernel: Kernel, id: string): AsyncGenerator<Head> {
  for await (const head of headsIn(kernel.store, { status: importingStatus })) {
    if (head.attributes[importingAttribute] === id) yield head
  }
}
