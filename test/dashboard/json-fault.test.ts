// The message of a dialog about text that is not JSON.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { jsonFault } from '../../dashboard/src/json-fault.ts'

it.each([
  ['{ "by" }', 'line 1, column 8: expected :, got }'],
  ['{\n  "a": 1,\n}', 'line 3, column 1: expected a name in double quotes, got }'],
  ['[1 2]', 'line 1, column 4: expected , or ], got 2'],
  ['{"a": yes}', 'line 1, column 7: expected a value, got yes; a text needs quotes, as in "yes"'],
  ['{"a": 1', 'line 1, column 8: expected , or }, and it ends here'],
  ['"half', 'line 1, column 6: expected " at the end of the text, and it ends here'],
  ['"a\\q"', 'line 1, column 3: expected another escape, got \\'],
  ['1 2', 'line 1, column 3: expected the end, got 2'],
  ['', 'line 1, column 1: expected a value, and it ends here'],
])('%s: says where and what', (text, words) => {
  expect(jsonFault(text)).toBe(words)
})

it('locates every fault that the browser refuses, and none in accepted text', () => {
  const broken = fc
    .tuple(fc.json(), fc.nat(), fc.constantFrom('', '"', '{', '}', ',', 'x', '\\', '\n', '0'))
    .map(([json, at, put]) => {
      const place = at % (json.length + 1)
      return json.slice(0, place) + put + json.slice(place + 1)
    })
  fc.assert(
    fc.property(fc.oneof(broken, fc.string(), fc.json()), (text) => {
      let isGood = true
      try {
        JSON.parse(text)
      } catch {
        isGood = false
      }
      const fault = jsonFault(text)
      if (isGood) expect(fault).toBeNull()
      else expect(fault).toMatch(/^line \d+, column \d+: /)
    }),
    { numRuns: 500 },
  )
})
