// Compares two replays: finds the first record at which they differ, and the first operator whose output differs there.
// Later operators only pass the difference on.

import type { Codec } from '../../../core/codec/codec.ts'
import type { Outside } from './outside.ts'
import type { Recording } from './recording.ts'
import { type Given, show, showGiven, type Trace } from './replay.ts'

export interface ComparedOf {
  /** Sources and operators in topological order. */
  readonly order: readonly string[]
  readonly recording: Recording
  readonly codec: Codec
  readonly outside: Outside
}

export interface Difference {
  readonly operator: string
  readonly problem: string
}

/** After a restart, keys may be visited in another order, so the results for one record are compared as a multiset. */
export function compareTraces(
  of: ComparedOf,
  first: Trace,
  second: Trace,
  how: 'again' | 'restarted',
): Difference | null {
  const wanted = of.outside.requests[0]
  if (wanted !== undefined) {
    return { operator: wanted, problem: `${wanted} makes requests, which are repeated after a crash: use call()` }
  }
  for (let i = 0; i < Math.max(first.length, second.length); i++) {
    const [a, b] = [byOperator(first[i] ?? []), byOperator(second[i] ?? [])]
    for (const operator of of.order) {
      const parted = partedAt(a.get(operator) ?? [], b.get(operator) ?? [], how === 'restarted')
      if (parted) return { operator, problem: problemOf(of, operator, i, parted, how) }
    }
  }
  return null
}

type Parted = readonly [string | undefined, string | undefined]

function partedAt(a: readonly string[], b: readonly string[], isBag: boolean): Parted | null {
  const [left, right] = isBag ? [[...a].sort(), [...b].sort()] : [a, b]
  for (let i = 0; i < Math.max(left.length, right.length); i++) if (left[i] !== right[i]) return [left[i], right[i]]
  return null
}

function byOperator(given: readonly Given[]): Map<string, string[]> {
  const all = new Map<string, string[]>()
  for (const { operator, text } of given) {
    const own = all.get(operator)
    if (own) own.push(text)
    else all.set(operator, [text])
  }
  return all
}

function problemOf(of: ComparedOf, operator: string, i: number, [a, b]: Parted, how: 'again' | 'restarted'): string {
  const { inputs } = of.recording
  const input = inputs[i]
  const shown = (text: string | undefined) => (text === undefined ? 'nothing' : showGiven(of.codec, text))
  const where = input
    ? `record ${i + 1}, from ${input.source}${input.partition === '' ? '' : `/${input.partition}`}: ${show(input.value)}`
    : `the end of the input, after ${inputs.length} records`
  const services = of.outside.askedBy(operator)
  const because =
    services.length > 0
      ? `it uses ${services.join(', ')}`
      : how === 'again'
        ? 'it depends on something besides the record and its state'
        : 'something that it needs is not in its state: a variable, or a value that was changed in place'
  const when = how === 'again' ? 'when the same input is replayed' : 'after a restart in the middle'
  return `${operator} has different results ${when}, first at ${where}: ${shown(a)}, then ${shown(b)}; ${because}`
}
