// Corrections that a compensating event cannot express: the history of an aggregate is copied into a new one, event by
// event, through a function that may change, drop or add events. The old timeline stays unchanged, is marked as
// superseded with a pointer to the new one, and refuses further commands; the new events record their origin.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { refusalError } from '../../engine/base/refusal-error.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { checkFolding } from '../../engine/model/definition.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import type { AggregateDefinition } from './aggregate.ts'
import { supersededStatus, toEntry } from './envelope.ts'
import { type Happened, historyOf } from './history.ts'
import type { EventOf } from './types.ts'

export interface RewriteReport {
  readonly from: string
  readonly to: string
  readonly kept: number
  readonly changed: number
  readonly dropped: number
}

const entriesAtOnce = 500
const attemptsMax = 1000

/**
 * @example await rewrite(rp, account, 'ann', 'ann-2', ({ event }) => event.amount < 0 ? null : event, 'negative amounts')
 */
export async function rewrite<State, Evolve, Decide>(
  rp: Engine,
  definition: AggregateDefinition<State, Evolve, Decide>,
  from: string,
  to: string,
  map: (happened: Happened<EventOf<Evolve>>) => EventOf<Evolve> | readonly EventOf<Evolve>[] | null,
  reason: string,
): Promise<RewriteReport> {
  checkFolding(definition)
  checkFunction(map, 'rewrite()')
  const engine = hostOf(rp)
  const { model } = definition
  const target = timelineId(model.prefix + to)
  if (await engine.head(target)) throw new RepriseError('EXISTS', `there is already a timeline ${target}`, { to })
  const tally = { kept: 0, changed: 0, dropped: 0 }
  const source = timelineId(model.prefix + from)
  const open = await engine.openTimeline(target, model.fold)
  try {
    let batch: NewEntry[] = []
    const flush = async () => {
      if (batch.length > 0) await open.write(batch)
      batch = []
    }
    const copy = (happened: Happened<EventOf<Evolve>>) => {
      const mapped = map(happened)
      const events = mapped === null ? [] : Array.isArray(mapped) ? mapped : [mapped]
      if (events.length === 0) tally.dropped += 1
      else if (events.length === 1 && events[0] === happened.event) tally.kept += 1
      else tally.changed += 1
      const meta = { ...happened.meta, corrects: happened.seq, reason }
      events.forEach((event, i) => {
        batch.push({
          ...toEntry(
            model.check(event),
            event === happened.event ? happened.meta : meta,
            i === 0 ? happened.key : undefined,
          ),
          time: happened.time,
        })
      })
    }
    // Events that are written to the old aggregate during the copy are copied too: it ends exactly where the copy does.
    for (let copied = 0, isEnded = false, attempt = 1; !isEnded; attempt++) {
      const head = await engine.existing(source)
      const history = historyOf(engine, model, from, { after: copied, to: head.seq })
      for await (const happened of history as AsyncGenerator<Happened<EventOf<Evolve>>>) {
        copy(happened)
        if (batch.length >= entriesAtOnce) await flush()
      }
      await flush()
      copied = head.seq
      if (attempt === 1) await open.write([], { status: 'open', attributes: { rewrites: source } })
      isEnded = await supersede(engine, head, target, reason)
      if (!isEnded && attempt >= attemptsMax) {
        throw new RepriseError(
          'CONTENDED',
          `other processes keep writing to ${source}: repeat the rewrite when they are idle`,
          {
            timeline: source,
          },
        )
      }
    }
    await open.close()
  } catch (error) {
    await open.close({ status: 'abandoned' }).catch(() => undefined)
    throw error
  }
  return { from: source, to: target, ...tally }
}

/** Ends the aggregate at the end of the copy. Returns false if another process has written since. */
async function supersede(engine: Host, head: Head, to: string, reason: string): Promise<boolean> {
  const { worker } = engine
  const { timeline, epoch, seq, digest } = head
  const outcome = await engine.commit({
    guard: { timeline, epoch, seq, digest },
    take: { worker: await worker.register(), from: 'anyone' },
    status: supersededStatus,
    attributes: { supersededBy: to, reason: reason.slice(0, 500) },
    release: true,
  })
  if (outcome.ok) return true
  if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
  else if (outcome.code !== 'FENCED' && outcome.code !== 'CONFLICT') {
    throw refusalError(timeline, outcome)
  }
  return false
}
