// Finds the roots of our trees in a file whose list of tables is damaged. SQLite places roots in the order in which tables and
// indexes are created: ours first, as in a new file, then those of others. VACUUM recreates them all, tables before indexes;
// the number of foreign roots in between is found by trial.

import type { PageFile } from './pages.ts'

export interface SchemaObject {
  readonly type: string
  readonly name: string
  readonly table: string
  readonly root: number
  readonly sql: string | null
}

/** The second page has back-pointers. */
const firstRoot = 3
const indexKinds = [2, 10]

/** `ours` as in a new file, with the roots that fit all known facts about this one; null: no roots fit. */
export function layoutOf(
  file: PageFile,
  ours: readonly SchemaObject[],
  found: readonly SchemaObject[],
): readonly SchemaObject[] | null {
  const fits = (layout: readonly SchemaObject[]) =>
    found.every(
      (each) => each.root === 0 || layout.every(({ name, root }) => (name === each.name) === (root === each.root)),
    )
  if (fits(ours)) return ours
  // Try the largest number first: one of our trees may be taken for a foreign one, whose rows are kept; never the reverse.
  for (let others = file.roots().length - ours.length; others >= 0; others--) {
    const layout = vacuumed(ours, others)
    if (fits(layout) && layout.every((object) => isOfKind(file, object))) return layout
  }
  return null
}

function vacuumed(ours: readonly SchemaObject[], others: number): SchemaObject[] {
  // The index of a key has no statement of its own: it is created with its table.
  const isLater = ({ type, sql }: SchemaObject) => type === 'index' && sql !== null
  const early = ours.filter((object) => !isLater(object))
  const late = ours.filter(isLater)
  return [
    ...early.map((object, i) => ({ ...object, root: firstRoot + i })),
    ...late.map((object, i) => ({ ...object, root: firstRoot + early.length + others + i })),
  ]
}

function isOfKind(file: PageFile, { type, root, sql }: SchemaObject): boolean {
  const isIndex = type === 'index' || /\bWITHOUT\s+ROWID\b/i.test(sql ?? '')
  return file.roots().includes(root) && indexKinds.includes(file.page(root)![0]!) === isIndex
}
