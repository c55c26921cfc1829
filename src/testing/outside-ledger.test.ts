import { expect, it } from 'vitest'
import { OutsideLedger } from './outside-ledger.ts'

it('names intents that were done under several keys, whatever the order of their fields', () => {
  const ledger = new OutsideLedger()
  ledger.receive('a', { charge: 'ann', amount: 5 })
  ledger.receive('b', { amount: 5, charge: 'ann' })
  ledger.receive('b', { amount: 5, charge: 'ann' })
  ledger.receive('c', { charge: 'ann', amount: 6 })
  ledger.receive('d', { amount: 5, charge: 'ann' })
  ledger.receive('e', { zero: 0 })
  ledger.receive('f', { zero: -0 })
  const twice = { charge: 'ann', amount: 5 }
  expect(ledger.repeated).toEqual([twice, twice])
})

it('compares each of many intents with few others', () => {
  const ledger = new OutsideLedger()
  let reads = 0
  for (let i = 0; i < 500; i++) {
    ledger.receive(`key ${i}`, {
      get seen() {
        reads += 1
        return i
      },
    })
  }
  reads = 0
  expect(ledger.repeated).toEqual([])
  expect(reads).toBeLessThan(5000)
})
