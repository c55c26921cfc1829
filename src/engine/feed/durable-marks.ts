// Marks of durable history: the last commits that the store acknowledged to this process, and the last entries that outside
// readers received. A store without these entries went back to an older copy of itself. The store then begins a new
// incarnation, and positions of the lost history are refused.

import { isReprise } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import type { Commit, FeedItem } from '../../core/store/ports.ts'
import type { Events } from '../base/events.ts'
import { isOfStore } from '../model/id-prefixes.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { Identity } from '../storage/store-identity.ts'
import { FeedMarks } from './feed-marks.ts'

/** The store's own timelines (`reprise/…`) have no marks: their deletion is not logged. */
export class DurableMarks {
  /** Commits and reads have separate marks: a reader may be far behind the commits. */
  readonly #committed: FeedMarks
  readonly #read: FeedMarks

  constructor(ports: Pick<Kernel, 'store' | 'hash' | 'planted'>) {
    this.#committed = new FeedMarks(ports, true)
    this.#read = new FeedMarks(ports, true)
  }

  get isEmpty(): boolean {
    return this.#committed.isEmpty && this.#read.isEmpty
  }

  /** Notes a commit that the store acknowledged. */
  committed({ guard, run }: Commit): void {
    if (!guard || !run || isOfStore(guard.timeline)) return
    const { timeline, seq, digest } = guard
    const before = seq !== undefined && digest ? { seq, digest } : null
    this.#committed.noteUnchecked(timeline, { seq: lastSeq(run), digest: run.digest }, before)
  }

  /** Notes the last item of the feed. */
  saw({ timeline, run }: Pick<FeedItem, 'timeline' | 'run'>): void {
    if (isOfStore(timeline)) return
    this.#read.noteUnchecked(timeline, { seq: lastSeq(run), digest: run.digest }, null)
  }

  /** False: the store lacks a marked entry. The marks are then dropped, so one loss is reported once. */
  async areThere(): Promise<boolean> {
    try {
      for (const marks of [this.#committed, this.#read]) {
        if (marks.isEmpty) continue
        await marks.begin()
        await marks.check('')
      }
      return true
    } catch (error) {
      if (!isReprise(error, 'POSITION_GONE')) throw error
      this.#committed.clear()
      this.#read.clear()
      return false
    }
  }
}

/** From now on the identity of the store follows these marks, at each heartbeat and whenever it is needed. */
export function watchDurable(identity: Identity, marks: DurableMarks, worker: Kernel['worker'], events: Events): void {
  identity.isWhole = () => marks.areThere()
  identity.saw = (last) => marks.saw(last)
  identity.onWentBack = ({ incarnation }) => {
    const what = `the store was replaced by an older copy of itself: earlier positions are refused (incarnation ${incarnation})`
    events.emit('report', { kind: 'incarnation', timeline: null, what, data: { incarnation } })
  }
  worker.onBeat = () => {
    if (marks.isEmpty || !identity.known) return
    identity.current().catch((error) => events.emit('problem', { where: 'identity', error }))
  }
}
