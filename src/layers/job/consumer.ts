// consumer(): the machinery of jobs over the kernel's feed. Its progress is a named cursor; finished entries ahead of the
// cursor are remembered only until it has passed them, so a consumer that runs for years stays small.

import { callPolicyNames } from '../../core/calls/call-policy.ts'
import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { overlaps } from '../../core/history/scope.ts'
import { checkOptions } from '../../core/options.ts'
import { type Lag, lagBehind } from '../../engine/feed/feed-stream.ts'
import type { Entry } from '../../engine/history/history.ts'
import { hostOf } from '../../engine/host/host.ts'
import { checkName, type Engine, type Readable, reads } from '../../engine/model/definition.ts'
import { defineJob, type JobDefinition } from './definition.ts'
import { type JobEach, type JobEachBatch, type JobSettings, resolveJob } from './options.ts'
import type { Source } from './source.ts'
import { feedSource } from './sources/feed.ts'
import { jobFold } from './state.ts'

/** What is given of one source: in its own form if it has one, else the entry as it is stored. */
export type ItemOf<From> = From extends Readable<infer Item> ? Item : Entry

export type From = string | { readonly prefix: string }

export interface ConsumerSettings<Sources extends readonly From[] = readonly From[]>
  extends Pick<
    JobSettings<ItemOf<Sources[number]>>,
    | 'concurrency'
    | 'order'
    | 'rate'
    | 'crashesMax'
    | 'retry'
    | 'timeout'
    | 'breaker'
    | 'grace'
    | 'checkpoint'
    | 'retain'
  > {
  /**
   * Definitions, or ids: 'log/a' is that timeline and all below it, 'log/' all below `log`. Of an aggregate, events are given as
   * its handlers see them: typed, and brought up to today's version. Of an id, entries are given as they are stored.
   */
  readonly from: Sources
  /** Only entries of these types, as they are called today. */
  readonly types?: readonly string[]
  /** Also what is written to forks; by default a fork is a trial that nobody else sees. */
  readonly forks?: boolean
  /** Wait for more at the end (the default), or finish there. */
  readonly follow?: boolean
}

/** Entries are done one by one (`each`) or several at once (`eachBatch`). */
export type ConsumerOptions<Sources extends readonly From[] = readonly From[]> = ConsumerSettings<Sources> &
  (JobEach<ItemOf<Sources[number]>> | JobEachBatch<ItemOf<Sources[number]>>)

const known = new Set([
  ...['from', 'types', 'forks', 'follow', 'each', 'eachBatch', 'batch', 'concurrency', 'order', 'crashesMax', 'grace'],
  ...['checkpoint', 'retain', ...callPolicyNames],
])

export interface ConsumerDefinition<Item = Entry> extends JobDefinition<Item, void> {
  readonly prefixes: readonly string[]
}

/** @example consumer('mailer', { from: [account], each: async ({ event }) => mail(event) }) */
export function consumer<const Sources extends readonly From[]>(
  name: string,
  options: ConsumerOptions<Sources>,
): ConsumerDefinition<ItemOf<Sources[number]>> {
  checkName('consumer', name)
  checkOptions(`consumer ${name}`, options, known, { rateLimit: 'rate' })
  const { from, types, follow = true, forks = false, checkpoint, retain, ...rest } = options
  const prefixes = from.map((each) => (typeof each === 'string' ? each : each.prefix))
  if (prefixes.some((scope) => overlaps(scope, `job/${name}`))) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `consumer ${name} would read its own history: leave job/${name} out of from`,
      {
        name,
      },
    )
  }
  if (prefixes.length === 0) {
    throw new RepriseError('INVALID_ARGUMENT', `consumer ${name}: say from which definitions or ids it reads`, {
      name,
    })
  }
  type Item = ItemOf<Sources[number]>
  const readers = from.flatMap((each) => (typeof each === 'object' && reads in each ? [each as Readable<Entry>] : []))
  const source = feedSource({
    prefixes,
    follow,
    forks,
    types: types && new Set(types),
    readers,
  }) as unknown as Source<Item>
  const policies = { ...(checkpoint && { checkpoint }), ...(retain && { retain }) }
  const resolved = {
    ...resolveJob<Item>(name, { ...rest, ...policies, source }),
    cursorName: cursorOf(name),
    reads: { scopes: prefixes, forks },
  }
  const fold = jobFold({ checkpoint, retain: retain ?? { history: 'needed' } })
  return { ...defineJob(name, resolved, fold, 'consumer'), prefixes }
}

export type AnyConsumer = Pick<ConsumerDefinition, 'name' | 'prefixes' | 'timelines' | 'fold'>

export function cursorOf(name: string): string {
  return `consumer/${name}`
}

/** How far a consumer is behind. */
export async function consumerLag(rp: Engine, definition: AnyConsumer): Promise<Lag> {
  const engine = hostOf(rp)
  const { name, prefixes } = definition
  const row = (await engine.kernel.store.cursors()).find((cursor) => cursor.name === cursorOf(name))
  if (!row) throw new RepriseError('NOT_FOUND', `consumer ${name} has not run yet`, { name })
  return await lagBehind(engine.kernel, row.position, prefixes)
}

/**
 * The consumer will not come back: its cursor no longer holds history. If it does come back, it goes on from where it was
 * with what history is left.
 * @example await releaseConsumer(rp, mailer)
 */
export async function releaseConsumer(rp: Engine, definition: AnyConsumer): Promise<void> {
  const engine = hostOf(rp)
  const id = timelineId(definition.timelines[0]!)
  if (!(await engine.head(id))) {
    throw new RepriseError('NOT_FOUND', `consumer ${definition.name} has not run yet`, { name: definition.name })
  }
  const open = await engine.openTimeline(id, definition.fold)
  try {
    await open.write([], { cursors: { [cursorOf(definition.name)]: null } })
  } finally {
    await open.close()
  }
}
