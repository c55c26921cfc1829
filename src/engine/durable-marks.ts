// What this process knows to be durable: the last commits that the store has acknowledged, and the last entries that were read
// for somebody outside. A store without them went back to an older copy of itself, and begins a new incarnation, so that
// positions of the history that is gone are refused everywhere.

import { lastSeq } from '../core/entry-run.ts'
import { isReprise } from '../core/errors.ts'
import type { Commit, FeedItem } from '../core/ports.ts'
import type { Events } from './events.ts'
import { FeedMarks } from './feed/marks.ts'
import type { Kernel } from './kernel.ts'
import type { Identity } from './store-identity.ts'

export class DurableMarks {
  /** Apart: the newest of each that can be told decides, and a reader may be far behind the commits. */
  readonly #committed: FeedMarks
  readonly #read: FeedMarks

  constructor(ports: Pick<Kernel, 'store' | 'hash' | 'planted'>) {
    this.#committed = new FeedMarks(ports, true)
    this.#read = new FeedMarks(ports, true)
  }

  get isEmpty(): boolean {
    return this.#committed.isEmpty && this.#read.isEmpty
  }

  /** The store has acknowledged it. */
  committed({ guard, run }: Commit): void {
    if (guard && run) this.#committed.note(guard.timeline, { seq: lastSeq(run), digest: run.digest })
  }

  /** It was the last of the feed. */
  saw({ timeline, run }: Pick<FeedItem, 'timeline' | 'run'>): void {
    this.#read.note(timeline, { seq: lastSeq(run), digest: run.digest })
  }

  /** False: the store does not have what it had. The marks are dropped then, so it is told once. */
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

/** From now on the identity of the store follows what this process knows, at each heartbeat and whenever it is needed. */
export function watchDurable(identity: Identity, marks: DurableMarks, worker: Kernel['worker'], events: Events): void {
  identity.isWhole = () => marks.areThere()
  identity.saw = (last) => marks.saw(last)
  identity.onWentBack = ({ incarnation }) => {
    const what = `the store went back to an older copy of itself: positions from before are refused (incarnation ${incarnation})`
    events.emit('report', { kind: 'incarnation', timeline: null, what, data: { incarnation } })
  }
  worker.onBeat = () => {
    if (marks.isEmpty || !identity.known) return
    identity.current().catch((error) => events.emit('problem', { where: 'identity', error }))
  }
}
