import { describe, expect, it } from 'vitest'
import { eachPage, eachRow } from './each-page.ts'

function listOf(count: number) {
  const asked: (number | undefined)[] = []
  const read = (last: number | undefined, limit: number) => {
    asked.push(last)
    const from = (last ?? 0) + 1
    return Array.from({ length: Math.min(limit, Math.max(0, count - from + 1)) }, (_, i) => from + i)
  }
  return { asked, read }
}

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const row of rows) found.push(row)
  return found
}

describe('a list in pages', () => {
  it('has every row once, for every length around a page', async () => {
    for (let count = 0; count <= 7; count++) {
      expect(await all(eachRow(listOf(count).read, 3))).toEqual(Array.from({ length: count }, (_, i) => i + 1))
    }
  })

  it('ends with the first page that is not full, and reads each page once', async () => {
    const { asked, read } = listOf(7)
    expect(await all(eachPage(read, 3))).toEqual([[1, 2, 3], [4, 5, 6], [7]])
    expect(asked).toEqual([undefined, 3, 6])
  })

  it('reads no page before it is requested', async () => {
    const { asked, read } = listOf(100)
    for await (const row of eachRow(read, 3)) if (row === 3) break
    expect(asked).toEqual([undefined])
  })
})
