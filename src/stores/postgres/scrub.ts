// Deleted bytes, and where they may remain. VACUUM frees them for reuse, and only rewriting a table (VACUUM FULL, which
// locks it meanwhile) removes them from its file. Copies that the server keeps beside its tables are outside of our
// control.

import { isReprise } from '../../core/errors.ts'
import type { Scrubbing } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'

/** Places that no statement of the store clears. */
export const keepsErased = ["the server's write-ahead log until it is recycled, its replicas' and its archives"]

const tables = ['run', 'message', 'manifest', 'cursor', 'chunk', 'timeline']

export async function scrub(connections: Connections, s: string, how: Scrubbing): Promise<readonly string[]> {
  const isRewritten = how.whole && how.mayLock
  const left: string[] = []
  for (const table of tables) {
    try {
      await connections.rows(`VACUUM ${isRewritten ? '(FULL)' : ''} ${s}.${table}`, [], 'unsafe')
    } catch (error) {
      if (!isReprise(error)) throw error
      left.push(`the table ${s}.${table} was not vacuumed (${error.message})`)
    }
  }
  if (!isRewritten)
    left.push(
      'pages of the tables, until they are used again: VACUUM FULL rewrites them, and locks them during that time',
    )
  return [...left, ...keepsErased]
}
