// The table of docs/runtimes.md: reads its cells, so that a run on some runtimes keeps the columns of the others, and writes it.

interface Table {
  readonly columns: readonly string[]
  /** By row and column. */
  readonly cells: ReadonlyMap<string, ReadonlyMap<string, string>>
}

const cellsOf = (line: string) =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim())

/** The first table of a page. */
export function readTable(page: string): Table {
  const [head = '', , ...rows] = page.split('\n').filter((line) => line.startsWith('|'))
  const columns = cellsOf(head).slice(1)
  const cells = rows.map((row) => {
    const [name = '', ...values] = cellsOf(row)
    return [name, new Map(columns.map((column, i) => [column, values[i] ?? '']))] as const
  })
  return { columns, cells: new Map(cells) }
}

/** The lines of a table; a cell that neither table has is 'not run'. */
export function tableLines(columns: readonly string[], fresh: Table, kept: Table): string[] {
  const cell = (row: string, column: string) =>
    (fresh.columns.includes(column) ? fresh : kept).cells.get(row)?.get(column) ?? 'not run'
  return [
    `| check | ${columns.join(' | ')} |`,
    `|---|${columns.map(() => '---|').join('')}`,
    ...[...fresh.cells.keys()].map((row) => `| ${row} | ${columns.map((column) => cell(row, column)).join(' | ')} |`),
  ]
}
