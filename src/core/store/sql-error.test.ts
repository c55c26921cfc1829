import { expect, it } from 'vitest'
import { withStatement } from './sql-error.ts'

const shown = (text: string) => (withStatement(new Error('no such table'), text) as Error).message

it('shows the statement behind the words of the database', () => {
  expect(shown('SELECT 1\n  FROM t')).toBe('no such table, in: SELECT 1 FROM t')
})

it('counts rows of placeholders and long lists of them, so that the rest of the statement is seen', () => {
  const rows = Array.from({ length: 300 }, () => '(?, ?, ?)').join(', ')
  expect(shown(`INSERT INTO t (a, b, c) VALUES ${rows} ON CONFLICT DO NOTHING`)).toBe(
    'no such table, in: INSERT INTO t (a, b, c) VALUES (?, ?, ?), … (300 rows) ON CONFLICT DO NOTHING',
  )
  const numbered = Array.from({ length: 40 }, (_, i) => `($${2 * i + 1}, $${2 * i + 2})`).join(',')
  expect(shown(`INSERT INTO t VALUES ${numbered}`)).toBe(
    'no such table, in: INSERT INTO t VALUES ($1, $2), … (40 rows)',
  )
  const list = Array.from({ length: 500 }, () => '?').join(', ')
  expect(shown(`SELECT a FROM t WHERE b IN (${list}) AND c = ?`)).toBe(
    'no such table, in: SELECT a FROM t WHERE b IN (?, … (500 values)) AND c = ?',
  )
  expect(shown('INSERT INTO t VALUES (?, ?)')).toBe('no such table, in: INSERT INTO t VALUES (?, ?)')
})
