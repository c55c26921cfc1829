// Help, generated from the table of commands.

import type { OptionSpec } from './command.ts'
import { commands, commonOptions } from './commands.ts'
import { exit, UsageError } from './exit.ts'
import type { Output } from './output.ts'

/** A short introduction in ten lines. */
export function welcome(output: Output): number {
  const { bold, dim } = output.colours
  output.result({ commands: commands.map((spec) => spec.name) }, () => {
    output.line(`${bold('reprise')}: long work that survives being interrupted`)
    output.line()
    output.line(`  ${bold('reprise demo')}            watch a job get killed three times and lose nothing`)
    output.line(`  ${bold('reprise init')}            write a first job that runs as it is`)
    output.line(`  ${bold('reprise run')} FILE        run a job, a migration or a workflow that a module exports`)
    output.line(`  ${bold('reprise resume')}          resume unfinished work`)
    output.line(`  ${bold('reprise ls')}              list what is in the store, and how far it got`)
    output.line(`  ${bold('reprise advise')}          find the configuration that suits you, with code`)
    output.line()
    output.line(dim(`reprise help lists all ${commands.length} commands; reprise help COMMAND describes one`))
  })
  return exit.ok
}

export function help(output: Output, name: string | undefined): number {
  if (name === undefined) return list(output)
  const spec = commands.find((each) => each.name === name)
  if (!spec) throw new UsageError(`there is no command ${name}`)
  output.result(spec, () => {
    output.line(`reprise ${spec.usage}`)
    output.line()
    output.line(`  ${spec.summary}`)
    output.line()
    const options: [string, OptionSpec][] = [...Object.entries(spec.options ?? {}), ...Object.entries(commonOptions)]
    const words = options.map(
      ([option, { value, short }]) => `${short ? `-${short}, ` : ''}--${option}${value ? ` ${value}` : ''}`,
    )
    const widest = Math.max(...words.map((word) => word.length))
    options.forEach(([, option], i) => {
      output.line(`  ${words[i]!.padEnd(widest)}  ${output.colours.dim(option.help)}`)
    })
  })
  return exit.ok
}

function list(output: Output): number {
  const widest = Math.max(...commands.map((spec) => spec.usage.length))
  output.result({ commands }, () => {
    for (const spec of commands)
      output.line(`  reprise ${spec.usage.padEnd(widest)}  ${output.colours.dim(spec.summary)}`)
  })
  return exit.ok
}
