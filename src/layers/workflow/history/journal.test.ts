import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Item } from './entries.ts'
import { appended, itemsOf, type Journal, journalOf, journalUpTo } from './journal.ts'

const timer = (seq: number): Item => ({ kind: 'timer', id: `t${seq}`, at: seq, seq })

describe('a journal', () => {
  it('is a value: an append to an older one leaves all others unchanged', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 60 }), (picks) => {
        const journals: { readonly journal: Journal; readonly expected: readonly Item[] }[] = [
          { journal: journalOf([]), expected: [] },
        ]
        for (const [i, pick] of picks.entries()) {
          const { journal, expected } = journals[pick % journals.length]!
          const item = timer(i)
          journals.push({ journal: appended(journal, item), expected: [...expected, item] })
        }
        for (const { journal, expected } of journals) expect(itemsOf(journal)).toEqual(expected)
      }),
    )
  })

  it('goes back to before an outcome, and without the mail that came after a sequence', () => {
    const signal: Item = { kind: 'signal', name: 's', value: 1, at: 2, seq: 2 }
    const journal = journalOf([timer(1), signal, timer(3), timer(4)])
    expect(itemsOf(journalUpTo(journal, 't3'))).toEqual([timer(1), signal])
    expect(itemsOf(journalUpTo(journal, 't3', 1))).toEqual([timer(1)])
    expect(journalUpTo(journal, 'unknown')).toBe(journal)
  })
})
