// One write to another timeline of the store: through the open handle of this process, else under an epoch of its own
// while no other process works on it. The entries are decided on the timeline's state when the write is applied.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { EffectLedger } from '../../core/history/effects.ts'
import type { Fold, OpenOptions } from '../model/definition.ts'
import type { NewEntry, OpenTimeline } from './timeline.ts'

/** The part of the engine that the write needs. */
interface Opener {
  opened(id: TimelineId): Promise<OpenTimeline<unknown> | null>
  openTimeline<State>(id: TimelineId, fold: Fold<State>, options: OpenOptions): Promise<OpenTimeline<State>>
}

export interface WrittenTo<State> {
  readonly state: State
  readonly ledger: EffectLedger
}

/** `decide` may throw: then nothing is written. An empty list writes nothing. OWNED: another process works on it. */
export async function writeTo<State>(
  opener: Opener,
  id: TimelineId,
  fold: Fold<State>,
  decide: (timeline: WrittenTo<State>) => readonly NewEntry[],
  options: OpenOptions = { wait: '10s' },
): Promise<void> {
  const here = (await opener.opened(id)) as OpenTimeline<State> | null
  if (here) return await decideAndWrite(here, decide)
  const open = await opener.openTimeline(id, fold, { ...options, mustExist: true })
  try {
    await decideAndWrite(open, decide)
  } finally {
    await open.close()
  }
}

/** Decided again if another write of this process came first. */
async function decideAndWrite<State>(
  open: OpenTimeline<State>,
  decide: (timeline: WrittenTo<State>) => readonly NewEntry[],
): Promise<void> {
  for (;;) {
    const entries = decide(open)
    if (entries.length === 0) return
    try {
      await open.write(entries, { expect: open.seq })
      return
    } catch (error) {
      if (!isReprise(error, 'CONFLICT')) throw error
    }
  }
}
