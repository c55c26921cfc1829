// The PostgreSQL store: the port's methods, each one statement or one transaction. See docs/decisions/postgres.md.

import type { TimelineId, WorkerId } from '../../core/coordinate.ts'
import type { RepriseError } from '../../core/errors.ts'
import { checkCommit, checkTimelineQuery } from '../../core/store/argument-checks.ts'
import { mayMakeDue } from '../../core/store/due.ts'
import type {
  Blobs,
  ClaimRequest,
  Commit,
  CursorRow,
  DueQuery,
  EntryRun,
  FeedFilter,
  FeedPage,
  FeedPosition,
  Head,
  Inbox,
  ManifestRecord,
  Outcome,
  PastLife,
  RequestBox,
  Store,
  TimelineQuery,
  Upkeep,
  WorkerRecord,
  WorkerRow,
} from '../../core/store/ports.ts'
import type { SqlQuery } from '../../core/store/sql.ts'
import { postgresBlobs } from './blobs.ts'
import { commitBatch } from './commit.ts'
import { commitWithSql } from './commit-with-sql.ts'
import type { Connections } from './connect.ts'
import { settingsFailure } from './facts.ts'
import { readFeed } from './feed.ts'
import { functionName, statementMs } from './functions.ts'
import type { Bell } from './listen.ts'
import { pastOf } from './past.ts'
import type { Presence } from './presence.ts'
import { type Reading, readCatalogs, readHistories } from './read.ts'
import { PostgresRequests } from './requests.ts'
import {
  type CursorDbRow,
  type HeadRow,
  headColumns,
  headRecord,
  headTables,
  type InboxRow,
  toCursor,
  toHead,
  toInbox,
} from './rows.ts'
import type { Session } from './session.ts'
import { Together } from './statement-batcher.ts'
import { escapeText, isStorable } from './text.ts'
import { nextDueQuery, timelinesQuery } from './timelines.ts'
import { PostgresUpkeep } from './upkeep.ts'
import { queryUser } from './user-query.ts'
import { beat, listWorkers, retire } from './workers.ts'
import { type CommitPort, LastRuns } from './write.ts'

export interface StoreParts {
  readonly connections: Connections
  readonly session: Session
  readonly bell: Bell
  readonly presence: Presence
  readonly schema: string
  readonly namespace: number
  readonly namespaceName: string
  readonly location: string
  /** A server that may lose acknowledged commits is accepted. */
  readonly isRelaxed: boolean
  readonly freeze: () => Promise<Store>
}

/** A larger cache would only save an occasional slower commit. */
const lastRunsMax = 10_000

export class PostgresStore implements Store {
  readonly lanes = 2
  readonly countsCheckpoints = false
  readonly shards = null
  readonly freeze: () => Promise<Store>
  readonly blobs: Blobs
  readonly upkeep: Upkeep
  readonly requests: RequestBox
  readonly #connections: Connections
  readonly #session: Session
  readonly #bell: Bell
  readonly #presence: Presence
  readonly #s: string
  readonly #ns: number
  readonly #isRelaxed: boolean
  #notDurable: RepriseError | null = null
  readonly #port: CommitPort
  readonly #reads: Together<Reading, EntryRun[]>
  readonly #catalogs: Together<TimelineId, ManifestRecord[]>

  constructor(parts: StoreParts) {
    const { connections, session, bell, presence, schema, namespace, namespaceName, location, isRelaxed, freeze } =
      parts
    this.#isRelaxed = isRelaxed
    this.freeze = freeze
    this.#connections = connections
    this.#session = session
    this.#bell = bell
    this.#presence = presence
    this.#s = schema
    this.#ns = namespace
    this.#port = { connections, schema, namespace, lastRuns: new LastRuns(lastRunsMax) }
    this.blobs = postgresBlobs(connections, schema, namespace)
    this.upkeep = new PostgresUpkeep(connections, schema, namespace, location)
    this.requests = new PostgresRequests(connections, schema, namespace, namespaceName)
    this.#reads = new Together((requests) => readHistories(connections, schema, namespace, requests))
    this.#catalogs = new Together((requests) => readCatalogs(connections, schema, namespace, requests))
  }

  async commit(commits: readonly Commit[]): Promise<Outcome[]> {
    this.#connections.checkOpen()
    if (this.#notDurable) throw this.#notDurable
    let hasSql = false
    for (const commit of commits) {
      checkCommit(commit)
      hasSql ||= commit.userSql !== undefined
    }
    const outcomes = hasSql ? await this.#commitWithSql(commits) : await commitBatch(this.#port, commits)
    if (outcomes.some((outcome) => outcome.ok && !outcome.isDuplicate)) {
      this.#bell.ring(commits.some(mayMakeDue))
    }
    return outcomes
  }

  /** Commits between two commits with SQL share a transaction; each commit with user SQL has its own. */
  async #commitWithSql(commits: readonly Commit[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    for (let start = 0; start < commits.length; ) {
      const withSql = commits.findIndex((commit, index) => index >= start && commit.userSql)
      const end = withSql === -1 ? commits.length : withSql
      outcomes.push(...(await commitBatch(this.#port, commits.slice(start, end))))
      if (withSql !== -1) outcomes.push(await commitWithSql(this.#port, commits[withSql]!, (ids) => this.head(ids)))
      start = end + 1
    }
    return outcomes
  }

  async read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]> {
    this.#connections.checkOpen()
    if (!isStorable(timeline)) return []
    return this.#reads.answer({ timeline, after, bytesMax })
  }

  async head(timelines: readonly TimelineId[]): Promise<(Head | null)[]> {
    this.#connections.checkOpen()
    if (timelines.length === 0) return []
    const wanted = `unnest($2::text[]) k(id) CROSS JOIN LATERAL (
      SELECT x.* FROM ${this.#s}.timeline x WHERE x.ns = $1 AND x.id = k.id AND NOT x.is_stub LIMIT 1)`
    const text = `SELECT ${headColumns} FROM ${headTables(this.#s, wanted)}`
    const values = [this.#ns, timelines.filter(isStorable)]
    const rows = await this.#connections.rows<HeadRow>(text, values, 'safe', 'head')
    const found = new Map(rows.map((row) => [row.id, row]))
    return timelines.map((timeline) => {
      const row = found.get(timeline)
      return row ? toHead(row) : null
    })
  }

  async inbox(timeline: TimelineId, limit: number): Promise<Inbox> {
    this.#connections.checkOpen()
    // The statement's time is before its snapshot: everything durable by then is included. An empty inbox is one row
    // without id.
    const text = `SELECT ${statementMs} AS now, m.id, m.kind, m.data, m.sent_at FROM (VALUES (1)) AS one LEFT JOIN LATERAL (
        SELECT x.ord, x.id, x.kind, x.data, x.sent_at FROM ${this.#s}.message x
        WHERE x.tid = (SELECT tid FROM ${this.#s}.timeline WHERE ns = $1[1]::integer AND id = $1[2]) AND x.consumed_at IS NULL
        ORDER BY x.ord LIMIT $1[3]::bigint) AS m ON true ORDER BY m.ord`
    const columns = 'now double precision, id text, kind text, data bytea, sent_at double precision'
    const values = [String(this.#ns), isStorable(timeline) ? timeline : null, String(Math.max(0, limit))]
    const rows = await this.#connections.steadyRows<InboxRow>(this.#s, text, columns, values, 'inbox')
    return toInbox(rows, timeline)
  }

  async claim({ worker, queues, limit, except = [] }: ClaimRequest): Promise<Head[]> {
    this.#connections.checkOpen()
    const values = [this.#ns, escapeText(worker), queues.map(escapeText), except.filter(isStorable), Math.max(0, limit)]
    const text = `SELECT * FROM ${functionName(this.#s, 'claim')}($1, $2, $3, $4, $5)`
    const rows = await this.#connections.rows<HeadRow>(text, values, 'unsafe', 'claim')
    return rows.map(toHead)
  }

  async nextDue(query: DueQuery): Promise<number | null> {
    this.#connections.checkOpen()
    const { text, values } = nextDueQuery(this.#s, this.#ns, query)
    const columns = 'at double precision'
    const rows = await this.#connections.steadyRows<{ at: number | null }>(this.#s, text, columns, values, 'next due')
    return rows[0]!.at
  }

  async feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage> {
    this.#connections.checkOpen()
    return readFeed(this.#connections, this.#s, this.#ns, after, filter, limit)
  }

  async timelines(query: TimelineQuery): Promise<Head[]> {
    this.#connections.checkOpen()
    checkTimelineQuery(query)
    const built = timelinesQuery(this.#s, this.#ns, query)
    if (!built) return []
    const { text, values, isSteady } = built
    const rows = isSteady
      ? await this.#connections.steadyRows<HeadRow>(this.#s, text, headRecord, values, 'timelines')
      : await this.#connections.rows<HeadRow>(text, [values], 'safe', 'timelines')
    return rows.map(toHead)
  }

  async checkpoints(timeline: TimelineId): Promise<ManifestRecord[]> {
    this.#connections.checkOpen()
    if (!isStorable(timeline)) return []
    return this.#catalogs.answer(timeline)
  }

  query(query: SqlQuery): Promise<Record<string, unknown>[]> {
    return queryUser(this.#connections, this.#s, query)
  }

  async cursors(): Promise<CursorRow[]> {
    this.#connections.checkOpen()
    const text = `SELECT c.name, t.id AS owner, c.position, c.moved_at FROM ${this.#s}.cursor c
      JOIN ${this.#s}.timeline t ON t.tid = c.tid WHERE c.ns = $1 ORDER BY c.name`
    return (await this.#connections.rows<CursorDbRow>(text, [this.#ns], 'safe')).map(toCursor)
  }

  async past(timelines: readonly TimelineId[]): Promise<PastLife[]> {
    return pastOf(this.#connections, this.#s, this.#ns, timelines)
  }

  async identity(proposed?: string, replaces = false): Promise<string | null> {
    this.#connections.checkOpen()
    const read = `SELECT identity FROM ${this.#s}.namespace WHERE id = $1`
    const [found] = await this.#connections.rows<{ identity: string | null }>(read, [this.#ns], 'safe')
    const there = found?.identity ?? null
    if (proposed === undefined || (there !== null && !replaces)) return there
    const write = `UPDATE ${this.#s}.namespace SET identity = CASE WHEN $3 THEN $2 ELSE coalesce(identity, $2) END
      WHERE id = $1 RETURNING identity`
    const values = [this.#ns, proposed, replaces]
    const [now] = await this.#connections.rows<{ identity: string }>(write, values, 'safe')
    return now?.identity ?? null
  }

  async workers(): Promise<WorkerRow[]> {
    this.#connections.checkOpen()
    return listWorkers(this.#connections, this.#s, this.#ns)
  }

  async beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }> {
    this.#connections.checkOpen()
    const { ok, now, ...settings } = await beat(this.#connections, this.#s, this.#ns, worker)
    // Settings change while a server runs, and a failover connects to another server: writes are refused until the settings are
    // correct again.
    this.#notDurable = settingsFailure(settings, this.#isRelaxed)
    if (ok) this.#presence.hold(worker.id)
    else this.#presence.release([worker.id])
    return { ok, now }
  }

  async retire(workers: readonly WorkerId[]): Promise<void> {
    this.#connections.checkOpen()
    await retire(this.#connections, this.#s, this.#ns, workers)
    this.#presence.release(workers)
    this.#bell.ring(true)
  }

  listen(wake: Parameters<Store['listen']>[0]): () => void {
    this.#connections.checkOpen()
    return this.#bell.listen(wake)
  }

  async sweepMark(raiseTo?: number): Promise<number> {
    this.#connections.checkOpen()
    const read = `SELECT sweep_mark AS mark FROM ${this.#s}.namespace WHERE id = $1`
    const raise = `UPDATE ${this.#s}.namespace SET sweep_mark = greatest(sweep_mark, $2) WHERE id = $1 RETURNING sweep_mark AS mark`
    const values = raiseTo === undefined ? [this.#ns] : [this.#ns, raiseTo]
    const text = raiseTo === undefined ? read : raise
    const rows = await this.#connections.rows<{ mark: number }>(text, values, 'safe')
    return rows[0]?.mark ?? 0
  }

  async close(): Promise<void> {
    this.#bell.close()
    this.#session.close()
    await this.#connections.close()
  }
}
