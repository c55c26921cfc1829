// Saves: put a whole state, read the newest one back. The checkpoint holds the state; there is no history to replay. A save
// becomes visible only once all of it is written and read back; the last N are kept; a damaged newest save never hides the
// previous one.
//
// One timeline per series: save/<name>, or save/<name>/<id>. Entry "saved" { format, bytes, by?, replaces? }; the value is in
// the manifest's own part as { shape: 'value', value: Envelope }, the bytes of a stream in a part of their own.

import { type Coordinate, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { type Duration, positiveMs } from '../../core/duration.ts'
import { isReprise, isSignal, RepriseError } from '../../core/errors.ts'
import type { Validity } from '../../core/history/validity.ts'
import { checkCount, checkOptions, namesOf } from '../../core/options.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { type ByteSource, heldBy } from '../../engine/checkpoint/chunk-writer.ts'
import { readManifest } from '../../engine/history/recover.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import {
  checkName,
  type Engine,
  type Entity,
  type Fold,
  type OpenOptions,
  opens,
} from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import { ChunkHold } from '../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { type Publication, StateTimeline } from '../../engine/writing/state-timeline.ts'
import { removeRotten, writeValue } from '../../engine/writing/stored-value.ts'
import { Mutex } from '../../lib/waiting.ts'
import { Autosave } from './autosave.ts'
import { foldVersion } from './fork.ts'
import { saveModel } from './model.ts'
import { type Envelope, infoOf, type SavedInfo, type SaveModel, SaveReader } from './reader.ts'

export interface SaveOptions<T = unknown> {
  /** Number of saves to keep; the two newest are always kept, and pinned ones in addition. Default: 3. */
  readonly keep?: number
  /** Format of the value; raise it when its shape changes, and add an upcaster for older ones. */
  readonly version?: number
  /** From each older format to the next: { 1: (old) => … }. */
  readonly upcasters?: Readonly<Record<number, (value: unknown) => unknown>>
  /**
   * The greatest age of work that no save has. `autosave` keeps it; the recovery card shows whether it is kept, and the doctor
   * and the metrics report it when it is not. Default: none.
   */
  readonly loseAtMost?: Duration
  /** Checks a value (true, false, or the reason): an invalid one is neither saved nor returned by `latest()`. */
  readonly valid?: Validity<T>
}

const known = namesOf<SaveOptions>()('keep version upcasters loseAtMost valid')

export interface PutOptions {
  readonly label?: string
  /** Keeps the save until it is released. */
  readonly pin?: boolean
  readonly signal?: AbortSignal
}

const knownPut = namesOf<PutOptions>()('label pin signal')

function checkedPut(options: PutOptions): PutOptions {
  checkOptions('put', options, knownPut)
  return options
}

export interface SaveDefinition<T> extends Entity<SaveHandle<T>>, Described {
  readonly kind: 'save'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<unknown>
  /** A reader that needs no ownership and does not affect the writer. */
  read(rp: Engine, id?: string): SaveReader<T>
}

const putAttempts = 5

/** @example const weights = await rp.open(save<Model>('training', { keep: 5 })) */
export function save<T>(name: string, options: SaveOptions<T> = {}): SaveDefinition<T> {
  checkName('save', name)
  checkOptions(`save ${name}`, options, known)
  checkFunctions(`save ${name}`, options, [], ['valid'])
  const prefix = `save/${name}`
  const model = modelOf(name, prefix, options)
  const fold: Fold<unknown> = {
    version: foldVersion,
    initial: () => null,
    apply: (state) => state,
    retain: { checkpoints: model.keep, history: 'needed' },
    authority: 'state',
    ...(options.loseAtMost !== undefined && { checkpoint: { loseAtMost: options.loseAtMost } }),
  }
  const described = saveModel(model, fold)
  const timelineOf = (id: string | undefined) => timelineId(id === undefined ? prefix : `${prefix}/${id}`)
  return {
    [describes]: described,
    kind: 'save',
    name,
    prefix,
    fold,
    read(rp, id) {
      const engine = hostOf(rp)
      engine.declare(described)
      return new SaveReader<T>(engine.kernel, model, timelineOf(id))
    },
    async [opens](engine: Host, id: string | undefined, options: OpenOptions) {
      engine.declare(described)
      const handles = engine.once(this, () => new Map<string, Promise<SaveHandle<T>>>())
      return await openShared(engine, handles, timelineOf(id), model, options)
    },
  }
}

/** One handle per series and process: the process is the owner. */
async function openShared<T>(
  engine: Host,
  handles: Map<string, Promise<SaveHandle<T>>>,
  timeline: TimelineId,
  model: SaveModel,
  options: OpenOptions,
): Promise<SaveHandle<T>> {
  const held = await handles.get(timeline)?.catch(() => undefined)
  if (held && !held.isOver) return held.share()
  const opening = StateTimeline.take(engine.kernel, timeline, options).then((taken) => {
    const handle: SaveHandle<T> = new SaveHandle<T>(engine.kernel, model, taken, () => {
      handles.delete(timeline)
      forget()
    })
    const forget = engine.onClose(() => handle.shut())
    return handle
  })
  handles.set(timeline, opening)
  opening.catch(() => handles.delete(timeline))
  return await opening
}

export class SaveHandle<T> extends SaveReader<T> {
  readonly #taken: StateTimeline
  readonly #onClosed: () => void
  readonly #turns = new Mutex()
  /** Chunks of the newest intact save, so that the next one writes only new chunks. */
  #held: { readonly record: ManifestRecord; readonly chunks: ReadonlySet<string> } | null = null
  /** Set when damage was found: the next save reuses no chunks. */
  #distrusts = false
  #holders = 1
  #autosave: Autosave | null = null
  #isClosed = false

  /** @internal */
  constructor(kernel: Kernel, model: SaveModel, taken: StateTimeline, onClosed: () => void) {
    super(kernel, model, taken.id)
    this.#taken = taken
    this.#onClosed = onClosed
  }

  get coordinate(): Coordinate {
    return this.#taken.coordinate
  }

  /** @internal */
  get isOver(): boolean {
    return this.#isClosed || this.#taken.broken !== null
  }

  /** Resolves when the save is durable, read back and visible. */
  put(value: T, options: PutOptions = {}): Promise<SavedInfo> {
    return this.#inTurn(() => this.#put({ kind: 'value', value }, null, checkedPut(options)))
  }

  /**
   * Saves a stream of bytes of any size in bounded memory, together with `value`.
   * @example await weights.putStream(createReadStream('model.bin'), { step: 4000 } as Model)
   * /
   */
  putStream(source: ByteSource, value?: T, options: PutOptions = {}): Promise<SavedInfo> {
    return this.#inTurn(() => this.#put({ kind: 'bytes', value }, source, checkedPut(options)))
  }

  /**
   * Puts the value that `capture` returns as often as `loseAtMost` requires, until `stop()` or the end of the handle. A failed
   * save is a `checkpoint-failed` event and is retried. Each `put` counts as well.
   * @example const autosave = weights.autosave(() => model)
   */
  autosave(capture: () => T | Promise<T>): Autosave {
    const { loseAtMostMs } = this.model
    if (loseAtMostMs === null) {
      const what = `${this.timeline}: autosave needs a bound, as in save('${this.model.name}', { loseAtMost: '5m' })`
      throw new RepriseError('INVALID_ARGUMENT', what, {})
    }
    if (this.#isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`)
    this.#autosave?.stop()
    this.#autosave = new Autosave(this.kernel, this.timeline, loseAtMostMs, async () => {
      await this.put(await capture(), { label: 'autosave' })
    })
    return this.#autosave
  }

  /** Makes an older save the newest one again. Writes no chunks. */
  restore(id: string, options: PutOptions = {}): Promise<SavedInfo> {
    return this.#inTurn(async () => {
      checkedPut(options)
      const record = await this.find(id)
      this.#refuseInvalid((await this.load(id)).value)
      const { parts } = readManifest(this.kernel, record)
      return await this.#publish(
        parts,
        { totalBytes: record.totalBytes, addedBytes: 0, addedChunks: [] },
        record,
        options,
      )
    })
  }

  /** Unpins a save; from here on it may be removed like any other. */
  async release(id: string): Promise<void> {
    await this.#taken.mark({ id: (await this.find(id)).id, isPinned: false })
  }

  /** @internal Adds a holder in this process; each holder closes. */
  share(): this {
    this.#holders += 1
    return this
  }

  async close(): Promise<void> {
    this.#holders -= 1
    if (this.#holders <= 0) await this.shut()
  }

  /** @internal Closes the handle for all its holders in this process. */
  async shut(): Promise<void> {
    if (this.#isClosed) return
    this.#autosave?.stop()
    await this.#autosave?.settled
    this.#isClosed = true
    await this.#turns.run(() => undefined)
    await this.#taken.release()
    this.#onClosed()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  protected override async noteDamage(record: ManifestRecord, why: string): Promise<void> {
    if (this.#held?.record.id === record.id) this.#held = null
    if (!this.isOver) await this.#taken.mark({ id: record.id, invalid: why })
  }

  #inTurn<R>(work: () => Promise<R>): Promise<R> {
    if (this.#isClosed) return Promise.reject(new RepriseError('CLOSED', `${this.timeline} was closed`))
    return this.#turns.run(work)
  }

  async #put(
    what: Pick<Envelope, 'kind' | 'value'>,
    source: ByteSource | null,
    options: PutOptions,
    attempt = 1,
  ): Promise<SavedInfo> {
    this.#refuseInvalid(what.value)
    const hold = await ChunkHold.begin(this.kernel)
    try {
      return await this.#putUnder(hold, what, source, options)
    } catch (error) {
      const isGone = isSignal(error, 'BASE_GONE', 'SWEPT')
      if (!isGone && !isReprise(error, 'CHUNK_DAMAGED', 'CHUNK_MISSING')) throw error
      // The base is gone or damaged: the next attempt uses none.
      this.#held = null
      this.#distrusts = true
      await removeRotten(this.kernel, error)
      // A value can be written again here; a stream was already consumed, so its owner must retry. A process that is
      // suspended repeatedly while a collector runs may lose its chunks more than once.
      if (source || attempt >= putAttempts) throw error
    } finally {
      hold.end()
    }
    return await this.#put(what, source, options, attempt + 1)
  }

  async #putUnder(
    hold: ChunkHold,
    what: Pick<Envelope, 'kind' | 'value'>,
    source: ByteSource | null,
    options: PutOptions,
  ): Promise<SavedInfo> {
    const base = await this.#base()
    const envelope = (): Envelope => ({ format: this.model.format, savedAt: this.kernel.clock.now(), ...what })
    const held = base?.chunks ?? new Set<string>()
    const { parts, ...sizes } = await writeValue(this.kernel, hold, source, envelope, { held, signal: options.signal })
    const saved = await this.#publish(parts, sizes, base?.record ?? null, options)
    this.#distrusts = false
    return saved
  }

  #refuseInvalid(value: unknown): void {
    const reason = this.whyInvalid(value)
    if (reason === null) return
    const what = `${this.timeline}: nothing was saved, because the value is not valid: ${reason}`
    throw new RepriseError('INVALID_STATE', what, { timeline: this.timeline, reason })
  }

  async #publish(
    parts: Publication['parts'],
    sizes: Pick<Publication, 'totalBytes' | 'addedBytes' | 'addedChunks' | 'readsBackAll' | 'hold'>,
    base: ManifestRecord | null,
    { label, pin }: PutOptions,
  ): Promise<SavedInfo> {
    const record = await this.#taken.publish({
      entry: { type: 'saved', data: { format: this.model.format, bytes: sizes.totalBytes } },
      parts,
      foldVersion,
      ...sizes,
      baseId: base?.id ?? null,
      trigger: 'save',
      label,
      pin,
    })
    this.#held = { record, chunks: await heldBy(this.kernel, record) }
    this.#autosave?.saved()
    await this.#taken.retain({ checkpoints: this.model.keep, history: 'needed' }, foldVersion)
    return infoOf(record)
  }

  async #base(): Promise<{ record: ManifestRecord; chunks: ReadonlySet<string> } | null> {
    if (this.#distrusts) return null
    if (this.#held) return this.#held
    for (const record of await this.#taken.records()) {
      if (record.invalid !== null) continue
      try {
        return { record, chunks: await heldBy(this.kernel, record) }
      } catch (error) {
        if (!isReprise(error, 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED')) throw error
        await this.noteDamage(record, error.message)
      }
    }
    return null
  }
}

function modelOf(name: string, prefix: string, options: SaveOptions<never>): SaveModel {
  const { keep = 3, version = 1, upcasters = {}, valid, loseAtMost } = options
  const loseAtMostMs = loseAtMost === undefined ? null : positiveMs(loseAtMost, `save ${name}: loseAtMost`)
  checkCount(`save ${name}: keep`, keep)
  checkCount(`save ${name}: version`, version)
  return { name, prefix, keep, format: version, upcasters, valid: valid as Validity<unknown> | undefined, loseAtMostMs }
}
