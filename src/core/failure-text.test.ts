import { expect, it } from 'vitest'
import { boundedText, thrownText, userFrames } from './failure-text.ts'

it('replaces lone halves of surrogate pairs, and cuts long text', () => {
  expect(boundedText('a\ud800b\udc00 \u{1f600}')).toBe('a\ufffdb\ufffd \u{1f600}')
  expect(boundedText('x'.repeat(2000))).toBe('x'.repeat(2000))
  expect(boundedText('x'.repeat(2001))).toBe(`${'x'.repeat(2000)}…`)
})

it('describes a thrown value whose conversion to text throws', () => {
  expect(thrownText(Object.create(null))).toBe('a value that is not an error was thrown: object')
  expect(thrownText(7)).toBe('a value that is not an error was thrown: 7')
})

it('keeps the frames of the user', () => {
  const stack = 'Error: x\n    at node:internal/a:1\n    at mine (a.ts:1)\n    at yours (b.ts:2)'
  expect(userFrames(stack, 1)).toBe('    at mine (a.ts:1)')
})
