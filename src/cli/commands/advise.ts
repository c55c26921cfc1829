// reprise advise: a few questions, and the configuration that answers them.

import { toMs } from '../../core/duration.ts'
import { advise } from '../advice.ts'
import type { About, Captures, Scope, Truth } from '../advice-shape.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { Prompt } from '../prompt.ts'

interface Question {
  readonly option: 'about' | 'truth' | 'captures' | 'scope' | 'budget'
  readonly words: string
  readonly choices: readonly (readonly [string, string])[]
  readonly otherwise: string
}

const questions: readonly Question[] = [
  {
    option: 'about',
    words: 'What does the work process?',
    choices: [
      ['items', 'a list of work'],
      ['changes', 'a fixed list of changes, such as migrations'],
      ['entities', 'things that take commands: accounts, orders'],
      ['records', 'many values, found by key'],
      ['conversation', 'an agent that talks and uses tools'],
      ['stream', 'a stream of records and results computed from them'],
      ['results', 'results that are expensive to compute but can be recomputed'],
      ['files', 'large files that clients send over unreliable connections'],
      ['desired', 'a desired state, and a loop that establishes it'],
      ['settings', 'settings that many clients apply or refuse'],
      ['program', 'a program in any language that writes files'],
      ['anything', 'none of these'],
    ],
    otherwise: 'anything',
  },
  {
    option: 'truth',
    words: 'What is authoritative?',
    choices: [
      ['history', 'the events: state can be computed from them'],
      ['state', 'the state itself: there is nothing to replay'],
      ['external', 'another system: a database, an API, a bank'],
    ],
    otherwise: 'history',
  },
  {
    option: 'captures',
    words: 'What must a recovery restore?',
    choices: [
      ['progress', 'which items are done'],
      ['state', 'a state'],
      ['both', 'a state and its position in the input'],
      ['execution', 'the progress of a program'],
    ],
    otherwise: 'progress',
  },
  {
    option: 'scope',
    words: 'How far is the work distributed?',
    choices: [
      ['one', 'one actor'],
      ['machine', 'much state on one machine'],
      ['many', 'several actors that depend on each other'],
    ],
    otherwise: 'one',
  },
  { option: 'budget', words: 'How long may recovery take?', choices: [], otherwise: '2s' },
]

const command: Command = async ({ options, output, stdin }) => {
  const prompt = stdin.isTTY && !output.isJson ? await Prompt.open(stdin) : null
  const answers: Record<string, string> = {}
  try {
    for (const question of questions) answers[question.option] = await answerTo(question)
  } finally {
    prompt?.close()
  }
  toMs(answers.budget!, '--budget')
  const advice = advise({
    about: answers.about as About,
    truth: answers.truth as Truth,
    captures: answers.captures as Captures,
    scope: answers.scope as Scope,
    budget: answers.budget!,
    effects: flag(options, 'effects'),
  })
  output.result({ answers: { ...answers, effects: flag(options, 'effects') }, advice }, () => {
    const { bold, dim } = output.colours
    output.line(`${bold(advice.title)} ${dim(advice.id)}`)
    output.lines(`\n${advice.why}\n`)
    output.line(bold('Watch for'))
    for (const line of advice.watch) output.line(`- ${line}`)
    output.lines(`\n${bold('Code')}\n`)
    output.lines(advice.code)
  })
  return exit.ok

  async function answerTo({ option, words, choices, otherwise }: Question): Promise<string> {
    const given = text(options, option)
    const valid = choices.map(([name]) => name)
    if (given !== undefined) {
      if (valid.length > 0 && !valid.includes(given))
        throw new UsageError(`--${option} must be one of ${valid.join(', ')}`)
      return given
    }
    if (!prompt) return otherwise
    output.notes(`\n${words}`)
    for (const [name, meaning] of choices) output.note(`  ${name.padEnd(13)} ${meaning}`)
    const answer = (await prompt.ask(`[${otherwise}] `)) || otherwise
    if (valid.length > 0 && !valid.includes(answer)) throw new UsageError(`${answer} is not one of ${valid.join(', ')}`)
    return answer
  }
}

export default command
