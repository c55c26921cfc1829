// A recorded history as a file: the entries of one run in plain JSON, readable by people and by every later version.
// Values that JSON cannot represent are stored in the engine's encoding, as base64.

import { readFile, writeFile } from 'node:fs/promises'
import { timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { type Entry, entriesOf, lineageOf, reachOf, readHistory } from '../../../engine/history/history.ts'
import { TimelineState } from '../../../engine/history/state.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { read, written } from '../../../engine/storage/object-file.ts'
import { workflowFold } from '../history/fold.ts'
import type { RunState } from '../history/state.ts'

export interface RecordedEntry {
  readonly seq: number
  readonly type: string
  readonly version: number
  readonly time: number
  /** The data, if JSON can represent it. */
  readonly data?: unknown
  /** Otherwise the encoded data. */
  readonly encoded?: string
}

export interface RecordedHistory {
  readonly format: 'reprise-workflow-history/1'
  readonly timeline: string
  readonly entries: readonly RecordedEntry[]
}

/** The whole history of a run, from its start. */
export async function exportHistory(rp: Engine, timeline: string): Promise<RecordedHistory> {
  const engine = hostOf(rp)
  const id = timelineId(timeline)
  const head = await engine.head(id)
  if (!head) throw new RepriseError('NOT_FOUND', `there is no run ${timeline}`, { timeline })
  const lineage = await lineageOf(engine.kernel, head)
  const floor = await reachOf(engine.kernel, lineage)
  if (floor.seq > 0) {
    throw new RepriseError('OUT_OF_RANGE', `history of ${timeline} starts after ${floor.seq}: it was trimmed`, {
      timeline,
    })
  }
  const entries: RecordedEntry[] = []
  for await (const verified of readHistory(engine.kernel, lineage, floor, head.seq)) {
    for (const entry of entriesOf(engine.kernel, verified)) entries.push(toRecorded(engine, entry))
  }
  return { format: 'reprise-workflow-history/1', timeline, entries }
}

export async function saveHistory(rp: Engine, timeline: string, path: string): Promise<void> {
  const engine = hostOf(rp)
  const text = `${JSON.stringify(await exportHistory(engine, timeline), null, 1)}\n`
  await written(path, (file) => writeFile(file, text))
}

export async function loadHistory(path: string): Promise<RecordedHistory> {
  const malformed = (why: string, cause?: unknown) =>
    new RepriseError('MALFORMED', `${path} is not a recorded history of a workflow: ${why}`, { path }, cause)
  let history: RecordedHistory
  try {
    history = JSON.parse(await read(path, (file) => readFile(file, 'utf8'))) as RecordedHistory
  } catch (error) {
    throw error instanceof SyntaxError ? malformed('it is not JSON', error) : error
  }
  if (history?.format !== 'reprise-workflow-history/1' || !Array.isArray(history.entries))
    throw malformed('it has no entries')
  if (typeof history.timeline !== 'string') throw malformed('it does not name its timeline')
  const wrong = history.entries.findIndex((entry, i) => !isRecorded(entry, i + 1))
  if (wrong >= 0) throw malformed(`entry ${wrong + 1} is malformed`)
  return history
}

function isRecorded(entry: unknown, seq: number): entry is RecordedEntry {
  if (typeof entry !== 'object' || entry === null) return false
  const { seq: given, type, version, time, encoded } = entry as Partial<Record<keyof RecordedEntry, unknown>>
  if (given !== seq || typeof type !== 'string' || !Number.isSafeInteger(version)) return false
  return typeof time === 'number' && Number.isFinite(time) && (encoded === undefined || typeof encoded === 'string')
}

/** The state that this history folds into. */
export function stateOf(engine: Host, history: RecordedHistory): RunState {
  const state = new TimelineState<RunState>(workflowFold)
  const timeline = timelineId(history.timeline)
  state.replay(
    history.entries.map(({ seq, type, version, time, data, encoded }): Entry => {
      const decoded = encoded === undefined ? data : engine.codec.decode(new Uint8Array(Buffer.from(encoded, 'base64')))
      return { timeline, seq, epoch: 1, type, version, time, key: undefined, data: decoded }
    }),
  )
  return state.value
}

function toRecorded(engine: Host, entry: Entry): RecordedEntry {
  const { seq, type, version, time, data } = entry
  const { codec } = engine
  const encoded = codec.encode(data)
  const text = JSON.stringify(data)
  const isSame = text !== undefined && Buffer.from(codec.encode(JSON.parse(text))).equals(Buffer.from(encoded))
  return {
    ...{ seq, type, version, time },
    ...(isSame ? { data } : { encoded: Buffer.from(encoded).toString('base64') }),
  }
}
