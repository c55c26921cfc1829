// Metrics in the text format of Prometheus: counters of the engine and of this server's requests since the process started,
// and values read from the store. Values that require a scan of the store are read at most every ten seconds.

import { RepriseError } from '../core/errors.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { Events } from '../engine/base/events.ts'
import { hostOf } from '../engine/host/host.ts'
import { droppedMail } from '../engine/host/shaped-mail.ts'
import { protectionNotes } from '../engine/tools/drill/backup-notes.ts'
import { realTime, withinOrFail } from '../lib/waiting.ts'
import { failingTimelines } from '../operations/failures.ts'
import { overBudget } from '../operations/loss-budgets.ts'
import { type QueueRow, queuesOf } from '../operations/queues.ts'
import { shippingOf } from '../operations/shipping.ts'
import { describeWorkers } from '../operations/workers.ts'

const storeEveryMs = 10_000
const storeWithinMs = 2000
const secondsBuckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60]
const bytesBuckets = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]

type Labels = Readonly<Record<string, string>>

interface Family {
  readonly help: string
  readonly kind: 'counter' | 'gauge' | 'histogram'
  /** Labels that exist from the start, at zero: the first increase of a counter that appears with it is invisible. */
  readonly from?: readonly Labels[]
}

const outcomes = (...names: readonly string[]) => names.map((outcome) => ({ outcome }))

const families = {
  reprise_commits_total: { from: [{}], kind: 'counter', help: 'Commits that became durable' },
  reprise_entries_total: { from: [{}], kind: 'counter', help: 'Entries that became durable' },
  reprise_entry_bytes_total: { from: [{}], kind: 'counter', help: 'Bytes of entries that became durable' },
  reprise_commit_seconds: { kind: 'histogram', help: 'Time of one batch of commits' },
  reprise_checkpoints_total: {
    kind: 'counter',
    help: 'Checkpoints, by outcome',
    from: outcomes('published', 'failed'),
  },
  reprise_checkpoint_seconds: { kind: 'histogram', help: 'Time to take and publish a checkpoint' },
  reprise_checkpoint_stall_seconds: { kind: 'histogram', help: 'Longest time that a checkpoint blocked the process' },
  reprise_checkpoint_bytes: {
    kind: 'histogram',
    help: 'Size of a checkpoint, including chunks that it shares with others',
  },
  reprise_checkpoint_added_bytes_total: { from: [{}], kind: 'counter', help: 'Bytes that checkpoints added' },
  reprise_recoveries_total: { from: [{}], kind: 'counter', help: 'Timelines that were recovered' },
  reprise_recovery_seconds: { kind: 'histogram', help: 'Time to recover a timeline' },
  reprise_recovered_entries_total: { from: [{}], kind: 'counter', help: 'Entries that were replayed to recover' },
  reprise_drills_total: { kind: 'counter', help: 'Drills, by outcome', from: outcomes('ok', 'failed') },
  reprise_drill_seconds: { kind: 'histogram', help: 'Time of a drill' },
  reprise_drilled_at_seconds: { kind: 'gauge', help: 'When the last drill ended, by outcome; seconds since 1970' },
  reprise_fenced_total: { from: [{}], kind: 'counter', help: 'Timelines that another owner took over' },
  reprise_store_retries_total: { from: [{}], kind: 'counter', help: 'Commits that were retried' },
  reprise_problems_total: { from: [{}], kind: 'counter', help: 'Problems that were reported' },
  reprise_dropped_messages_total: {
    from: [{}],
    kind: 'counter',
    help: 'Messages that their receiver could not use and dropped',
  },
  reprise_http_requests_total: { kind: 'counter', help: 'Requests, by route and status' },
  reprise_http_request_seconds: { kind: 'histogram', help: 'Time to answer a request' },
  reprise_cache_events_total: { kind: 'counter', help: 'Hits and misses that build tools reported, by level' },
  reprise_cache_lookups_total: {
    kind: 'counter',
    help: 'Artifacts that build tools requested, by protocol and outcome',
  },
  reprise_memo_lookups_total: {
    kind: 'counter',
    help: 'Lookups of memos in this process, by memo and level',
  },
  reprise_tier_requests_total: { kind: 'counter', help: 'Requests to object stores by this process, by tier and kind' },
  reprise_tier_bytes_total: { kind: 'counter', help: 'Bytes to and from object stores, by tier and direction' },
  reprise_http_streams: { from: [{}], kind: 'gauge', help: 'Clients that follow the feed' },
  reprise_store_up: { kind: 'gauge', help: '1: the store answered its last request; 0: it did not' },
  reprise_failing_timelines: { kind: 'gauge', help: 'Timelines whose work does not advance, by kind' },
  reprise_workers: { kind: 'gauge', help: 'Workers, by state' },
  reprise_queue_timelines: { kind: 'gauge', help: 'Timelines of a queue, by state' },
  reprise_queue_oldest_seconds: { kind: 'gauge', help: 'How long the longest overdue timeline of a queue has waited' },
  reprise_recovery_point_age_seconds: {
    kind: 'gauge',
    help: 'Age of the last checkpoint that this process published; absent before the first',
  },
  reprise_shard_clock_ahead_seconds: {
    kind: 'gauge',
    help: 'How far the clock of a shard is ahead of the slowest one',
  },
  reprise_shipping_lag_seconds: {
    kind: 'gauge',
    help: 'Age of the oldest commit that is not shipped yet; 0 if all are shipped, absent without shipping',
  },
  reprise_late_cut_schedules: { from: [{}], kind: 'gauge', help: 'Schedules without a complete cut for two intervals' },
  reprise_shipping_positions_behind: { kind: 'gauge', help: 'Positions of the feed that are not shipped yet' },
  reprise_loss_over_budget_timelines: {
    kind: 'gauge',
    help: 'Timelines whose loss budget (loseAtMost) is currently exceeded',
  },
  reprise_backup_at_seconds: {
    kind: 'gauge',
    help: 'The time of the data in the newest backup, in seconds since 1970; 0: never backed up',
  },
  reprise_backup_lose_at_most_seconds: {
    kind: 'gauge',
    help: 'The declared maximum age of the newest backup; absent if none was declared',
  },
  reprise_copy_drill_failed: {
    kind: 'gauge',
    help: '1: the last drill of a copy of the store failed, by kind of copy; 0: it succeeded; absent: no drill',
  },
} as const satisfies Record<string, Family>

type Name = keyof typeof families

/** The names of all metrics, for files that refer to them. */
export const metricNames = Object.keys(families) as readonly Name[]

export class Metrics {
  readonly #values = new Map<Name, Map<string, number>>()
  readonly #histograms = new Map<Name, Histogram>()
  /** Labels of requests by route and status, formatted once. */
  readonly #labels = new Map<string, string>()
  readonly #now: () => number
  readonly #offs: (() => void)[]
  #publishedAt: number | null = null
  #store: { readonly at: number; readonly lines: Promise<void> } | null = null

  constructor(events: Events, now: () => number) {
    this.#now = now
    this.#offs = this.#listen(events)
    for (const [name, { kind, from = [] }] of Object.entries(families) as [Name, Family][]) {
      for (const labels of from) this.#of(name).set(textOf(labels), 0)
      if (kind === 'histogram') this.#histogram(name)
    }
  }

  add(name: Name, by = 1, labels: Labels = {}): void {
    const key = textOf(labels)
    const values = this.#of(name)
    values.set(key, (values.get(key) ?? 0) + by)
  }

  set(name: Name, value: number, labels: Labels = {}): void {
    this.#of(name).set(textOf(labels), value)
  }

  observe(name: Name, value: number): void {
    this.#histogram(name).observe(value)
  }

  /** Records a response; `seconds` null: a stream, whose duration is not recorded. */
  answered(id: string, status: number, seconds: number | null): void {
    const which = `${id} ${status}`
    let labels = this.#labels.get(which)
    if (labels === undefined) {
      labels = textOf({ route: id, status: String(status) })
      this.#labels.set(which, labels)
    }
    const values = this.#of('reprise_http_requests_total')
    values.set(labels, (values.get(labels) ?? 0) + 1)
    if (seconds !== null) this.observe('reprise_http_request_seconds', seconds)
  }

  async write(engine: Reprise): Promise<string> {
    const at = this.#now()
    if (!this.#store || at - this.#store.at > storeEveryMs) this.#store = { at, lines: this.#lookAtStore(engine) }
    await this.#store.lines
    this.#tiers(engine)
    if (this.#publishedAt !== null) {
      this.set('reprise_recovery_point_age_seconds', Math.max(0, at - this.#publishedAt) / 1000)
    }
    const text: string[] = []
    for (const [name, { kind, help }] of Object.entries(families) as [Name, Family][]) {
      const [values, histogram] = [this.#values.get(name), this.#histograms.get(name)]
      if (!values && !histogram) continue
      text.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`)
      for (const [labels, value] of values ?? []) text.push(`${name}${labels && `{${labels}}`} ${value}`)
      if (histogram) text.push(...histogram.lines(name))
    }
    return `${text.join('\n')}\n`
  }

  close(): void {
    for (const off of this.#offs) off()
  }

  #histogram(name: Name): Histogram {
    const known = this.#histograms.get(name)
    if (known) return known
    const made = new Histogram(name === 'reprise_checkpoint_bytes' ? bytesBuckets : secondsBuckets)
    this.#histograms.set(name, made)
    return made
  }

  #of(name: Name): Map<string, number> {
    const values = this.#values.get(name) ?? new Map<string, number>()
    this.#values.set(name, values)
    return values
  }

  #listen(events: Events): (() => void)[] {
    return [
      events.on('committed', ({ commits, entries, bytes, ms }) => {
        this.add('reprise_commits_total', commits)
        this.add('reprise_entries_total', entries)
        this.add('reprise_entry_bytes_total', bytes)
        this.observe('reprise_commit_seconds', ms / 1000)
      }),
      events.on('checkpoint-published', ({ addedBytes, totalBytes, ms, longestStallMs }) => {
        this.#publishedAt = this.#now()
        this.add('reprise_checkpoints_total', 1, { outcome: 'published' })
        this.add('reprise_checkpoint_added_bytes_total', addedBytes)
        this.observe('reprise_checkpoint_bytes', totalBytes)
        this.observe('reprise_checkpoint_seconds', ms / 1000)
        this.observe('reprise_checkpoint_stall_seconds', longestStallMs / 1000)
      }),
      events.on('checkpoint-failed', () => this.add('reprise_checkpoints_total', 1, { outcome: 'failed' })),
      events.on('recovered', ({ report }) => {
        this.add('reprise_recoveries_total')
        this.add('reprise_recovered_entries_total', report.entriesReplayed)
        this.observe('reprise_recovery_seconds', report.totalMs / 1000)
      }),
      events.on('drilled', ({ ok, ms }) => {
        const outcome = ok ? 'ok' : 'failed'
        this.add('reprise_drills_total', 1, { outcome })
        this.observe('reprise_drill_seconds', ms / 1000)
        this.set('reprise_drilled_at_seconds', Math.round(this.#now() / 1000), { outcome })
      }),
      events.on('fenced', () => this.add('reprise_fenced_total')),
      events.on('store-retry', () => this.add('reprise_store_retries_total')),
      events.on('problem', () => this.add('reprise_problems_total')),
      events.on('report', ({ kind }) => kind === droppedMail && this.add('reprise_dropped_messages_total')),
    ]
  }

  /**
   * While the store is unavailable, its last values are kept, and `reprise_store_up` is 0: the page of figures is always
   * answered.
   */
  async #lookAtStore(engine: Reprise): Promise<void> {
    const late = () => new RepriseError('STORE_UNREACHABLE', 'the store did not answer in time', {})
    const isUp = await withinOrFail(realTime, storeWithinMs, this.#askStore(engine), late).then(
      () => true,
      () => false,
    )
    this.set('reprise_store_up', isUp ? 1 : 0)
  }

  async #askStore(engine: Reprise): Promise<void> {
    const [{ workers }, queues, failing] = await Promise.all([
      describeWorkers(engine),
      queuesOf(engine),
      failingTimelines(engine),
    ])
    this.#values.delete('reprise_failing_timelines')
    for (const { kind, unfinished } of hostOf(engine).models.all()) {
      if (unfinished) this.set('reprise_failing_timelines', 0, { kind })
    }
    for (const { kind } of failing) this.add('reprise_failing_timelines', 1, { kind: kind ?? 'unknown' })
    const stuck = workers.filter(({ isStuck }) => isStuck).length
    this.set('reprise_workers', workers.length - stuck, { state: 'alive' })
    this.set('reprise_workers', stuck, { state: 'stuck' })
    // The values of a removed queue must not remain.
    this.#values.delete('reprise_queue_timelines')
    this.#values.delete('reprise_queue_oldest_seconds')
    const now = hostOf(engine).now()
    for (const row of queues) this.#queue(row, now)
    for (const { shard, aheadMs } of (await engine.facts()).clocks ?? []) {
      this.set('reprise_shard_clock_ahead_seconds', aheadMs / 1000, { shard: String(shard) })
    }
    const late = (await engine.groups.schedules()).filter(({ isLate }) => isLate)
    this.set('reprise_late_cut_schedules', late.length)
    await this.#askProtection(engine)
    this.set('reprise_loss_over_budget_timelines', await overBudget(engine))
    const shipping = await shippingOf(engine)
    if (!shipping) return
    const lagMs = shipping.behind === 0 ? 0 : this.#now() - (shipping.safeAt ?? shipping.updatedAt)
    this.set('reprise_shipping_lag_seconds', Math.max(0, lagMs) / 1000)
    this.set('reprise_shipping_positions_behind', shipping.behind)
  }

  async #askProtection(engine: Reprise): Promise<void> {
    const { kernel } = hostOf(engine)
    const { backup, archive, drills } = await protectionNotes(kernel)
    const backedUpAt = Math.max(backup?.moment ?? backup?.at ?? 0, archive?.moment ?? 0)
    this.set('reprise_backup_at_seconds', Math.floor(backedUpAt / 1000))
    if (backup?.loseAtMostMs) this.set('reprise_backup_lose_at_most_seconds', backup.loseAtMostMs / 1000)
    for (const [kind, { ok }] of Object.entries(drills)) this.set('reprise_copy_drill_failed', ok ? 0 : 1, { kind })
  }

  /** The requests that object stores charge for. */
  #tiers(engine: Reprise): void {
    for (const { tier, requests } of hostOf(engine).kernel.tiers.requests()) {
      const { puts, gets, lists, deletes, retries, hedges, bytesOut, bytesIn } = requests
      for (const [kind, count] of Object.entries({ puts, gets, lists, deletes, retries, hedges })) {
        this.set('reprise_tier_requests_total', count, { tier, kind })
      }
      this.set('reprise_tier_bytes_total', bytesOut, { tier, direction: 'out' })
      this.set('reprise_tier_bytes_total', bytesIn, { tier, direction: 'in' })
    }
  }

  #queue({ queue, timelines, running, due, oldestAt }: QueueRow, now: number): void {
    const states = { running, due, waiting: timelines - running - due }
    for (const [state, count] of Object.entries(states)) this.set('reprise_queue_timelines', count, { queue, state })
    const age = oldestAt === null ? 0 : Math.max(0, now - oldestAt) / 1000
    this.set('reprise_queue_oldest_seconds', age, { queue })
  }
}

/** Counts each value in its smallest bucket; the counts are accumulated only for output. */
class Histogram {
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #count = 0
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = bounds.map(() => 0)
  }

  observe(value: number): void {
    this.#count += 1
    this.#sum += value
    const at = this.#bounds.findIndex((bound) => value <= bound)
    if (at !== -1) this.#counts[at]! += 1
  }

  lines(name: string): string[] {
    let sum = 0
    const buckets = this.#bounds.map((bound, i) => {
      sum += this.#counts[i]!
      return `${name}_bucket{le="${bound}"} ${sum}`
    })
    const whole = [`${name}_bucket{le="+Inf"} ${this.#count}`, `${name}_count ${this.#count}`]
    return [...buckets, ...whole, `${name}_sum ${this.#sum}`]
  }
}

function textOf(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',')
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
