// Histories and catalogs of many timelines, in one statement each.

import type { TimelineId } from '../../core/coordinate.ts'
import type { EntryRun, ManifestRecord } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { functionName } from './functions.ts'
import { type ManifestRow, type RunRow, toManifest, toRun } from './rows.ts'

export interface Reading {
  readonly timeline: TimelineId
  readonly after: number
  readonly bytesMax: number
}

/** Shared by all timelines of one read, so that many long histories do not fill the memory. Each gets at least one run. */
const bytesTogether = 16 * 1024 * 1024

export async function readHistories(
  connections: Connections,
  s: string,
  ns: number,
  requested: readonly Reading[],
): Promise<EntryRun[][]> {
  const share = requested.length === 1 ? Number.POSITIVE_INFINITY : bytesTogether / requested.length
  const values = [
    ns,
    requested.map(({ timeline }) => timeline),
    requested.map(({ after }) => after),
    requested.map(({ bytesMax }) => Math.min(bytesMax, share)),
  ]
  const text = `SELECT * FROM ${functionName(s, 'read')}($1, $2, $3, $4)`
  return byAsker(requested.length, await connections.rows<Numbered<RunRow>>(text, values, 'safe', 'read'), toRun)
}

export async function readCatalogs(
  connections: Connections,
  s: string,
  ns: number,
  requested: readonly TimelineId[],
): Promise<ManifestRecord[][]> {
  const text = `SELECT * FROM ${functionName(s, 'catalogs')}($1, $2)`
  const rows = await connections.rows<Numbered<ManifestRow>>(text, [ns, requested], 'safe', 'checkpoints')
  return byAsker(requested.length, rows, toManifest)
}

/** `n`: the number of the request that the row answers, from 1. */
type Numbered<Row> = Row & { readonly n: number }

function byAsker<Row, Value>(count: number, rows: readonly Numbered<Row>[], toValue: (row: Row) => Value): Value[][] {
  const answers: Value[][] = Array.from({ length: count }, () => [])
  for (const row of rows) answers[row.n - 1]!.push(toValue(row))
  return answers
}
