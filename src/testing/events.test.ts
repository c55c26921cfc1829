// Tests of the kit itself: it passes correct expectations and, above all, fails wrong ones.

import { describe, expect, it } from 'vitest'
import { aggregate, checked, Refused, type StandardSchema } from '../layers/events/index.ts'
import { given } from './events.ts'

const positive: StandardSchema<{ amount: number }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) => {
      const { amount } = value as { amount?: unknown }
      return typeof amount === 'number' && amount > 0
        ? { value: { amount } }
        : { issues: [{ message: 'must be positive', path: ['amount'] }] }
    },
  },
}

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: {
    deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }),
    withdrawn: (s, e: { amount: number }) => ({ balance: s.balance - e.amount }),
  },
  decide: {
    deposit: checked(positive, (_s: { balance: number }, c) => ({ type: 'deposited' as const, amount: c.amount })),
    withdraw: (s, c: { amount: number }) => {
      if (s.balance < c.amount) throw new Refused('insufficient funds', { balance: s.balance })
      return { type: 'withdrawn', amount: c.amount }
    },
    look: () => undefined,
  },
})

describe('given, when, then', () => {
  it('folds the given events, decides, and compares', () => {
    given(account, { type: 'deposited', amount: 10 })
      .and({ type: 'withdrawn', amount: 3 })
      .when('withdraw', { amount: 7 })
      .thenEvents({ type: 'withdrawn', amount: 7 })
      .thenState({ balance: 0 })
    given(account).when('withdraw', { amount: 1 }).thenRefused('insufficient')
    given(account).when('look').thenNothing()
    expect(given(account, { type: 'deposited', amount: 2 }).state).toEqual({ balance: 2 })
  })

  it('fails when something else happens', () => {
    const when = given(account, { type: 'deposited', amount: 10 }).when('withdraw', { amount: 7 })
    expect(() => when.thenEvents({ type: 'withdrawn', amount: 8 })).toThrow('but the decision was')
    expect(() => when.thenEvents()).toThrow('but the decision was')
    expect(() => when.thenNothing()).toThrow('expected nothing')
    expect(() => when.thenState({ balance: 4 })).toThrow('the state is')
    expect(() => when.thenRefused()).toThrow('expected a refusal')
    const refused = given(account).when('withdraw', { amount: 1 })
    expect(() => refused.thenEvents()).toThrow('insufficient')
    expect(() => refused.thenRefused('another')).toThrow('another reason')
  })

  it('checks commands against their schema', () => {
    expect(() => given(account).when('deposit', { amount: -1 }).thenNothing()).toThrow('amount: must be positive')
    given(account).when('deposit', { amount: 1 }).thenEvents({ type: 'deposited', amount: 1 })
  })
})
