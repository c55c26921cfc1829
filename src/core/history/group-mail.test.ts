// The mail of a restored group, compared with a model: random histories of senders and readers, with mail from outside, and
// either a cut at a random moment or the recovery line of checkpoints that every member took alone.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type MailKey, planMail } from './group-mail.ts'
import { type Exchange, isConsistent, recoveryLine } from './recovery-line.ts'

type Sent = Exchange & { receivedSeq: number | null }

interface World {
  readonly names: readonly string[]
  readonly seq: Record<string, number>
  readonly checkpoints: Record<string, number[]>
  readonly sent: Sent[]
  readonly outside: { id: string; to: string; receivedSeq: number | null }[]
  readonly inbox: Record<string, string[]>
  readonly cut: { at: Record<string, number>; mail: MailKey[] }
}

const steps = fc.array(
  fc.tuple(fc.nat(3), fc.constantFrom('send', 'receive', 'outside', 'work', 'checkpoint'), fc.nat(3)),
  { maxLength: 60 },
)

const worlds: fc.Arbitrary<World> = fc
  .tuple(fc.integer({ min: 1, max: 4 }), steps, fc.nat(60))
  .map(([count, all, cutAt]) => {
    const names = Array.from({ length: count }, (_, i) => `p${i}`)
    const world: World = {
      names,
      seq: Object.fromEntries(names.map((name) => [name, 0])),
      checkpoints: Object.fromEntries(names.map((name) => [name, []])),
      sent: [],
      outside: [],
      inbox: Object.fromEntries(names.map((name) => [name, []])),
      cut: { at: {}, mail: [] },
    }
    all.forEach((step, i) => {
      if (i === Math.min(cutAt, all.length - 1)) cutNow(world)
      takeStep(world, step, i)
    })
    if (all.length === 0) cutNow(world)
    return world
  })

function cutNow(world: World): void {
  Object.assign(world.cut.at, world.seq)
  for (const to of world.names) for (const id of world.inbox[to]!) world.cut.mail.push({ to, id })
}

function takeStep(world: World, [who, what, other]: [number, string, number], i: number): void {
  const name = world.names[who % world.names.length]!
  const to = world.names[other % world.names.length]!
  const id = `m${i}`
  if (what === 'outside') {
    world.outside.push({ id, to, receivedSeq: null })
    world.inbox[to]!.push(id)
    return
  }
  world.seq[name]! += 1
  const at = world.seq[name]!
  if (what === 'checkpoint') world.checkpoints[name]!.push(at)
  if (what === 'send') {
    world.sent.push({ id, from: name, sentSeq: at, to, receivedSeq: null })
    world.inbox[to]!.push(id)
  }
  const next = what === 'receive' ? world.inbox[name]!.shift() : undefined
  for (const one of [...world.sent, ...world.outside]) if (one.id === next && one.to === name) one.receivedSeq = at
}

/** The mail in the inboxes after the plan was carried out. */
function left({ inbox, names }: World, { drop, again }: { drop: readonly MailKey[]; again: readonly MailKey[] }) {
  const isDropped = (to: string, id: string) => drop.some((mail) => mail.to === to && mail.id === id)
  const kept = names.flatMap((to) => inbox[to]!.filter((id) => !isDropped(to, id)).map((id) => `${to} ${id}`))
  return [...kept, ...again.map(({ to, id }) => `${to} ${id}`)].sort()
}

const unreadOf = ({ names, inbox }: World) => names.flatMap((to) => inbox[to]!.map((id) => ({ to, id })))

describe('A3.5 mail of a group that goes back', () => {
  it('to a cut: each message that was in flight waits once, and none that was sent after it by a member', () => {
    fc.assert(
      fc.property(worlds, fc.array(fc.nat(3)), (world, slow) => {
        const { at, mail } = world.cut
        const reordered = new Set(slow.map((n) => `p${n}`))
        const plan = planMail({ at, exchanges: world.sent, unread: unreadOf(world), captured: mail, reordered })
        const isPending = (one: { receivedSeq: number | null; to: string }) =>
          one.receivedSeq === null || one.receivedSeq > at[one.to]!
        const expected = [
          ...world.sent.filter((one) => one.sentSeq <= at[one.from]! && isPending(one)),
          // Mail from outside that arrived after the cut and was read is undone with its consequences; the rest waits.
          ...world.outside.filter((one) => {
            return one.receivedSeq === null || mail.some((each) => each.id === one.id && each.to === one.to)
          }),
        ]
        expect(left(world, plan)).toEqual(expected.map(({ to, id }) => `${to} ${id}`).sort())
        // No mail may precede the request by which a slow member goes back.
        for (const one of unreadOf(world).filter(({ to }) => reordered.has(to))) expect(plan.drop).toContainEqual(one)
        for (const one of plan.drop.filter(({ to }) => !reordered.has(to))) expect(plan.again).not.toContainEqual(one)
      }),
      { numRuns: 500 },
    )
  })

  it('to the recovery line: no message without its sender, and each that crosses the line waits once', () => {
    fc.assert(
      fc.property(worlds, fc.array(fc.nat(3)), (world, failedNumbers) => {
        const { names, sent } = world
        const processes = names.map((id) => ({ id, seq: world.seq[id]!, checkpoints: world.checkpoints[id]! }))
        const failed = failedNumbers.map((n) => names[n % names.length]!)
        const { at } = recoveryLine(processes, sent, failed)
        expect(isConsistent(at, sent)).toBe(true)
        const unread = unreadOf(world)
        const plan = planMail({ at, exchanges: sent, unread, captured: null, reordered: new Set(['p1']) })
        const expected = [
          ...sent.filter(({ from, sentSeq, to, receivedSeq }) => {
            return sentSeq <= at[from]! && (receivedSeq === null || receivedSeq > at[to]!)
          }),
          ...world.outside.filter(({ receivedSeq }) => receivedSeq === null),
        ]
        expect(left(world, plan)).toEqual(expected.map(({ to, id }) => `${to} ${id}`).sort())
      }),
      { numRuns: 500 },
    )
  })
})
