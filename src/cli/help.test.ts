// The help of the command line: headings, width, and the form of each sentence.

import { describe, expect, it } from 'vitest'
import { commandGroups, commands } from './commands.ts'
import { help } from './help.ts'
import { Output } from './output.ts'

const verbs = new Set(
  `answer call cancel capture check compare declare encrypt end execute explain fetch follow list make mark print read
  rebuild record replay restore resume retry roll run send serve ship show start stop undo watch write`.split(/\s+/),
)

function helpText(name?: string): string {
  let text = ''
  const stream = { write: (piece: string) => (text += piece) }
  expect(help(new Output({ stdout: stream, stderr: stream, env: {} }, false), name)).toBe(0)
  return text
}

it('the summary of a command is one imperative sentence', () => {
  expect(commands.length).toBeGreaterThan(50)
  const wrong = commands.filter(({ summary }) => {
    const [verb = ''] = summary.split(/[\s:]/)
    return !verbs.has(verb) || /[.!]$/.test(summary)
  })
  expect(wrong.map(({ name, summary }) => `${name}: ${summary}`)).toEqual([])
})

describe('reprise help', () => {
  it('prints every command once, under its heading', () => {
    const sections = helpText().split(/\n\n/).slice(0, -1)
    expect(sections.map((section) => section.split('\n')[0])).toEqual(
      commandGroups.map(({ title, topic }) => `${title} (${topic})`),
    )
    const printed = sections.flatMap((section) =>
      section
        .split('\n')
        .slice(1)
        .map((line) => line.trim().split(' ')[0]!),
    )
    expect(printed).toEqual(commands.map(({ name }) => name))
    expect(new Set(printed).size).toBe(printed.length)
  })

  it.each([undefined, ...commandGroups.map(({ topic }) => topic), ...commands.map(({ name }) => name)])(
    'of %s fits into 80 columns',
    (name) => {
      expect(
        helpText(name)
          .split('\n')
          .filter((line) => line.length > 80),
      ).toEqual([])
    },
  )

  it('with a topic prints the usage of its commands, and no topic hides a command', () => {
    for (const { topic, commands: ofTopic } of commandGroups) {
      expect(commands.map(({ name }) => name)).not.toContain(topic)
      for (const { usage, forms = [] } of ofTopic) {
        for (const form of [usage, ...forms]) expect(helpText(topic)).toContain(`reprise ${form}\n`)
      }
    }
  })
})
