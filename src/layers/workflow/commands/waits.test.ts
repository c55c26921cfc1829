// Signals on their own: signals that arrive before a wait, and waits that begin before their signal.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Command, CommandSpec } from '../run/command.ts'
import { Signals } from './waits.ts'

type SignalsRun = ConstructorParameters<typeof Signals>[0]

class FakeRun {
  readonly set = new Set<string>()
  readonly alarms = {
    set: (id: string) => void this.set.add(id),
    delete: (id: string) => void this.set.delete(id),
  }
  readonly asked: { readonly asked: CommandSpec; readonly command: Command; readonly given: unknown[] }[] = []
  readonly recorder = { record: async () => undefined }
  readonly code = {
    execution: {
      time: 0,
      ask: (scope: unknown, id: string, asked: CommandSpec) => {
        const given: unknown[] = []
        const state = { isSettled: false }
        const settle = (value: unknown) => {
          state.isSettled = true
          given.push(value)
        }
        const command = {
          id,
          scope: { ...(scope as object), observed: { add: () => undefined } },
          requestedAt: 0,
          get isSettled() {
            return state.isSettled
          },
          resolve: settle,
          reject: (error: { code: string }) => settle(error.code),
        } as unknown as Command
        this.asked.push({ asked, command, given })
        asked.onRequested?.(command)
        asked.start(command)
      },
    },
  }
}

const scopeAt = (path: string) => {
  let count = 0
  return { path, next: (name: string) => `${path}/${name}#${++count}` } as never
}

it('each signal goes to one wait of its name, both in their order, whichever comes first', () => {
  const moves = fc.array(fc.tuple(fc.boolean(), fc.constantFrom('x', 'y')), { maxLength: 40 })
  fc.assert(
    fc.property(moves, (moves) => {
      const run = new FakeRun()
      const signals = new Signals(run as unknown as SignalsRun)
      const scope = scopeAt('')
      const sent: Record<string, number[]> = { x: [], y: [] }
      const waits: Record<string, number[]> = { x: [], y: [] }
      for (const [seq, [sends, name]] of moves.entries()) {
        if (sends) {
          sent[name]!.push(seq)
          signals.deliver({ kind: 'signal', name, value: seq, at: 0, seq })
        } else {
          waits[name]!.push(run.asked.length)
          void signals.ask(scope, name, {})
        }
      }
      for (const name of ['x', 'y']) {
        waits[name]!.forEach((at, i) => {
          expect(run.asked[at]!.given).toEqual(sent[name]!.slice(i, i + 1))
        })
      }
      const count = (name: string) => Math.min(sent[name]!.length, waits[name]!.length)
      expect(signals.taken()).toHaveLength(count('x') + count('y'))
      expect(signals.isAwaited).toBe(['x', 'y'].some((name) => waits[name]!.length > sent[name]!.length))
    }),
  )
})

it('a wait that ran out takes no signal, and its time is no longer kept', () => {
  const run = new FakeRun()
  const signals = new Signals(run as unknown as SignalsRun)
  void signals.ask(scopeAt(''), 'x', { timeout: '1s' })
  void signals.ask(scopeAt('b'), 'x', { timeout: '1s', otherwise: 'nothing' })
  expect(run.set.size).toBe(2)
  const [first, second] = run.asked
  first!.asked.onItem(first!.command, { kind: 'timer', id: 'x', at: 1, seq: 1 })
  second!.asked.onItem(second!.command, { kind: 'timer', id: 'y', at: 1, seq: 2 })
  signals.deliver({ kind: 'signal', name: 'x', value: 1, at: 2, seq: 3 })
  expect([first!.given, second!.given, signals.taken()]).toEqual([['TIMEOUT'], ['nothing'], []])
  expect(run.set.size).toBe(0)
})

it('the time spent waiting below a path is reported once', () => {
  const signals = new Signals(new FakeRun() as unknown as SignalsRun)
  for (const [seq, path] of ['~loop.1', '~loop.1/~all.0', '~loop.10', 'other'].entries()) {
    signals.deliver({ kind: 'signal', name: path, value: 0, at: 0, seq })
    void signals.ask(scopeAt(path), path, {})
  }
  expect(signals.takenBelow('~loop.1')).toEqual([0, 1])
  expect(signals.takenBelow('~loop.1')).toEqual([])
  expect(signals.taken()).toEqual([2, 3])
})
