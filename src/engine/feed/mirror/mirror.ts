// The mirror of history: a second copy of every run, in files on another disk, from which `verify --repair` repairs. It
// follows the feed, so it contains the writes of all processes, and after a gap it resumes from the last position that its own
// files prove.
//
// Promised: a run is in the mirror, synced, moments after it was acknowledged (one page of the feed at a time, at the latest
// with the next poll, a second later). No commit waits for the mirror or fails because of it: a mirror that cannot be written
// is reported by the event `problem`, and catches up. Not promised: runs that were damaged before they were mirrored.
//
// One process at a time writes it: the owner of `reprise/mirror`. Each owner writes files of its own epoch, so an owner that
// was wrongly considered dead is harmless. The mirror is rewritten from the start when it has doubled in size, and when
// entries were erased or encrypted with another key; the older files are removed when that is done. This bounds its size, and
// removes trimmed and forgotten history.

import { stat } from 'node:fs/promises'
import { type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { originDigest } from '../../../core/history/entry-run.ts'
import type { MirrorRecord } from '../../../core/history/mirror-record.ts'
import { type FeedPosition, feedStart } from '../../../core/store/ports.ts'
import { within } from '../../../lib/waiting.ts'
import { erasuresTimeline } from '../../history/erasures.ts'
import { type Kernel, newOperation } from '../../storage/kernel.ts'
import { FeedMarks } from '../feed-marks.ts'
import { forgottenTimeline, lastErased } from '../forgotten-timelines.ts'
import { filesIn, MirrorFiles, readMirror } from './folder.ts'

const mirrorTimeline = timelineId('reprise/mirror')
const pageRuns = 500
const everyMs = 1000
const closeMs = 1000
/** A smaller growth is not worth a rewrite. */
const slackBytes = 64 * 1024 * 1024

interface Writing {
  readonly epoch: number
  readonly files: MirrorFiles
  readonly marks: FeedMarks
  position: FeedPosition
  sign: string | null
  /** Older files, which are removed once the end of the feed is reached; none: this is not a rewrite. */
  replaced: readonly string[]
  bytes: number
  bytesMax: number
}

export class Mirror {
  readonly #kernel: Kernel
  readonly #path: string
  readonly #off: (() => void)[] = []
  #writing: Writing | null = null
  #round: Promise<void> = Promise.resolve()
  #cancel: (() => void) | null = null
  #isClosed = false
  #problem: string | null = null
  #isRestartRequested = false

  constructor(kernel: Kernel, path: string) {
    this.#kernel = kernel
    this.#path = path
  }

  start(): void {
    const { store } = this.#kernel
    this.#off.push(store.listen(() => this.#soon(20)))
    this.#soon(0)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const off of this.#off.splice(0)) off()
    this.#cancel?.()
    await this.#round
    // Mirror the last writes too, if that does not take long: the next writer resumes from there.
    const rest = this.#catchUp().catch(() => undefined)
    await within(this.#kernel.clock, closeMs, rest)
    await this.#let()
  }

  /** Rewrites it without damaged and removed runs; false: another process writes it. For a mirror that was not started. */
  async writeAnew(): Promise<boolean> {
    this.#isRestartRequested = true
    try {
      return await this.#catchUp()
    } finally {
      await this.#let()
    }
  }

  #soon(delayMs: number): void {
    if (this.#isClosed || this.#cancel) return
    this.#cancel = this.#kernel.clock.after(delayMs, () => {
      this.#cancel = null
      this.#round = this.#round
        .then(() => this.#catchUp())
        .then(
          () => this.#settled(null),
          (error: unknown) => this.#settled(error),
        )
      void this.#round.then(() => this.#soon(everyMs))
    })
  }

  #settled(error: unknown): void {
    const problem = error === null ? null : String((error as Error).message ?? error)
    if (problem === this.#problem) return
    this.#problem = problem
    const { events } = this.#kernel
    const what = problem === null ? 'it is written again' : `it cannot be written: ${problem}`
    events.emit('report', { kind: 'mirror', timeline: null, what: `the mirror of history at ${this.#path}: ${what}` })
    if (error !== null) events.emit('problem', { where: mirrorTimeline, error })
  }

  /** False: another process writes it. */
  async #catchUp(): Promise<boolean> {
    const writing = await this.#owned()
    if (!writing) return false
    const sign = await mirrorSign(this.#kernel)
    const isTooLarge = writing.replaced.length === 0 && writing.bytes > writing.bytesMax
    if (this.#isRestartRequested || isTooLarge || writing.sign !== sign) await this.#beginAnew(writing, sign)
    for (;;) {
      const isEnd = await this.#page(writing)
      if (!isEnd) continue
      await this.#finish(writing)
      return true
    }
  }

  async #page(writing: Writing): Promise<boolean> {
    const { store, sealer } = this.#kernel
    try {
      await writing.marks.begin()
      const { items, next, isEnd } = await store.feed(writing.position, {}, pageRuns)
      await writing.marks.check(writing.position)
      const records = items.map(({ timeline, run }): MirrorRecord => {
        writing.marks.note(timeline, { seq: run.first + run.count - 1, digest: run.digest })
        return { kind: 'run', timeline, run: { ...run, bytes: sealer.wrap('runs', run.bytes) } }
      })
      if (next !== writing.position) {
        writing.bytes += await writing.files.append([...records, { kind: 'position', position: next }])
        writing.position = next
      }
      return isEnd
    } catch (error) {
      if (!isReprise(error, 'POSITION_GONE')) throw error
      // The store was replaced by an older copy: the files belong to the newer one.
      writing.marks.clear()
      await this.#beginAnew(writing, await mirrorSign(this.#kernel))
      return false
    }
  }

  async #beginAnew(writing: Writing, sign: string): Promise<void> {
    this.#isRestartRequested = false
    await writing.files.close()
    writing.replaced = await filesIn(this.#path)
    writing.position = feedStart
    writing.sign = sign
    // Write the start first, in a file of its own: after a kill, the next writer knows by it which files to remove.
    writing.bytes = await writing.files.append([{ kind: 'start', sign }])
  }

  async #finish(writing: Writing): Promise<void> {
    if (writing.replaced.length === 0) return
    await writing.files.removeBefore(writing.replaced)
    writing.replaced = []
    writing.bytesMax = 2 * writing.bytes + slackBytes
  }

  /** Null: another process owns it. */
  async #owned(): Promise<Writing | null> {
    const { store, hash, random, worker } = this.#kernel
    const own = worker.registered ?? (await worker.register())
    const [head] = await store.head([mirrorTimeline])
    if (this.#writing && head?.epoch === this.#writing.epoch && head.owner === own) return this.#writing
    await this.#writing?.files.close()
    this.#writing = null
    if (head && head.owner !== null && head.owner !== own && head.isOwnerAlive) return null
    await stat(this.#path)
    const [outcome] = await store.commit([
      {
        operation: newOperation(random),
        guard: { timeline: mirrorTimeline, epoch: head?.epoch ?? 0 },
        take: { worker: own, from: 'dead', create: { digest: originDigest(hash, mirrorTimeline) } },
      },
    ])
    if (!outcome?.ok) return null
    this.#writing = await this.#opened(outcome.epoch)
    return this.#writing
  }

  async #opened(epoch: number): Promise<Writing> {
    const { hash } = this.#kernel
    const { position, bytes, sign, replaced, last } = await readMirror(hash, this.#path)
    const files = new MirrorFiles(hash, this.#path, epoch)
    const marks = new FeedMarks(this.#kernel)
    await marks.begin()
    if (last) marks.note(last.timeline, last.point)
    return { epoch, files, marks, position, sign, replaced, bytes, bytesMax: 2 * bytes + slackBytes }
  }

  async #let(): Promise<void> {
    const writing = this.#writing
    this.#writing = null
    if (!writing) return
    await writing.files.close()
    const { store, random } = this.#kernel
    const guard = { timeline: mirrorTimeline as TimelineId, epoch: writing.epoch }
    await Promise.resolve(store.commit([{ operation: newOperation(random), guard, release: true }])).catch(
      () => undefined,
    )
  }
}

/** Identifies the data that must no longer be in the mirror: changes with each erasure, and with the key. */
export async function mirrorSign({ store, sealer }: Pick<Kernel, 'store' | 'sealer'>): Promise<string> {
  const [erasures, forgotten] = await store.head([erasuresTimeline, forgottenTimeline])
  return [erasures?.seq ?? 0, lastErased(forgotten ?? null), sealer.keyId ?? ''].join(' ')
}
