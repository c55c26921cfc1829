// The upkeep of the PostgreSQL store: the calls of tools and housekeeping.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type {
  Change,
  Inspection,
  ManifestRecord,
  PastLife,
  PastRepair,
  Rewritable,
  Rewritten,
  RunChange,
  Scrubbing,
  StoreFacts,
  StoreFault,
  Upkeep,
} from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { readFacts } from './facts.ts'
import { inspectRows } from './inspect.ts'
import { mendPasts } from './mend-pasts.ts'
import { listPasts, recall } from './past.ts'
import { mendLines, replaceRuns, rewrite } from './rewrite.ts'
import { scrub } from './scrub.ts'
import { escapeText, isStorable, unescapeText } from './text.ts'
import { tidy } from './workers.ts'

export class PostgresUpkeep implements Upkeep {
  readonly salvage = null
  readonly #connections: Connections
  readonly #s: string
  readonly #ns: number
  readonly #location: string

  constructor(connections: Connections, schema: string, namespace: number, location: string) {
    this.#connections = connections
    this.#s = schema
    this.#ns = namespace
    this.#location = location
  }

  async facts(): Promise<StoreFacts> {
    this.#connections.checkOpen()
    return readFacts(this.#connections, this.#s, this.#location)
  }

  async namespaces(): Promise<string[]> {
    const text = `SELECT name FROM ${this.#s}.namespace ORDER BY id`
    return (await this.#connections.rows<{ name: string }>(text, [], 'safe')).map(({ name }) => name)
  }

  async inspect(inspection: Inspection = {}): Promise<StoreFault[]> {
    this.#connections.checkOpen()
    return await inspectRows(this.#connections, this.#s, this.#ns, inspection)
  }

  async rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten> {
    return rewrite(this.#connections, this.#s, this.#ns, kind, change, after, limit)
  }

  async replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>> {
    return replaceRuns(this.#connections, this.#s, this.#ns, timeline, runs)
  }

  async mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }> {
    await mendLines(this.#connections, this.#s, this.#ns, timeline, lines)
    return { missing: 0 }
  }

  async hasCheckpoints(): Promise<boolean> {
    this.#connections.checkOpen()
    const text = `SELECT id FROM ${this.#s}.manifest WHERE ns = $1[1]::integer ORDER BY id LIMIT 1`
    const rows = await this.#connections.steadyRows(this.#s, text, 'id text', [String(this.#ns)], 'any manifest')
    return rows.length > 0
  }

  async consumed(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]> {
    this.#connections.checkOpen()
    const text = `SELECT id FROM ${this.#s}.message WHERE consumed_at IS NOT NULL AND id > $3
      AND tid = (SELECT tid FROM ${this.#s}.timeline WHERE ns = $1 AND id = $2) ORDER BY id LIMIT $4`
    const values = [this.#ns, isStorable(timeline) ? timeline : null, escapeText(after ?? ''), Math.max(0, limit)]
    const rows = await this.#connections.rows<{ id: string }>(text, values, 'safe', 'consumed')
    return rows.map(({ id }) => unescapeText(id) as MessageId)
  }

  async pasts(after: string | null, limit: number): Promise<PastLife[]> {
    return listPasts(this.#connections, this.#s, this.#ns, after, limit)
  }

  async recall(pasts: readonly PastLife[]): Promise<void> {
    await recall(this.#connections, this.#s, this.#ns, pasts)
  }

  async mendPasts(): Promise<PastRepair> {
    return mendPasts(this.#connections, this.#s, this.#ns)
  }

  async tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }> {
    this.#connections.checkOpen()
    return tidy(this.#connections, this.#s, this.#ns, before)
  }

  async scrub(how: Scrubbing = {}): Promise<readonly string[]> {
    this.#connections.checkOpen()
    return scrub(this.#connections, this.#s, how)
  }
}
