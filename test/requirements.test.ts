// Every requirement of the mission has a test with its number in its title. Numbers without any code are listed as not
// built: each leaves the list with the first test of it.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** How many requirements each section has. */
const sections = {
  ...{ 'A1.': 6, 'A2.': 4, 'A3.': 5, 'A4.': 8, 'A5.': 4, 'A6.': 7, 'A7.': 4, 'A8.': 7, 'A9.': 4 },
  ...{ B: 10, C: 12, D: 9, E: 9 },
}
const numbers = Object.entries(sections).flatMap(([section, count]) =>
  Array.from({ length: count }, (_, i) => `${section}${i + 1}`),
)

/** Streams to browsers, debounced queues, a tamper-evident record. */
const notBuilt = ['E4', 'E5', 'E7']

/** Numbers at the start of a title, before the sentence, or in brackets at its end. */
const list = String.raw`[A-G]\d+(?:\.\d+)?(?:(?:, | and )[A-G]\d+(?:\.\d+)?)*`
const titled = new RegExp(`['"\`]${list}(?=[:, '"\`])|\\(${list}\\)['"\`]`, 'g')

function numbersIn(text: string): string[] {
  return [...text.matchAll(titled)].flatMap(([found]) => found.match(/[A-G]\d+(?:\.\d+)?/g) ?? [])
}

const files = ['test', 'src'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts') || name.startsWith('testing/'))
    .filter((name) => name.endsWith('.ts') && name !== 'requirements.test.ts')
    .map((name) => join(root, folder, name)),
)
const proved = new Set(files.flatMap((file) => numbersIn(readFileSync(file, 'utf8'))))

it('every requirement is in the title of a test, or is listed as not built', () => {
  const missing = numbers.filter((number) => !proved.has(number))
  expect(missing).toEqual(notBuilt)
})

it('numbers are found in titles alone', () => {
  expect(numbersIn(`it('A1.1, B2: is kept')\ndescribe("C11 calls")\nit('ends (C3)')\n// prose (A9.1)`)).toEqual([
    ...['A1.1', 'B2', 'C11', 'C3'],
  ])
})
