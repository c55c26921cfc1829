// The order of facts in simulation: random signals, deadlines and crashes on a store whose every answer may be late, with
// an oracle that knows only when each signal was called for and acknowledged. REPRISE_RANDOM_RUNS sets how many.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'

interface Wait {
  readonly how: 'signal' | 'race'
  readonly timeoutMs: number
}

interface Event {
  readonly afterMs: number
  readonly what: 'send' | 'crash'
}

interface Case {
  readonly waits: readonly Wait[]
  readonly events: readonly Event[]
  readonly delays: readonly number[]
}

/** The result of one wait: the number of a signal, or null after its timeout. */
interface Waited {
  readonly askedAt: number
  readonly timeoutMs: number
  readonly got: number | null
}

interface Sent {
  readonly calledAt: number
  readonly acknowledgedAt: number
}

const waiting = workflow<readonly Wait[], Waited[]>('waiting', async (ctx, waits) => {
  const told: Waited[] = []
  for (const { how, timeoutMs } of waits) {
    const askedAt = ctx.now()
    if (how === 'signal') {
      told.push({
        askedAt,
        timeoutMs,
        got: await ctx.signal<number | null>('s', { timeout: timeoutMs, otherwise: null }),
      })
    } else {
      const got = await ctx.race<number | null>([
        (own) => own.signal<number>('s'),
        (own) => own.sleep(timeoutMs).then(() => null),
      ])
      told.push({ askedAt, timeoutMs, got })
    }
  }
  return told
})

const someCase: fc.Arbitrary<Case> = fc.record({
  waits: fc.array(
    fc.record({
      how: fc.constantFrom('signal' as const, 'race' as const),
      timeoutMs: fc.integer({ min: 1, max: 4000 }),
    }),
    { minLength: 1, maxLength: 5 },
  ),
  events: fc.array(
    fc.record({
      afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5000 })),
      what: fc.constantFrom('send' as const, 'send' as const, 'crash' as const),
    }),
    { minLength: 1, maxLength: 8 },
  ),
  delays: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 6000 })), {
    minLength: 1,
    maxLength: 16,
  }),
})

const slow = new Set(['inbox', 'claim', 'head', 'commit', 'beat', 'read'])

async function simulate({ waits, events, delays }: Case, planted?: ReadonlySet<string>) {
  let asked = 0
  const slowness = (method: string) => (slow.has(method) ? (delays[asked++ % delays.length] ?? 0) : 0)
  const kit = new WorkflowKit({ slowness, ...(planted && { planted }) })
  const sent: Sent[] = []
  try {
    const run = await kit.run(waiting, waits, { id: 'r' })
    for (const { afterMs, what } of events) {
      await kit.advance(afterMs)
      if (what === 'crash') kit.crash()
      else {
        const n = sent.length
        const calledAt = kit.now()
        await kit.survive((rp) => rp.send(run.timeline, 'signal', { name: 's', value: n }, { key: `s${n}` }))
        sent.push({ calledAt, acknowledgedAt: kit.now() })
      }
    }
    return { waited: await kit.result(run), sent }
  } finally {
    await kit.close()
  }
}

/** A signal acknowledged before a deadline counts before it; a signal sent after it counts after it. */
function violation(waited: readonly Waited[], sent: readonly Sent[]): string | null {
  let next = 0
  for (const [i, { askedAt, timeoutMs, got }] of waited.entries()) {
    const deadline = askedAt + timeoutMs
    const signal = sent[next]
    if (got === null) {
      if (signal && signal.acknowledgedAt < deadline) return `wait ${i} timed out before signal ${next}`
      continue
    }
    if (got !== next) return `wait ${i} got signal ${got}, not ${next}`
    if (signal!.calledAt >= deadline) return `wait ${i} got signal ${next}, which came after its deadline`
    next += 1
  }
  return null
}

const numRuns = Number(process.env.REPRISE_RANDOM_RUNS ?? 60)

it('the first durable fact counts first, however slow the store and despite kills', async () => {
  await fc.assert(
    fc.asyncProperty(someCase, async (one) => {
      const { waited, sent } = await simulate(one)
      expect(violation(waited, sent)).toBeNull()
    }),
    { numRuns },
  )
})

for (const plant of ['alarm-before-mail', 'mail-before-alarm']) {
  it(`finds the planted bug ${plant}`, async () => {
    const planted = new Set([plant])
    let found: string | null = null
    for (const one of fc.sample(someCase, { numRuns: 300, seed: 7 })) {
      const { waited, sent } = await simulate(one, planted)
      found = violation(waited, sent)
      if (found) break
    }
    expect(found).not.toBeNull()
  })
}
