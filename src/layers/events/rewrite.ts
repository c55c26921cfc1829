// Corrections that a compensating event cannot express: the history of an aggregate is copied into a new one, event by
// event, through a function that may change, drop or add. The old timeline stays as it was, marked as superseded, with
// a pointer to the new one, and the new one's events say which event they came from.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { newOperation } from '../../engine/kernel.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { NewEntry } from '../../engine/timeline.ts'
import type { AggregateDefinition } from './aggregate.ts'
import { toEntry } from './envelope.ts'
import { type Happened, historyOf } from './history.ts'
import type { EventOf } from './types.ts'

export interface Rewritten {
  readonly from: string
  readonly to: string
  readonly kept: number
  readonly changed: number
  readonly dropped: number
}

const entriesAtOnce = 500

/**
 * @example await rewrite(rp, account, 'ann', 'ann-2', ({ event }) => event.amount < 0 ? null : event, 'negative amounts')
 */
export async function rewrite<State, Evolve, Decide>(
  engine: Reprise,
  definition: AggregateDefinition<State, Evolve, Decide>,
  from: string,
  to: string,
  map: (happened: Happened<EventOf<Evolve>>) => EventOf<Evolve> | readonly EventOf<Evolve>[] | null,
  reason: string,
): Promise<Rewritten> {
  const { model } = definition
  const target = timelineId(model.prefix + to)
  if (await engine.head(target)) throw new RepriseError('EXISTS', `there is already a timeline ${target}`, { to })
  const tally = { kept: 0, changed: 0, dropped: 0 }
  const open = await engine.openTimeline(target, model.fold)
  try {
    let batch: NewEntry[] = []
    const flush = async () => {
      if (batch.length > 0) await open.write(batch)
      batch = []
    }
    const history = historyOf(engine, model, from, {}) as AsyncGenerator<Happened<EventOf<Evolve>>>
    for await (const happened of history) {
      const mapped = map(happened)
      const events = mapped === null ? [] : Array.isArray(mapped) ? mapped : [mapped]
      if (events.length === 0) tally.dropped += 1
      else if (events.length === 1 && events[0] === happened.event) tally.kept += 1
      else tally.changed += 1
      const meta = { ...happened.meta, corrects: happened.seq, reason }
      events.forEach((event, i) => {
        const key = happened.key === undefined ? undefined : i === 0 ? happened.key : `${happened.key}#${i}`
        batch.push({
          ...toEntry(model.check(event), event === happened.event ? happened.meta : meta, key),
          time: happened.time,
        })
      })
      if (batch.length >= entriesAtOnce) await flush()
    }
    await flush()
    await open.close({ status: 'open', attributes: { rewrites: model.prefix + from } })
  } catch (error) {
    await open.close({ status: 'abandoned' }).catch(() => undefined)
    throw error
  }
  await supersede(engine, model.prefix + from, model.prefix + to, reason)
  return { from: model.prefix + from, to: model.prefix + to, ...tally }
}

async function supersede(engine: Reprise, from: string, to: string, reason: string): Promise<void> {
  const { committer, random, worker, store } = engine.kernel
  const timeline = timelineId(from)
  for (;;) {
    const [head] = await store.head([timeline])
    if (!head) return
    const outcome = await committer.submit({
      operation: newOperation(random),
      guard: { timeline, epoch: head.epoch },
      take: { worker: await worker.register(), from: 'anyone' },
      status: 'superseded',
      attributes: { supersededBy: to, reason: reason.slice(0, 500) },
      release: true,
    })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED') throw new RepriseError(outcome.code, `${timeline}: ${outcome.reason}`)
  }
}
