// Reads an aggregate's past: its events, and its state at a sequence or a time.

import { timelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { unpackEntries } from '../../core/history/entry-run.ts'
import { upcast } from '../../core/history/fold.ts'
import { digestAt, entriesOf, lineageOf, reachOf, readHistory } from '../../engine/history/history.ts'
import { existing } from '../../engine/history/locate.ts'
import { recover } from '../../engine/history/recover.ts'
import type { Host } from '../../engine/host/host.ts'
import type { StateAt } from '../../engine/model/definition.ts'
import { systemPrefix } from '../../engine/model/definition.ts'
import { eventOf, infoOf, layerPrefix } from './envelope.ts'
import type { AggregateModel, EventInfo } from './types.ts'

export type PastMoment = { readonly seq: number } | { readonly time: number | Date }

export interface Happened<Event> extends EventInfo {
  readonly event: Event
}

export async function stateAt<State>(
  engine: Host,
  model: AggregateModel<State>,
  id: string,
  when: PastMoment,
): Promise<StateAt<State>> {
  const { kernel } = engine
  const head = await existing(kernel, timelineId(model.prefix + id))
  const lineage = await lineageOf(kernel, head)
  const seq = 'seq' in when ? when.seq : await seqAt(engine, lineage, Number(when.time))
  const { state } = await recover(kernel, head, model.fold, { to: seq })
  const digest = await digestAt(kernel, lineage, seq)
  return { state: state.value, coordinate: { timeline: head.timeline, seq, epoch: head.epoch, digest: toHex(digest) } }
}

/** The last sequence before the first entry that is newer than the time. */
async function seqAt(engine: Host, lineage: Awaited<ReturnType<typeof lineageOf>>, time: number): Promise<number> {
  if (!Number.isFinite(time))
    throw new RepriseError('INVALID_ARGUMENT', 'a time must be a Date or milliseconds since 1970')
  const floor = await reachOf(engine.kernel, lineage)
  let seq = floor.seq
  for await (const { run } of readHistory(engine.kernel, lineage, floor, lineage[0]!.seq)) {
    for (const entry of unpackEntries(run)) {
      if (entry.time > time) return seq
      seq = entry.seq
    }
  }
  return seq
}

export async function* historyOf<State>(
  engine: Host,
  model: AggregateModel<State>,
  id: string,
  range: { readonly after?: number; readonly to?: number },
): AsyncGenerator<Happened<unknown>> {
  const { kernel } = engine
  const head = await existing(kernel, timelineId(model.prefix + id))
  const lineage = await lineageOf(kernel, head)
  const floor = await reachOf(kernel, lineage)
  const after = Math.max(range.after ?? 0, floor.seq)
  const to = Math.min(range.to ?? head.seq, head.seq)
  if (to <= after) return
  const from = after === floor.seq ? floor : { seq: after, digest: await digestAt(kernel, lineage, after) }
  for await (const verified of readHistory(kernel, lineage, from, to)) {
    for (const entry of entriesOf(kernel, verified)) {
      if (entry.type.startsWith(systemPrefix) || entry.type.startsWith(layerPrefix)) continue
      const current = upcast(entry, model.upcasters)
      yield { ...infoOf({ ...current, timeline: head.timeline }, model.prefix), event: eventOf(current) }
    }
  }
}
