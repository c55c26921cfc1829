// Where our trees begin in a file whose list of tables is damaged. SQLite gives roots their places in the order in which tables
// and indexes are made: ours first, as in a new file, then those of others. VACUUM makes them all again, tables before
// indexes; how many places those of others have in between is found by trying.

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

/** `ours` as in a new file, with the roots that fit everything that is known of this one; null: none do. */
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
  // Most of them first: a tree of ours may be taken for one of others, whose rows are kept; never the other way round.
  for (let others = file.roots().length - ours.length; others >= 0; others--) {
    const layout = vacuumed(ours, others)
    if (fits(layout) && layout.every((object) => isOfKind(file, object))) return layout
  }
  return null
}

function vacuumed(ours: readonly SchemaObject[], others: number): SchemaObject[] {
  // The index of a key has no statement of its own: it is made with its table.
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
