import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { formerStepKey } from '../../../core/identity.ts'
import { sha256 } from '../../../engine/base/platform.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import { open } from '../../../index.ts'
import { outsideOf } from '../history/outside-calls.ts'
import { loadHistory, stateOf } from '../tools/export.ts'
import { Observed } from './observations.ts'
import { keyOf } from './step-key.ts'

const digester = {
  hash: sha256,
  codec: { encode: (value: unknown) => new TextEncoder().encode(JSON.stringify(value)) },
}
const nothing = new Observed(digester).here()

it('runs that recorded no identity keep the keys they had', async () => {
  const folder = fileURLToPath(new URL('../../../../test/golden/workflow-1/', import.meta.url))
  const engine: Host = hostOf(await open('memory:'))
  for (const name of readdirSync(folder)) {
    const history = await loadHistory(folder + name)
    const state = stateOf(engine, history)
    for (const { id, key } of outsideOf(state, sha256)) expect(key).toBe(`${history.timeline}:${id}`)
    const step = { id: 'charge', input: null, observed: nothing }
    expect(keyOf(state, step, sha256)).toBe(`${history.timeline}:charge`)
  }
  expect(formerStepKey(sha256, 'workflow/a/b', 2, 'charge#2')).toBe('workflow/a/b.2:charge#2')
  await engine.close()
})

it('equal keys stand for equal intents', () => {
  const state = fc.record({
    identity: fc.constantFrom('1'.repeat(32), '2'.repeat(32)),
    generation: fc.nat(1),
    keyBase: fc.constant('workflow/a/b'),
  })
  const observed = fc.array(fc.tuple(fc.constantFrom('a', 'b'), fc.nat(1)), { maxLength: 2 })
  const step = fc.record({ id: fc.constantFrom('x', 'y', 'x#2'), input: fc.constantFrom(null, '0', '1'), observed })
  const intent = fc.tuple(state, step)
  fc.assert(
    fc.property(intent, intent, (one, two) => {
      const [key, other] = [one, two].map(([state, { id, input, observed }]) => {
        const scope = new Observed(digester)
        for (const [at, value] of new Map(observed)) scope.add(at, value)
        return keyOf(state, { id, input, observed: scope.here() }, sha256)
      })
      const wordsOf = ([state, { id, input, observed }]: typeof one) =>
        JSON.stringify([state, id, input, input === null ? [...new Map(observed)].sort() : null])
      expect(key === other).toBe(wordsOf(one) === wordsOf(two))
    }),
    { numRuns: 2000 },
  )
})

it('the observations of a scope count in any order; those of another scope, or later ones, do not', () => {
  const digestOf = (add: (scope: Observed) => void) => {
    const scope = new Observed(digester)
    add(scope)
    return scope.here().digest()
  }
  const ab = digestOf((scope) => {
    scope.add('a', 1)
    scope.add('b', { x: 2 })
  })
  expect(
    digestOf((scope) => {
      scope.add('b', { x: 2 })
      scope.add('a', 1)
    }),
  ).toBe(ab)
  expect(
    digestOf((scope) => {
      scope.add('b', { x: 3 })
      scope.add('a', 1)
    }),
  ).not.toBe(ab)
  const root = new Observed(digester)
  root.add('a', 1)
  const early = root.here()
  const before = early.digest()
  const branch = new Observed(digester, early)
  root.add('b', 2)
  root.add('c', undefined)
  const late = root.here()
  const after = late.digest()
  expect(after).not.toBe(before)
  expect(early.digest()).toBe(before)
  expect(late.digest()).toBe(after)
  expect(branch.here().digest()).toBe(new Observed(digester, early).here().digest())
  branch.add('x', 1)
  root.join('all', [branch.here()])
  expect(root.here().digest()).not.toBe(after)
})
