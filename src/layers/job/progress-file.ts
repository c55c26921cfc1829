// Progress as JSON Lines, for export and import: other programs can read a job's progress, and a hand-written script
// can be replaced by a job without repeating its work.
//
// A line is { "key": "…", "at": 1767225600000, "version": "…", "result": … }; if history was trimmed, only the
// fingerprint is left: { "fingerprint": "24 hex digits" }.

import { timelineId } from '../../core/coordinate.ts'
import { noTimeline, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../engine/history/history.ts'
import { recover } from '../../engine/history/recover.ts'
import { hostOf } from '../../engine/host/host.ts'
import { checkName, type Engine } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { type EntryData, entry } from './entries.ts'
import { fingerprint, toHexText } from './fingerprint.ts'
import { timelinesOf } from './rounds.ts'
import { shardOf } from './source-pass.ts'
import { finishedSet, type JobState, jobFold } from './state.ts'

export interface ProgressLine {
  readonly key?: string
  readonly fingerprint?: string
  readonly at?: number
  readonly version?: string
  readonly result?: unknown
}

/** The finished keys of a job timeline in the order they were finished; a key that was processed again is repeated. */
export async function* exportProgress(rp: Engine, timeline: string): AsyncGenerator<ProgressLine> {
  const engine = hostOf(rp)
  const { kernel } = engine
  const head = await engine.head(timeline)
  if (!head) throw noTimeline(timeline)
  const lineage = await lineageOf(kernel, head)
  const floor = floorOf(lineage)
  if (floor.seq > 0) {
    const { state } = await recover(kernel, head, jobFold(), { to: floor.seq }).catch(() =>
      recover(kernel, head, jobFold()),
    )
    for (const { print } of finishedSet(state.value).prints()) yield { fingerprint: toHexText(print) }
  }
  for await (const run of readHistory(kernel, lineage, floor, head.seq)) {
    for (const each of entriesOf(kernel, run)) yield* linesOf(each.type, each.data, each.time)
  }
}

function* linesOf(type: string, data: unknown, at: number): Generator<ProgressLine> {
  if (type === 'done') {
    const { keys, versions, results } = data as EntryData['done']
    for (let i = 0; i < keys.length; i++) {
      const version = versions?.[i]
      yield { key: keys[i]!, at, ...(version && { version }), ...(results && { result: results[i] }) }
    }
  } else if (type === 'imported') {
    const { keys = [], prints = [] } = data as EntryData['imported']
    for (const key of keys) yield { key, at }
    for (const print of prints) yield { fingerprint: print, at }
  } else if (type === 'discarded') {
    for (const key of (data as EntryData['discarded']).keys) yield { key, at }
  }
}

export interface ImportProgressOptions {
  /** The field that holds the key. Default: `key`, `id`, or the whole line if it is plain text. */
  readonly key?: string
  readonly shards?: number
  /** The origin of the keys, recorded in history. */
  readonly from?: string
}

const known = namesOf<ImportProgressOptions>()('key shards from')

export interface ImportProgressReport {
  readonly lines: number
  readonly added: number
  /** The number of lines without a key. */
  readonly ignored: number
}

const keysPerEntry = 1000

/** Marks the keys of these lines as finished in the job. Idempotent. */
function isIterable(lines: unknown): boolean {
  const given = lines as Partial<AsyncIterable<string> & Iterable<string>> | null | undefined
  return typeof (given?.[Symbol.asyncIterator] ?? given?.[Symbol.iterator]) === 'function'
}

export async function importProgress(
  rp: Engine,
  job: string,
  lines: AsyncIterable<string> | Iterable<string>,
  options: ImportProgressOptions = {},
): Promise<ImportProgressReport> {
  const engine = hostOf(rp)
  checkName('job', job)
  checkOptions(`progress of ${job}`, options, known)
  const { shards = 1, from = 'a progress file' } = options
  if (!isIterable(lines))
    throw new RepriseError('INVALID_ARGUMENT', 'importProgress() requires the lines of a progress file')
  const open: OpenTimeline<JobState>[] = []
  const fold = jobFold()
  try {
    for (const id of timelinesOf(job, shards)) open.push(await engine.openTimeline(timelineId(id), fold))
    const report = { lines: 0, added: 0, ignored: 0 }
    const waiting = open.map((): { keys: string[]; prints: string[] } => ({ keys: [], prints: [] }))
    const flush = async (index: number) => {
      const { keys, prints } = waiting[index]!
      if (keys.length + prints.length === 0) return
      waiting[index] = { keys: [], prints: [] }
      const before = finishedSet(open[index]!.state).size
      const data = { ...(keys.length > 0 && { keys }), ...(prints.length > 0 && { prints }), from }
      await open[index]!.write([entry('imported', data)])
      report.added += finishedSet(open[index]!.state).size - before
    }
    for await (const line of lines) {
      if (line.trim() === '') continue
      report.lines += 1
      const found = identityOf(line, options.key)
      if (!found) {
        report.ignored += 1
        continue
      }
      const index = shards === 1 ? 0 : shardOf(found.print, shards)
      const into = waiting[index]!
      if (found.key === null) into.prints.push(toHexText(found.print))
      else into.keys.push(found.key)
      if (into.keys.length + into.prints.length >= keysPerEntry) await flush(index)
    }
    for (let index = 0; index < open.length; index++) {
      await flush(index)
      const { state } = open[index]!
      await open[index]!.write([], {
        attributes: { job, shards, done: state.done, round: state.round, dead: state.dead.size },
      })
    }
    return report
  } finally {
    for (const each of open) await each.close()
  }
}

function identityOf(
  line: string,
  field: string | undefined,
): { readonly key: string | null; readonly print: string } | null {
  const byKey = (key: string) => ({ key, print: fingerprint(key) })
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    // A plain list of keys, one per line, is a progress file too.
    return field === undefined ? byKey(line.trim()) : null
  }
  if (typeof value === 'string' || typeof value === 'number') return byKey(String(value))
  if (typeof value !== 'object' || value === null) return null
  const record = value as Record<string, unknown>
  const key = field === undefined ? (record.key ?? record.id) : record[field]
  if ((typeof key === 'string' && key !== '') || typeof key === 'number') return byKey(String(key))
  if (field === undefined && typeof record.fingerprint === 'string' && /^[0-9a-f]{24}$/.test(record.fingerprint)) {
    return { key: null, print: Buffer.from(record.fingerprint, 'hex').toString('latin1') }
  }
  return null
}
