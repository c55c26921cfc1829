// Invalid arguments from programs without a type checker: refused at once with a remedy, never by a TypeError.

import { afterEach, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import {
  aggregate,
  partitionedTableProjection,
  processManager,
  projection,
  sqlProjection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { added, counter } from '../support/definitions.ts'

const account = aggregate('account', {
  initial: () => ({ count: 0 }),
  evolve: { added: ({ count }: { count: number }) => ({ count: count + 1 }) },
  decide: { add: () => ({ type: 'added' as const }) },
})
const wrong = (message: RegExp) =>
  expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) })
const given = (value: unknown) => value as never

describe('wrong arguments', () => {
  const engines: Reprise[] = []
  afterEach(async () => {
    await Promise.all(engines.splice(0).map((engine) => engine.close()))
  })

  it.each(['counter/x', undefined, null, 7, {}, { timeline: 'counter/x' }, { timeline: 7, seq: 1 }, { seq: 1 }])(
    'a place that is none: %j',
    async (where) => {
      const rp = await open('memory:')
      engines.push(rp)
      await (await rp.open(counter, 'x')).append(added(1))
      const expected = wrong(/where must be .*\{ timeline: "counter\/x", seq: 1 \}/)
      await expect(rp.fork(given(where), 'counter/y')).rejects.toEqual(expected)
      await expect(rp.rollback({ to: given(where) })).rejects.toEqual(expected)
      await expect(rp.savepoint(given(where))).rejects.toEqual(expected)
      await expect(rp.export(given(where), '/nowhere/file')).rejects.toEqual(expected)
      expect(await rp.head('counter/y')).toBeNull()
    },
  )

  it.each(['memory:?namespace=red', 'sqlite:x.db?namespace=red', 'postgres://h/d?schema=s&namespace=red'])(
    'a namespace in the address is refused, and not taken for the default one: %s',
    async (url) => {
      await expect(open(url)).rejects.toEqual(wrong(/\{ namespace \} or --namespace/))
    },
  )

  it('a value that is no definition is neither opened nor run', async () => {
    const rp = await open('memory:', { housekeeping: false })
    engines.push(rp)
    for (const what of [{}, null, undefined, 'counter']) {
      await expect(rp.open(given(what), 'x')).rejects.toEqual(wrong(/a definition that can be opened/))
      await expect(rp.run(given(what), given(1))).rejects.toEqual(wrong(/a definition that can be run/))
    }
    await expect(rp.run(given(counter), given(1))).rejects.toEqual(wrong(/can be run/))
  })

  it('a fork to nothing, and a past without a sequence', async () => {
    const rp = await open('memory:')
    engines.push(rp)
    await (await rp.open(counter, 'x')).append(added(1))
    await expect(rp.fork({ timeline: 'counter/x', seq: 1 }, given(undefined))).rejects.toMatchObject({
      code: 'INVALID_ID',
    })
    for (const where of [7, undefined, 'counter/x', {}]) {
      await expect(rp.at(counter, 'x', given(where))).rejects.toEqual(wrong(/where must be/))
    }
  })

  it('a projection without its table, its sources or its handlers is refused when it is defined', () => {
    const from = [account] as const
    const on = { added: () => undefined }
    const rows = table('rows')
    const say = (define: () => unknown, message: RegExp) => expect(define).toThrow(message)
    for (const into of [undefined, null, 'rows', {}]) {
      const options = given({ from, on, into })
      expect(() => tableProjection('p', options)).toThrow(wrong(/p: into must be a table/))
      expect(() => partitionedTableProjection('p', given({ from, on, into, partitions: 2 }))).toThrow(/into must be/)
    }
    const definitions = [
      [projection, { initial: () => 0 }],
      [sqlProjection, {}],
      [tableProjection, { into: rows }],
      [processManager, {}],
    ] as const
    for (const bad of [undefined, [], account, [null], ['account']]) {
      for (const [define, own] of definitions) {
        const options = { from: bad, on, ...own }
        say(() => (define as (name: string, options: never) => unknown)('p', given(options)), /from must be a list/)
      }
    }
    for (const bad of [undefined, null, () => 0, { added: 7 }]) {
      for (const [define, own] of definitions) {
        const options = { from, on: bad, ...own }
        say(
          () => (define as (name: string, options: never) => unknown)('p', given(options)),
          /on must hold one function/,
        )
      }
    }
    say(() => projection('p', given({ from, on })), /p: initial needs a function/)
  })

  it('a grace period in which no checkpoint can be written is refused, with the least that is possible', async () => {
    for (const grace of [0, 1, 999, '10ms']) {
      await expect(open('memory:', { grace: given(grace) })).rejects.toEqual(wrong(/grace must be at least 1000 ms/))
    }
    const rp = await open('memory:', { grace: '1s' })
    engines.push(rp)
    const handle = await rp.open(counter, 'x')
    await handle.append(added(1))
    await handle.checkpoint()
  })
})
