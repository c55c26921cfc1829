// The recovery line, compared with brute force: among all combinations of restore points, the highest consistent one.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Exchange, isConsistent, type ProcessHistory, recoveryLine } from './recovery-line.ts'

interface World {
  readonly processes: ProcessHistory[]
  readonly exchanges: Exchange[]
}

/** Random histories of up to four processes: at each step one of them sends, receives or checkpoints. */
const worlds: fc.Arbitrary<World> = fc
  .tuple(
    fc.integer({ min: 1, max: 4 }),
    fc.array(fc.tuple(fc.nat(3), fc.constantFrom('send', 'receive', 'checkpoint', 'here', 'work'), fc.nat(3)), {
      maxLength: 40,
    }),
  )
  .map(([count, steps]) => {
    const seq = new Array<number>(count).fill(0)
    const checkpoints: number[][] = seq.map(() => [])
    const exchanges: { id: string; from: string; sentSeq: number; to: string; receivedSeq: number | null }[] = []
    for (const [who, what, other] of steps) {
      const p = who % count
      // A checkpoint at the current sequence, which may be that of a message.
      if (what === 'here') {
        checkpoints[p]!.push(seq[p]!)
        continue
      }
      seq[p]! += 1
      if (what === 'checkpoint') checkpoints[p]!.push(seq[p]!)
      const to = `p${other % count}`
      if (what === 'send')
        exchanges.push({ id: `m${exchanges.length}`, from: `p${p}`, sentSeq: seq[p]!, to, receivedSeq: null })
      const next = exchanges.find((one) => one.to === `p${p}` && one.receivedSeq === null)
      if (what === 'receive' && next && !(next.from === next.to && next.sentSeq >= seq[p]!)) next.receivedSeq = seq[p]!
    }
    return { processes: seq.map((at, i) => ({ id: `p${i}`, seq: at, checkpoints: checkpoints[i]! })), exchanges }
  })

/** The same, with history trimmed below some of the processes. */
const trimmedWorlds: fc.Arbitrary<World> = fc
  .tuple(worlds, fc.array(fc.nat(12)))
  .map(([{ processes, exchanges }, cut]) => ({
    processes: processes.map((process, i) => ({ ...process, floor: Math.min(cut[i] ?? 0, process.seq) })),
    exchanges,
  }))

/** The definition again, without the code under test. */
function hasNoOrphan(at: Readonly<Record<string, number>>, exchanges: readonly Exchange[]): boolean {
  return exchanges.every(({ from, sentSeq, to, receivedSeq }) => {
    return receivedSeq === null || receivedSeq > at[to]! || sentSeq <= at[from]!
  })
}

function* combinations(choices: readonly (readonly number[])[]): Generator<number[]> {
  if (choices.length === 0) yield []
  else for (const first of choices[0]!) for (const rest of combinations(choices.slice(1))) yield [first, ...rest]
}

describe('A3.5 the recovery line', () => {
  it('is consistent, and no consistent line lies above it in any process', () => {
    fc.assert(
      fc.property(worlds, fc.array(fc.nat(3)), ({ processes, exchanges }, failedNumbers) => {
        const failed = failedNumbers.map((n) => `p${n % processes.length}`)
        const line = recoveryLine(processes, exchanges, failed)
        expect([isConsistent(line.at, exchanges), hasNoOrphan(line.at, exchanges)]).toEqual([true, true])
        const choices = processes.map(({ id, seq, checkpoints }) =>
          failed.includes(id) ? [0, ...checkpoints] : [0, seq, ...checkpoints],
        )
        for (const combination of combinations(choices)) {
          const at = Object.fromEntries(processes.map(({ id }, i) => [id, combination[i]!]))
          if (!hasNoOrphan(at, exchanges)) continue
          for (const { id } of processes) expect(line.at[id]).toBeGreaterThanOrEqual(at[id]!)
        }
      }),
      { numRuns: 300 },
    )
  })

  it('is unreachable exactly when no consistent line exists above the remaining part of every history', () => {
    fc.assert(
      fc.property(trimmedWorlds, fc.array(fc.nat(3)), ({ processes, exchanges }, failedNumbers) => {
        const failed = failedNumbers.map((n) => `p${n % processes.length}`)
        const line = recoveryLine(processes, exchanges, failed)
        const choices = processes.map(({ id, seq, checkpoints, floor = 0 }) => [
          ...(floor === 0 ? [0] : []),
          ...(failed.includes(id) ? [] : [seq]),
          ...checkpoints.filter((point) => point >= floor),
        ])
        const consistent = [...combinations(choices)]
          .map((combination) => Object.fromEntries(processes.map(({ id }, i) => [id, combination[i]!])))
          .filter((at) => hasNoOrphan(at, exchanges))
        expect(line.outOfReach.length > 0).toBe(consistent.length === 0)
        if (line.outOfReach.length > 0) return
        expect(consistent).toContainEqual(line.at)
        for (const at of consistent) for (const { id } of processes) expect(line.at[id]).toBeGreaterThanOrEqual(at[id]!)
      }),
      { numRuns: 300 },
    )
  })

  it('never falls below a coordinated cut whose places are restore points: the domino effect ends there', () => {
    fc.assert(
      fc.property(worlds, fc.array(fc.nat(40), { minLength: 4, maxLength: 4 }), ({ processes, exchanges }, tries) => {
        const cut = Object.fromEntries(processes.map(({ id, seq }, i) => [id, Math.min(tries[i]!, seq)]))
        fc.pre(hasNoOrphan(cut, exchanges))
        const pinned = processes.map((process) => ({
          ...process,
          checkpoints: [...process.checkpoints, cut[process.id]!],
          floor: cut[process.id]!,
        }))
        const line = recoveryLine(pinned, exchanges)
        expect(line.outOfReach).toEqual([])
        for (const { id } of processes) expect(line.at[id]).toBeGreaterThanOrEqual(cut[id]!)
      }),
    )
  })

  it('reports each step back with the message that caused it, and the messages to deliver again', () => {
    fc.assert(
      fc.property(worlds, ({ processes, exchanges }) => {
        const line = recoveryLine(processes, exchanges)
        const at = Object.fromEntries(processes.map(({ id, seq }) => [id, seq]))
        for (const step of line.cascade) {
          expect(at[step.process]).toBe(step.from)
          if (step.because) expect(step.to).toBeLessThan(step.because.receivedSeq!)
          at[step.process] = step.to
        }
        expect(at).toEqual(line.at)
        expect(line.entriesLost).toBe(processes.map(({ id, seq }) => seq - line.at[id]!).reduce((a, b) => a + b, 0))
        expect(line.fellToOrigin).toEqual(
          processes.filter(({ id, seq }) => seq > 0 && line.at[id] === 0).map(({ id }) => id),
        )
        for (const exchange of line.inFlight) {
          expect(exchange.sentSeq).toBeLessThanOrEqual(line.at[exchange.from]!)
          expect(exchange.receivedSeq === null || exchange.receivedSeq > line.at[exchange.to]!).toBe(true)
        }
      }),
    )
  })

  it('leaves out messages from and to whom it does not know', () => {
    const processes = [{ id: 'a', seq: 3, checkpoints: [1] }]
    const stranger = { id: 'm1', from: 'x', sentSeq: 9, to: 'a', receivedSeq: 1 }
    const lost = { id: 'm2', from: 'a', sentSeq: 1, to: 'x', receivedSeq: null }
    expect(recoveryLine(processes, [stranger, lost])).toMatchObject({ at: { a: 1 }, inFlight: [] })
    expect(recoveryLine([{ id: 'a', seq: 0, checkpoints: [] }], []).fellToOrigin).toEqual([])
    expect(recoveryLine(processes, [], ['x'])).toMatchObject({ at: { a: 3 }, cascade: [] })
  })

  it('shows the domino effect: checkpoints in between messages that cross make both fall to the beginning', () => {
    const processes = [
      { id: 'a', seq: 8, checkpoints: [3, 7] },
      { id: 'b', seq: 8, checkpoints: [1, 5] },
    ]
    const exchanges = [
      { id: 'm1', from: 'b', sentSeq: 2, to: 'a', receivedSeq: 2 },
      { id: 'm2', from: 'a', sentSeq: 4, to: 'b', receivedSeq: 4 },
      { id: 'm3', from: 'b', sentSeq: 6, to: 'a', receivedSeq: 6 },
      { id: 'm4', from: 'a', sentSeq: 8, to: 'b', receivedSeq: 8 },
    ]
    const line = recoveryLine(processes, exchanges, ['a'])
    expect(line.at).toEqual({ a: 0, b: 1 })
    expect(line.cascade.map(({ process, to }) => `${process}→${to}`)).toEqual(['a→7', 'b→5', 'a→3', 'b→1', 'a→0'])
    expect(line.fellToOrigin).toEqual(['a'])
  })
})
