// Advice can be followed: every flag and every option that an error, a hint or a note names exists where the reader meets it.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { commands, commonOptions } from '../../src/cli/commands.ts'
import { root } from './support.ts'

/** Their flags are not ours. */
const otherPrograms =
  /\b(npm|npx|node|aws|git|pg_checksums|initdb|tsc|mount|deno|docker|createdb|psql|kubectl|strace|bwrap|openssl)\b[^;,)]*/g

interface Literal {
  readonly file: string
  readonly text: string
}

const files = (readdirSync(join(root, 'src'), { recursive: true }) as string[]).filter((file) => /\.c?ts$/.test(file))
const read = (file: string) => readFileSync(join(root, 'src', file), 'utf8')

/** The text of every string and template in the sources; holes of templates are written as `…`. */
function literals(): Literal[] {
  const own = files.filter((file) => !/\.test\.ts$|testing\//.test(file))
  return own.flatMap((file) => {
    const code = read(file).replaceAll(/^\s*(\/\/|\/?\*).*$/gm, '')
    const strings = code.match(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g) ?? []
    return strings.map((text) => ({ file, text: text.slice(1, -1).replaceAll(/\$\{[^}]*\}/g, '…') }))
  })
}

const all = literals()
const flagsOf = (name: string) => {
  const spec = commands.find((each) => each.name === name)
  return spec && new Set([...Object.keys(spec.options ?? {}), ...Object.keys(commonOptions)])
}
const anyFlag = new Set([
  ...Object.keys(commonOptions),
  ...commands.flatMap(({ options = {} }) => Object.keys(options)),
])

it('every flag that is named exists, and with the command that it is named with', () => {
  const wrong: string[] = []
  for (const { file, text } of all) {
    // Programs that are printed, settings of other tools, and scripts.
    if (/templates|advice|completion|strace|supervisor|\/memo\//.test(file)) continue
    // A flag alone is code, not advice.
    if (/^--[a-z-]+$/.test(text)) continue
    const words = text.replaceAll(otherPrograms, '')
    for (const { 0: whole, index, groups } of words.matchAll(/(?<![\w-])--(?<flag>[a-z][a-z-]+)/g)) {
      const before = words.slice(0, index)
      const command = [...before.matchAll(/reprise ([a-z-]+)(?=[^`;.:]*$)/g)].at(-1)?.[1]
      const known = (command === undefined ? undefined : flagsOf(command)) ?? anyFlag
      if (!known.has(groups!.flag!)) wrong.push(`${file}: ${command ?? ''} ${whole} in "${text.slice(0, 120)}"`)
    }
  }
  expect(wrong).toEqual([])
})

it('every command that is named exists', () => {
  const known = new Set([...commands.map(({ name }) => name), 'help', 'version'])
  const wrong = all.flatMap(({ file, text }) =>
    [...text.matchAll(/(?:^|[`:;(] ?|[Rr]un |or )reprise ([a-z][a-z-]+)(?= [A-Z`-]|`|$)/g)].flatMap(([, name]) =>
      known.has(name!) ? [] : [`${file}: reprise ${name}`],
    ),
  )
  expect(wrong).toEqual([])
})

it('every option that is advised exists, and those of a run have a flag of reprise run', () => {
  const declared = new Set(
    files.flatMap((file) => [...read(file).matchAll(/readonly (\w+)\??:/g)].map(([, name]) => name!)),
  )
  const run = flagsOf('run')!
  const wrong: string[] = []
  for (const { file, text } of all) {
    for (const [whole, verb, name] of text.matchAll(
      /\b(with|pass|[Ss]et|give|say with|its source|its sink) \{ (\w+)(?=[ :])/g,
    )) {
      if (!declared.has(name!)) wrong.push(`${file}: ${whole}`)
      const isOfRun =
        /layers\/pipeline\/run|adapters\/(kafka|nats|postgres-cdc)/.test(file) && !/^its|^[Ss]et$/.test(verb!)
      if (isOfRun && !run.has(name!)) wrong.push(`${file}: reprise run has no --${name} (${text.slice(0, 100)})`)
    }
  }
  expect(wrong).toEqual([])
})
