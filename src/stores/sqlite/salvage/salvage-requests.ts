// Salvages requests of applications: a row that two of its three places agree on is the original (rows/request-copies.ts). A
// request without such a row is reported as lost.

import type { SqlRow } from '../file/driver.ts'
import { agreed, copiedColumns, copyNames } from '../rows/request-copies.ts'
import type { Salvage } from './salvage-io.ts'

const table = 'reprise_request'
const insert = `INSERT OR IGNORE INTO ${table} (${copiedColumns.join(', ')}) VALUES (${copiedColumns.map(() => '?').join(', ')})`

export function salvageRequests(work: Salvage): void {
  const { from, to, lost } = work
  const trees = [table, ...copyNames].filter((name) => from.objects.some((object) => object.name === name))
  const places =
    trees.length > copyNames.length ? [rowsIn(work), ...copyNames.map((name) => copiesIn(work, name))] : [rowsIn(work)]
  const isUnread = trees.some((name) => from.isBad(name))
  for (const number of new Set(places.flatMap((place) => [...place.keys()]))) {
    const found = places.map((place) => place.get(number) ?? null)
    const row = agreed(found)
    if (row) to.run(insert, ...copiedColumns.map((column) => row[column] ?? null))
    // A number that one place alone has is a damaged number, unless a page of another place cannot be read.
    else if (row === undefined || isUnread)
      lost.push({ timeline: null, where: 'requests', what: nameOf(number, found) })
  }
  // A file of an older version has one copy of each request.
  if (places.length === 1 && isUnread) {
    lost.push({ timeline: null, where: 'requests', what: 'requests of applications on the damaged pages are lost' })
  }
}

function nameOf(number: number, found: readonly (SqlRow | null)[]): string {
  const row = found.find((each) => each !== null)!
  const what = [row.verb, row.target, row.id].map(String).join(' ').slice(0, 200)
  return `request ${number} is lost: no two of its copies are equal (one of them: ${what})`
}

function rowsIn({ from }: Salvage): Map<number, SqlRow> {
  const rows = [...from.rows(table)].map((row) => copiedColumns.map((column) => [column, row[column] ?? null] as const))
  return byNumber(rows.map((columns) => Object.fromEntries(columns)))
}

function copiesIn({ from }: Salvage, name: string): Map<number, SqlRow> {
  const rows = [...from.raw(name)].filter(({ values }) => values.length >= copiedColumns.length)
  return byNumber(
    rows.map(({ values }) => Object.fromEntries(copiedColumns.map((column, i) => [column, values[i] ?? null]))),
  )
}

/** Rows whose columns have their types. */
function byNumber(rows: readonly SqlRow[]): Map<number, SqlRow> {
  const isShaped = ({ number, namespace, verb, target, id }: SqlRow) =>
    Number.isSafeInteger(number) && [namespace, verb, target, id].every((text) => typeof text === 'string')
  return new Map(rows.filter(isShaped).map((row) => [row.number as number, row]))
}
