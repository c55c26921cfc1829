// Conversations with clients that reply late, twice, out of order or not at all, that disconnect and rejoin with the version
// they have, and refuse some versions. The records must match the actual state of the clients.

import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { applyConfig, type ConfigEntry, type ConfigState, initialConfig } from './state.ts'
import { type Answer, decideAnswer, decideOffer, joinEntry, reasonCharsMax } from './stream.ts'

const names = ['a', 'b', 'c']

type Step =
  | { readonly do: 'set' }
  | { readonly do: 'withdraw' }
  | { readonly do: 'join'; readonly who: number; readonly forgets: boolean }
  | { readonly do: 'offer' | 'receive' | 'lose' | 'leave'; readonly who: number }
  | { readonly do: 'deliver'; readonly which: number; readonly keeps: boolean }

const who = fc.nat({ max: names.length - 1 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ do: 'set' } as const) },
  { weight: 1, arbitrary: fc.constant({ do: 'withdraw' } as const) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('join' as const), who, forgets: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('offer' as const), who }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('receive' as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('lose' as const, 'leave' as const), who }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('deliver' as const), which: fc.nat({ max: 20 }), keeps: fc.boolean() }),
  },
)

/** The actual client: the version it applied, and the offers in transit to it. */
class Client {
  stream = ''
  has: number | undefined
  readonly coming: { nonce: string; version: number }[] = []
}

class World {
  state: ConfigState = initialConfig()
  latest = 0
  target: number | null = null
  streams = 0
  time = 0
  readonly clients = new Map(names.map((name) => [name, new Client()]))
  /** Replies in transit, each with the version its client had at the time. */
  readonly answers: (Answer & { readonly had: number | undefined; readonly stream: string })[] = []
  readonly planted: ReadonlySet<string>
  offers = 0

  constructor(planted: ReadonlySet<string>) {
    this.planted = planted
  }

  write(entry: ConfigEntry): void {
    this.state = applyConfig(this.state, { ...entry, time: ++this.time })
  }

  /** Client b refuses every third version. */
  refuses(name: string, version: number): boolean {
    return name === 'b' && version % 3 === 0
  }

  join(name: string, forgets: boolean): void {
    const client = this.clients.get(name)!
    client.stream = `s${++this.streams}`
    client.coming.length = 0
    if (forgets) client.has = undefined
    this.write(joinEntry(name, client.stream, client.has, this.latest))
  }

  offer(name: string): boolean {
    const client = this.clients.get(name)!
    const entry = decideOffer(this.state.clients, name, client.stream, this.target, this.planted)
    if (entry === null || entry === 'replaced' || entry.type !== 'offered') return false
    this.offers += 1
    this.write(entry)
    client.coming.push(entry.data)
    return true
  }

  receive(name: string): boolean {
    const client = this.clients.get(name)!
    const offer = client.coming.shift()
    if (!offer) return false
    const isRefused = this.refuses(name, offer.version)
    if (!isRefused) client.has = offer.version
    const nack = isRefused ? `no ${offer.version}` : null
    this.answers.push({ client: name, nonce: offer.nonce, nack, had: client.has, stream: client.stream })
    return true
  }

  deliver(which: number, keeps: boolean): boolean {
    if (this.answers.length === 0) return false
    const index = which % this.answers.length
    const answer = this.answers[index]!
    if (!keeps) this.answers.splice(index, 1)
    const before = this.state.clients.get(answer.client)
    const decided = decideAnswer(this.state.clients, answer, this.planted)
    if (decided.is !== 'taken') return true
    this.write(decided.entry)
    const after = this.state.clients.get(answer.client)!
    // A reply that was taken concerns the client's current stream and the version it named.
    expect(answer.stream).toBe(this.clients.get(answer.client)!.stream)
    if (answer.nack === null) expect(after.inForce).toBe(answer.had)
    else {
      expect(after.rejected).toMatchObject({ version: decided.version, reason: `no ${decided.version}` })
      expect(after.inForce).toBe(before!.inForce)
      expect(answer.nack).toBe(`no ${decided.version}`)
    }
    return true
  }

  act(step: Step): void {
    switch (step.do) {
      case 'set':
        this.latest += 1
        this.target = this.latest
        return
      case 'withdraw':
        if (this.target !== null && this.target > 1) this.target -= 1
        return
      case 'join':
        this.join(names[step.who]!, step.forgets)
        return
      case 'lose':
        this.clients.get(names[step.who]!)!.coming.shift()
        return
      case 'leave': {
        const client = names[step.who]!
        this.write({ type: 'left', data: { client, stream: this.clients.get(client)!.stream } })
        return
      }
      case 'deliver':
        this.deliver(step.which, step.keeps)
        return
      case 'offer':
        this.offer(names[step.who]!)
        return
      case 'receive':
        this.receive(names[step.who]!)
    }
  }

  /** All clients rejoin with their versions, no message is lost any more, and old replies still arrive. */
  settle(): void {
    for (const name of names) this.join(name, false)
    const before = this.offers
    for (let isBusy = true; isBusy; ) {
      isBusy = false
      for (const name of names) isBusy = this.offer(name) || this.receive(name) || isBusy
      isBusy = this.deliver(0, false) || isBusy
      if (this.offers - before > names.length) throw new Error('offers do not end')
    }
  }

  check(): void {
    for (const name of names) {
      const record = this.state.clients.get(name)!
      const { has } = this.clients.get(name)!
      expect(record.inForce ?? undefined, `what ${name} has`).toBe(has)
      expect(record.offered).toBeNull()
      const isRefused = this.target !== null && has !== this.target && this.refuses(name, this.target)
      if (isRefused) expect(record.rejected).toMatchObject({ version: this.target, reason: `no ${this.target}` })
      else expect(record.inForce).toBe(this.target)
    }
  }
}

function play(steps: readonly Step[], planted: ReadonlySet<string> = new Set()): void {
  const world = new World(planted)
  for (const name of names) world.join(name, true)
  for (const step of steps) world.act(step)
  world.settle()
  world.check()
}

const story = fc.array(step, { maxLength: 60 })

describe('B10: the records of clients match the behaviour of the clients', () => {
  it('whatever is late, lost, repeated or broken off', () => {
    fc.assert(
      fc.property(story, (steps) => play(steps)),
      { numRuns: 250 },
    )
  })

  it.each(['any-nonce', 'nonce-without-stream', 'nack-in-force', 'offer-again'])(
    'the planted bug %s is found',
    (bug) => {
      const found = fc.check(
        fc.property(story, (steps) => play(steps, new Set([bug]))),
        { numRuns: 2000, endOnFailure: true },
      )
      expect(found.failed).toBe(true)
    },
  )
})

function clientsAfter(...entries: readonly ConfigEntry[]): ConfigState['clients'] {
  return entries.reduce((state, entry, i) => applyConfig(state, { ...entry, time: i + 1 }), initialConfig()).clients
}

test('B10: an ACK for another nonce is ignored', () => {
  const clients = clientsAfter(
    joinEntry('edge', 's1', undefined, 2),
    { type: 'offered', data: { client: 'edge', nonce: 's1-1', version: 1 } },
    { type: 'offered', data: { client: 'edge', nonce: 's1-2', version: 2 } },
  )
  const answer = (nonce: string) => decideAnswer(clients, { client: 'edge', nonce, nack: null })
  expect(answer('s1-1')).toEqual({ is: 'ignored', why: 'a newer version was offered since' })
  expect(answer('s0-2')).toEqual({ is: 'ignored', why: 'the nonce belongs to a stream that ended, or to none' })
  expect(answer('s1-2')).toMatchObject({ is: 'taken', version: 2, entry: { type: 'acked' } })
  expect(decideAnswer(clients, { client: 'x', nonce: 's1-2', nack: null })).toMatchObject({ is: 'ignored' })
})

test('the same answer twice is taken once, and another answer to the same offer is ignored', () => {
  const clients = clientsAfter(
    joinEntry('edge', 's1', undefined, 1),
    { type: 'offered', data: { client: 'edge', nonce: 's1-1', version: 1 } },
    { type: 'acked', data: { client: 'edge', nonce: 's1-1', version: 1 } },
  )
  expect(decideAnswer(clients, { client: 'edge', nonce: 's1-1', nack: null })).toEqual({ is: 'repeated' })
  const other = decideAnswer(clients, { client: 'edge', nonce: 's1-1', nack: 'no' })
  expect(other).toEqual({ is: 'ignored', why: 'the offer already has a different answer' })
})

test('a client that comes back with a version that never was has nothing', () => {
  for (const has of [0, 3, -1, Number.NaN]) expect(joinEntry('edge', 's', has, 2).data).toMatchObject({ has: null })
  expect(joinEntry('edge', 's', 2, 2).data).toMatchObject({ has: 2 })
})

test('a reason is cut where it is too long', () => {
  const clients = clientsAfter(joinEntry('edge', 's', undefined, 1), {
    type: 'offered',
    data: { client: 'edge', nonce: 's-1', version: 1 },
  })
  const reasonFor = (nack: string) => {
    const decided = decideAnswer(clients, { client: 'edge', nonce: 's-1', nack })
    return decided.is === 'taken' && decided.entry.type === 'nacked' ? decided.entry.data.reason.length : null
  }
  expect(reasonFor('x'.repeat(reasonCharsMax))).toBe(reasonCharsMax)
  expect(reasonFor('x'.repeat(reasonCharsMax + 1))).toBe(reasonCharsMax)
})
