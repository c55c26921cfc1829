// G8, one damaged place: any 4 KB page of a SQLite file (rows, an index, an inner page of a tree, the list of tables, the list
// of free pages) is overwritten. Verify names the damage; verify with `repair` rewrites the file. Afterwards each timeline is
// unchanged or was named as damaged, and user tables in the same file are unchanged. All pages: REPRISE_PAGE_SWEEP=all npx
// vitest run test/damage/page-sweep.test.ts

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { amount } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { judge, makeStore, pageBytes, removeStore } from './sweep-world.ts'

const seed = amount('REPRISE_PAGE_SEED', 1)

let whole: Buffer

beforeAll(async () => {
  whole = await makeStore()
})
afterAll(removeStore)

/** Not with one byte: that could be taken for a page without rows. */
function overwrite(bytes: Buffer, page: number): void {
  const random = randomFrom(page + 1)
  for (let i = 0; i < pageBytes; i++) bytes[page * pageBytes + i] = random.below(256)
}

function pagesToDamage(): number[] {
  const given = process.env.REPRISE_PAGE_SWEEP
  const count = whole.length / pageBytes
  if (given === 'all') return Array.from({ length: count }, (_, i) => i)
  if (given !== undefined) {
    const pages = given.split(',').map(Number)
    const beyond = pages.filter((page) => !(page < count))
    if (beyond.length > 0) throw new Error(`the file has ${count} pages, from 0: there is no ${beyond.join(', ')}`)
    return pages
  }
  const random = randomFrom(seed)
  return [0, ...Array.from({ length: 4 }, () => 1 + random.below(count - 1))]
}

describe('one damaged page of a SQLite file', () => {
  it('is repaired, or its loss is named, whatever it holds (G8)', async () => {
    const wrong: string[] = []
    for (const page of pagesToDamage()) {
      const found = await judge((bytes) => overwrite(bytes, page)).then(
        ({ wrong }) => wrong,
        (error) => [(error as Error).stack],
      )
      const lines = found.map((text) => `page ${page}: ${text}`)
      if (process.env.REPRISE_PAGE_SWEEP) for (const text of lines) console.log(text)
      wrong.push(...lines)
    }
    expect(wrong).toEqual([])
  }, 3_600_000)
})
