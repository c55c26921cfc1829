import { expect, it } from 'vitest'
import { hasParameter } from './parameters.ts'

const methods = {
  async one(ctx: unknown) {
    return ctx
  },
  async two(ctx: unknown, input: number) {
    return [ctx, input]
  },
}

it.each<[string, (...given: never[]) => unknown, boolean | null]>([
  ['none', async () => 1, false],
  ['a word', new Function('return async ctx => ctx')(), false],
  ['one', async (ctx: unknown) => ctx, false],
  [
    'one of a function',
    async function named(ctx: unknown) {
      return ctx
    },
    false,
  ],
  ['one of a method', methods.one, false],
  ['two of a method', methods.two, true],
  ['two', async (ctx: unknown, input: number) => [ctx, input], true],
  ['two, one of them optional', async (ctx: unknown, input?: number) => [ctx, input], true],
  ['two, one of them with a default', async (ctx: unknown, input = 5) => [ctx, input], true],
  ['a pattern with a default', async (ctx: unknown, { a = '(,)' }: { a?: string } = {}) => [ctx, a], true],
  ['one pattern with commas', async ({ a, b }: { a?: string; b?: string } = {}) => [a, b], false],
  [
    'a generator',
    function* (ctx: unknown) {
      yield ctx
    },
    false,
  ],
  ['a comment', new Function('return (ctx /* of the run, */ // and more,\n) => ctx')(), false],
  ['a string with a bracket', new Function("return (ctx = { a: ')' }, input = 5) => ctx")(), true],
  ['rest parameters', async (...given: unknown[]) => given, null],
  ['rest parameters after the first', async (ctx: unknown, ...given: unknown[]) => [ctx, given], null],
  ['a bound function', methods.one.bind(methods), null],
  ['a bound function of two', methods.two.bind(methods), true],
  ['a template', new Function('return (ctx = `)`, input = 5) => ctx')(), null],
  ['a native function', Math.random, null],
])('%s: whether a second parameter is declared', (_, call, expected) => {
  expect(hasParameter(call, 1)).toBe(expected)
})
