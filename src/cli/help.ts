// Help, generated from the table of commands. No line is wider than 80 columns.

import type { CommandGroup, CommandSpec, OptionSpec } from './command.ts'
import { commandGroups, commands, commonOptions } from './commands.ts'
import { exit, UsageError } from './exit.ts'
import type { Output } from './output.ts'

const columns = 80
/** Options with longer names have their help on the next line. */
const optionWidthMax = 26

/** A short introduction in ten lines. */
export function welcome(output: Output): number {
  const { bold, dim } = output.colours
  output.result({ commands: commands.map((spec) => spec.name) }, () => {
    output.line(`${bold('reprise')}: long-running work that survives interruptions`)
    output.line()
    output.line(`  ${bold('reprise demo')}        watch a job being killed three times and lose nothing`)
    output.line(`  ${bold('reprise init')}        write a first job that runs as it is`)
    output.line(`  ${bold('reprise run')} FILE    run a job, a migration or a workflow that a module exports`)
    output.line(`  ${bold('reprise resume')}      resume unfinished work`)
    output.line(`  ${bold('reprise ls')}          list the timelines of the store, and their progress`)
    output.line(`  ${bold('reprise advise')}      answer a few questions, get a configuration with code`)
    output.line()
    output.line(dim(`reprise help lists all ${commands.length} commands; reprise help COMMAND describes one`))
  })
  return exit.ok
}

/** `name`: a command or a topic. Default: the list of all commands. */
export function help(output: Output, name: string | undefined): number {
  if (name === undefined) return list(output)
  const spec = commands.find((each) => each.name === name)
  if (spec) return describe(output, spec)
  const group = commandGroups.find(({ topic }) => topic === name)
  if (!group) throw new UsageError(`there is no command or topic ${name}`)
  return describeTopic(output, group)
}

function list(output: Output): number {
  const { bold, dim } = output.colours
  const widest = Math.max(...commands.map((spec) => spec.name.length))
  output.result({ commands }, () => {
    for (const { topic, title, commands } of commandGroups) {
      output.line(`${bold(title)} ${dim(`(${topic})`)}`)
      for (const spec of commands) output.line(`  ${spec.name.padEnd(widest)}  ${dim(spec.summary)}`)
      output.line()
    }
    output.line(dim('reprise help COMMAND describes a command and its options,'))
    output.line(dim('reprise help TOPIC the commands of one heading, such as reprise help copies'))
  })
  return exit.ok
}

function describeTopic(output: Output, group: CommandGroup): number {
  output.result(group, () => {
    output.line(output.colours.bold(group.title))
    for (const spec of group.commands) {
      output.line()
      usageOf(output, spec)
      wrapped(output, `${spec.summary}${spec.details ? `. ${spec.details}` : ''}`, 6)
    }
  })
  return exit.ok
}

function describe(output: Output, spec: CommandSpec): number {
  output.result(spec, () => {
    usageOf(output, spec)
    output.line()
    wrapped(output, spec.summary, 2)
    if (spec.details) wrapped(output, spec.details, 2)
    output.line()
    options(output, Object.entries(spec.options ?? {}))
    options(output, Object.entries(commonOptions))
  })
  return exit.ok
}

function usageOf(output: Output, { usage, forms = [] }: CommandSpec): void {
  for (const form of [usage, ...forms]) output.line(`reprise ${form}`)
}

function options(output: Output, specs: readonly (readonly [string, OptionSpec])[]): void {
  for (const [option, { value, short, help }] of specs) {
    const words = `${short ? `-${short}, ` : ''}--${option}${value ? ` ${value}` : ''}`
    const [first = '', ...rest] = wrap(help, columns - optionWidthMax - 4)
    const margin = ' '.repeat(optionWidthMax + 4)
    if (words.length > optionWidthMax) {
      output.line(`  ${words}`)
      rest.unshift(first)
    } else {
      output.line(`  ${words.padEnd(optionWidthMax)}  ${output.colours.dim(first)}`)
    }
    for (const line of rest) output.line(`${margin}${output.colours.dim(line)}`)
  }
}

function wrapped(output: Output, text: string, indent: number): void {
  for (const line of wrap(text, columns - indent)) output.line(`${' '.repeat(indent)}${line}`)
}

/** @example wrap('one two', 5) // ['one', 'two'] */
function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}
