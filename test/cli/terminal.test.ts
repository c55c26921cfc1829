// On a terminal: colours, a bar that is redrawn, prompts.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { binIn, onTerminal, workFolder } from './support.ts'

const folder = workFolder()
afterAll(() => folder.remove())
const reprise = `${process.execPath} ${binIn(folder.path)}`
const escapeCharacter = String.fromCharCode(27)

function terminal(command: string, input = ''): { text: string; code: number } | null {
  const ran = onTerminal(command, folder.path, input)
  if ('text' in ran) return ran
  console.warn(`skipped: ${ran.skipped}`)
  return null
}

it('a job draws a bar over itself, and ends it with a line', () => {
  writeFileSync(
    join(folder.path, 'bar.mjs'),
    "import { job } from 'reprise/job'\nexport const bar = job('bar', { source: Array.from({ length: 200 }, (_, i) => i), concurrency: 2, each: () => new Promise((r) => setTimeout(r, 3)) })\n",
  )
  const ran = terminal(`${reprise} run bar.mjs`)
  if (!ran) return
  expect(ran.code).toBe(0)
  expect(ran.text).toContain(`\r${escapeCharacter}[2K`)
  expect(ran.text).toMatch(/bar ━+─* +\d+% \d+\/200/)
  expect(ran.text).toContain('200 items done')
})

it('tables have colours on a terminal, and none with NO_COLOR', () => {
  const coloured = terminal(`${reprise} ls`)
  if (!coloured) return
  expect(coloured.text).toContain(`${escapeCharacter}[2m`)
  expect(terminal(`NO_COLOR=1 ${reprise} ls`)!.text).not.toContain(escapeCharacter)
})

it('asks before it rolls back, and takes no for an answer', () => {
  const no = terminal(`${reprise} rollback job/bar@2`, 'n\n')
  if (!no) return
  expect(no.text).toContain('Continue? [y/N]')
  expect(no.code).toBe(2)
  const yes = terminal(`${reprise} rollback job/bar@2`, 'y\n')!
  expect(yes.text).toContain('continues from 2')
})

it('advise asks its questions one after another', () => {
  const ran = terminal(`${reprise} advise`, 'anything\nhistory\nexecution\none\n1s\nany\nleast\nall\n')
  if (!ran) return
  expect(ran.text).toContain('What is authoritative?')
  expect(ran.text).toContain('a workflow (replay)')
  expect(ran.code).toBe(0)
})

it('init asks which template, and takes defaults', () => {
  const ran = terminal(`${reprise} init fresh`, 'pages\n\njs\n')
  if (!ran) return
  expect(ran.text).toContain('wrote fresh/ingest.mjs')
})
