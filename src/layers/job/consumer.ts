// consumer(): a job over the kernel's feed. Its progress is a named cursor; finished entries ahead of the cursor are
// kept only until the cursor has passed them, so a consumer that runs for years stays small.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { overlaps } from '../../core/history/scope.ts'
import { checkGivenOptions, checkList, checkText, namesOf } from '../../core/options.ts'
import { type Lag, lagBehind } from '../../engine/feed/feed-stream.ts'
import type { Entry } from '../../engine/history/history.ts'
import { hostOf } from '../../engine/host/host.ts'
import {
  checkDefinition,
  checkFolding,
  checkName,
  type Engine,
  type LayerHost,
  type Readable,
  reads,
  runs,
  works,
} from '../../engine/model/definition.ts'
import { enlistsItems } from '../../engine/model/enlisting.ts'
import { defineJob, type JobDefinition } from './definition.ts'
import type { ItemQueue } from './item-queue.ts'
import { type JobEach, type JobEachBatch, type JobSettings, resolveJob } from './options.ts'
import type { JobSource } from './source.ts'
import { feedSource } from './sources/feed.ts'
import { jobFold } from './state.ts'

/** The item of one source: its own type if it has one, else the stored entry. */
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
   * Definitions or ids: 'log/a' is that timeline and everything below it, 'log/' everything below `log`. An aggregate
   * yields events as its handlers see them, typed and upgraded to the current version. An id yields stored entries.
   */
  readonly from: Sources
  /** Only entries of these types, by their current names. */
  readonly types?: readonly string[]
  /** Include entries of forks. Default: false, because a fork is a trial that other consumers do not see. */
  readonly forks?: boolean
  /** Wait for more entries at the end, or finish there. Default: true. */
  readonly follow?: boolean
}

/** Entries are processed one at a time (`each`) or in batches (`eachBatch`). */
export type ConsumerOptions<Sources extends readonly From[] = readonly From[]> = ConsumerSettings<Sources> &
  (JobEach<ItemOf<Sources[number]>> | JobEachBatch<ItemOf<Sources[number]>>)

const known = namesOf<ConsumerOptions<readonly From[]>>()(
  'from types forks follow each eachBatch batch concurrency order crashesMax grace checkpoint retain retry timeout rate breaker',
)

export interface ConsumerDefinition<Item = Entry> extends JobDefinition<Item, void> {
  readonly prefixes: readonly string[]
}

/** @example consumer('mailer', { from: [account], each: async ({ event }) => mail(event) }) */
export function consumer<const Sources extends readonly From[]>(
  name: string,
  options: ConsumerOptions<Sources>,
): ConsumerDefinition<ItemOf<Sources[number]>> {
  checkName('consumer', name)
  checkGivenOptions(`consumer ${name}`, options, known, { rateLimit: 'rate' })
  const { from, types, follow = true, forks = false, checkpoint, retain, ...rest } = options
  checkList(`consumer ${name}: from`, from)
  const prefixes = from.map((each) => (typeof each === 'string' ? each : each?.prefix))
  for (const prefix of prefixes)
    checkText(`consumer ${name}: each part of from, an id or the prefix of a definition,`, prefix)
  if (prefixes.some((scope) => overlaps(scope, `job/${name}`))) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `consumer ${name} would read its own history: omit job/${name} from \`from\``,
      {
        name,
      },
    )
  }
  if (prefixes.length === 0) {
    throw new RepriseError('INVALID_ARGUMENT', `consumer ${name}: name the definitions or ids that it reads`, {
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
  }) as unknown as JobSource<Item>
  const policies = { ...(checkpoint && { checkpoint }), ...(retain && { retain }) }
  const resolved = {
    ...resolveJob<Item>(name, { ...rest, ...policies, source }),
    cursorName: cursorOf(name),
    reads: { scopes: prefixes, forks },
  }
  const fold = jobFold({ checkpoint, retain: retain ?? { history: 'needed' } })
  const definition = defineJob(name, resolved, fold, 'consumer')
  const queues = from.filter(
    (each): each is From & ItemQueue<unknown> => typeof each === 'object' && enlistsItems in each,
  )
  // Items arrive by mail, which the consumer's own processes append.
  const serve = (engine: LayerHost) => {
    for (const queue of queues) queue[works](engine)
  }
  return {
    ...definition,
    prefixes,
    async [runs](engine, input, options) {
      serve(engine)
      return await definition[runs](engine, input, options)
    },
    [works](engine) {
      serve(engine)
      definition[works](engine)
    },
  }
}

export type AnyConsumer = Pick<ConsumerDefinition, 'name' | 'prefixes' | 'timelines' | 'fold'>

export function cursorOf(name: string): string {
  return `consumer/${name}`
}

/** The lag of a consumer. */
export async function consumerLag(rp: Engine, definition: AnyConsumer): Promise<Lag> {
  const engine = hostOf(rp)
  checkFolding(definition)
  const { name, prefixes } = definition
  const row = (await engine.kernel.store.cursors()).find((cursor) => cursor.name === cursorOf(name))
  if (!row) throw new RepriseError('NOT_FOUND', `consumer ${name} has not run yet`, { name })
  return await lagBehind(engine.kernel, row.position, prefixes)
}

/**
 * Removes a consumer's hold on history: its cursor no longer keeps entries from being trimmed. If the consumer runs
 * again, it resumes at its position with the remaining history.
 * @example await releaseConsumer(rp, mailer)
 */
export async function releaseConsumer(rp: Engine, definition: AnyConsumer): Promise<void> {
  const engine = hostOf(rp)
  checkDefinition(definition, runs, 'releaseConsumer()')
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
