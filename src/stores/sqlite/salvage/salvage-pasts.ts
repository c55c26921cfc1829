// Salvages the lives of forgotten ids: each row from the table or from its copy, whichever is intact. If a row is in neither,
// its id is unknown: every id without a row then starts far above, so that no key of an earlier life is reused.

import { raisedLives } from '../../../core/limits.ts'
import type { SqlRow } from '../file/driver.ts'
import { columnNames, copiedColumns, recall } from '../rows/past.ts'
import { isIntact } from '../rows/row-checksum.ts'
import type { Salvage } from './salvage-io.ts'

const table = 'reprise_past'
const copy = 'reprise_past_copy'

export function salvagePasts(work: Salvage): void {
  const { from, to, options } = work
  const known = new Set<string>()
  let highest = 0
  const note = (row: SqlRow) => {
    if (!isIntact(row, columnNames)) return
    const [space, name, life, epoch, forgottenAt] = columnNames.map((column) => row[column])
    known.add(JSON.stringify([space, name]))
    highest = Math.max(highest, life as number)
    recall(to, space as number, {
      name: name as string,
      life: life as number,
      epoch: epoch as number,
      forgottenAt: forgottenAt as number,
    })
  }
  for (const row of from.rows(table)) note(row)
  for (const { values } of from.raw(copy)) {
    note(Object.fromEntries(copiedColumns.map((column, i) => [column, values[i] ?? null])))
  }
  const isThere = (name: string) => from.objects.some((object) => object.name === name)
  const isListed = (name: string) => isThere(name) && !from.isBad(name) && [...from.raw(name)].length <= known.size
  if (isListed(table) || isListed(copy) || !isThere(table)) return
  const life = highest + raisedLives
  for (const { id } of to.all('SELECT id FROM reprise_space')) {
    recall(to, id as number, { name: '', life, epoch: 0, forgottenAt: options.now })
  }
  const what = `lives of deleted ids are lost: an id without one starts above life ${life}, so that no earlier key returns`
  work.lost.push({ timeline: null, where: table, what })
}
