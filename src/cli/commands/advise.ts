// reprise advise: a few questions, and the configuration that answers them.

import { toMs } from '../../core/duration.ts'
import { advise } from '../advice.ts'
import { type MeasuredPolicy, measurePolicies } from '../advice-costs.ts'
import type { About, Answers, Captures, Scope, Truth } from '../advice-shape.ts'
import { policyFor, vectorFor } from '../advice-vector.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import type { Output } from '../output.ts'
import { Prompt } from '../prompt.ts'

interface Question {
  readonly option: 'about' | 'truth' | 'captures' | 'scope' | 'budget' | 'loss' | 'cost' | 'retention'
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
  { option: 'loss', words: 'How much work may be lost, as a duration? (any: no limit)', choices: [], otherwise: 'any' },
  {
    option: 'cost',
    words: 'What may checkpoints cost?',
    choices: [
      ['least', 'as little as these budgets allow'],
      ['fast', 'more, so that a recovery is as short as possible'],
    ],
    otherwise: 'least',
  },
  {
    option: 'retention',
    words: 'How long is history kept? (all, needed, or a duration)',
    choices: [],
    otherwise: 'all',
  },
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
  const given: Answers = {
    about: answers.about as About,
    truth: answers.truth as Truth,
    captures: answers.captures as Captures,
    scope: answers.scope as Scope,
    budget: answers.budget!,
    loss: answers.loss!,
    cost: answers.cost as Answers['cost'],
    retention: answers.retention!,
    effects: flag(options, 'effects'),
  }
  const advice = advise(given)
  const policy = policyFor(given)
  const vector = vectorFor(given)
  const costs = flag(options, 'measure') ? await measurePolicies(policy.checkpoint) : null
  output.result({ answers: given, advice, vector, policy, costs }, () => {
    const { bold, dim } = output.colours
    output.line(`${bold(advice.title)} ${dim(advice.id)}`)
    output.lines(`\n${advice.why}\n`)
    output.line(bold('Watch for'))
    for (const line of advice.watch) output.line(`- ${line}`)
    output.line(bold('Axes'))
    for (const [axis, { is, because }] of Object.entries(vector)) output.line(`- ${axis}: ${is}: ${because}`)
    output.line(bold('Policy'))
    output.line(`- checkpoint: ${JSON.stringify(policy.checkpoint)}`)
    output.line(`- retain: ${JSON.stringify(policy.retain)}`)
    if (costs) showCosts(output, costs)
    else output.note('reprise advise --measure measures this policy and its alternatives on this machine')
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

function showCosts(output: Output, costs: readonly MeasuredPolicy[]): void {
  output.table(
    ['POLICY', 'PER ENTRY', 'BYTES PER ENTRY', 'CHECKPOINTS', 'RECOVERY'],
    costs.map(({ name, msPerEntry, bytesPerEntry, checkpoints, recoveryMs }) => [
      name,
      `${msPerEntry.toFixed(3)} ms`,
      String(bytesPerEntry),
      String(checkpoints),
      `${recoveryMs.toFixed(1)} ms`,
    ]),
  )
  output.note('2,000 entries of 100 bytes over 500 keys, in a SQLite file on this machine')
}

export default command
