// The order of facts, compared with an oracle that plays every fact at its time, one after another.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Alarm, dateMail, nextFacts } from './order-of-facts.ts'

interface Named {
  readonly name: string
}
type Mail = Named & { readonly sentAt: number }
type Bell = Named & Alarm

const mail = fc
  .array(fc.nat(20), { maxLength: 12 })
  .map((times) => times.map((sentAt, i) => ({ name: `m${i}`, sentAt })))
const bells = fc
  .array(fc.record({ at: fc.nat(20), isPassing: fc.boolean() }), { maxLength: 6 })
  .map((all) => all.map((one, i) => ({ ...one, name: `a${i}` })))

/** Plays all facts that are due, with pages of this size. */
function play(messages: readonly Mail[], alarms: readonly Bell[], now: number, pageSize: number): string[] {
  const played: string[] = []
  let unread = messages
  let set = alarms
  for (;;) {
    const page = unread.slice(0, pageSize)
    const isWhole = page.length < pageSize
    const dated = dateMail(page, now, isWhole)
    let rest = dated.messages
    let count = 0
    for (;;) {
      const next = nextFacts({ messages: rest, reach: dated.reach }, set)
      if (next.messages.length + next.alarms.length === 0) break
      expect(next.messages.length === 0 || next.alarms.length === 0).toBe(true)
      played.push(...next.messages.map(({ name }) => name), ...next.alarms.map(({ name }) => name))
      rest = rest.filter(({ message }) => !next.messages.includes(message))
      unread = unread.filter((message) => !next.messages.includes(message))
      set = set.filter((alarm) => !next.alarms.includes(alarm))
      count += 1
    }
    if (isWhole && count === 0) return played
  }
}

/** A message precedes an alarm if it was sent before the alarm's time, but never precedes the message before it. */
function oracle(messages: readonly Mail[], alarms: readonly Bell[], now: number): string[] {
  let at = Number.NEGATIVE_INFINITY
  const facts = messages.map(({ name, sentAt }) => {
    at = Math.max(at, sentAt)
    return { name, at, isMail: 1 }
  })
  const due = alarms.filter((alarm) => alarm.at <= Math.max(now, at)).map(({ name, at }) => ({ name, at, isMail: 0 }))
  return [...facts, ...due].sort((a, b) => a.at - b.at || a.isMail - b.isMail).map(({ name }) => name)
}

it('messages and alarms come in the order of their times, whatever the size of a page', () => {
  fc.assert(
    fc.property(mail, bells, fc.nat(25), fc.integer({ min: 1, max: 5 }), (messages, alarms, now, pageSize) => {
      expect(play(messages, alarms, now, pageSize)).toEqual(oracle(messages, alarms, now))
    }),
  )
})

it('an alarm waits behind mail that waits, unless it passes', () => {
  const { messages, reach } = dateMail(
    [
      { name: 'rollback', sentAt: 5 },
      { name: 'child', sentAt: 9 },
    ],
    20,
    true,
  )
  const alarms = [
    { name: 'before', at: 4, isPassing: false },
    { name: 'after', at: 8, isPassing: false },
    { name: 'attempt', at: 8, isPassing: true },
  ]
  const waits = ({ name }: Named) => name === 'rollback'
  const first = nextFacts({ messages, reach }, alarms, waits)
  expect(first.alarms.map(({ name }) => name)).toEqual(['before', 'attempt'])
  const then = nextFacts({ messages, reach }, alarms.slice(1, 2), waits)
  expect(then.messages.map(({ name }) => name)).toEqual(['child'])
  expect(nextFacts({ messages: messages.slice(0, 1), reach }, alarms.slice(1, 2), waits)).toEqual({
    messages: [],
    alarms: [],
    heldSince: 5,
  })
})
