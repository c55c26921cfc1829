// A table with a head, a name for screen readers, and right-aligned numbers.

import type { ComponentChildren } from 'preact'

export interface TableRow {
  readonly key: string
  readonly cells: readonly ComponentChildren[]
}

/** A head that begins with > is for numbers, aligned right. One that begins with . is for screen readers only. */
export function Table({ name, heads, rows }: { name: string; heads: readonly string[]; rows: readonly TableRow[] }) {
  const isRight = heads.map((head) => head.startsWith('>'))
  return (
    <div class="table-wrap">
      <table>
        <caption class="sr">{name}</caption>
        <thead>
          <tr>
            {heads.map((head, i) => (
              <th key={head} scope="col" class={isRight[i] ? 'right' : ''}>
                {head.startsWith('.') ? <span class="sr">{head.slice(1)}</span> : head.replace('>', '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells }) => (
            <tr key={key}>
              {cells.map((cell, i) => (
                <td key={heads[i]} class={isRight[i] ? 'right nowrap' : ''}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
