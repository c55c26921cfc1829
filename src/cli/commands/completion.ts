// reprise completion: a script for the shell, generated from the table of commands.

import type { Command, CommandTable } from '../command.ts'
import { exit, UsageError } from '../exit.ts'

const completion: Command = ({ args, output, table }) => {
  const shell = args[0]!
  const make = Object.hasOwn(scripts, shell) ? scripts[shell as keyof typeof scripts] : null
  if (!make) throw new UsageError(`no completion for ${shell}`, 'bash, zsh and fish are supported')
  const script = make(table)
  output.result({ shell, script }, () => output.lines(script))
  return exit.ok
}

export default completion

const names = ({ commands }: CommandTable) => commands.map((spec) => spec.name).join(' ')
const optionsOf = ({ commands, commonOptions }: CommandTable, name: string) => {
  const spec = commands.find((each) => each.name === name)!
  return [...Object.keys(spec.options ?? {}), ...Object.keys(commonOptions)].map((option) => `--${option}`).join(' ')
}

const scripts = {
  bash: (table: CommandTable) => `_reprise() {
  local word=\${COMP_WORDS[COMP_CWORD]} command=\${COMP_WORDS[1]}
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "${names(table)} help" -- "$word")); return; fi
  case "$command" in
${table.commands.map((spec) => `    ${spec.name}) COMPREPLY=($(compgen -W "${optionsOf(table, spec.name)}" -- "$word")) ;;`).join('\n')}
  esac
  [ \${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$word"))
}
complete -F _reprise reprise`,
  zsh: (table: CommandTable) => `#compdef reprise
_reprise() {
  if (( CURRENT == 2 )); then compadd ${names(table)} help; return; fi
  case "\${words[2]}" in
${table.commands.map((spec) => `    ${spec.name}) compadd -- ${optionsOf(table, spec.name)} ;;`).join('\n')}
  esac
  _files
}
compdef _reprise reprise`,
  fish: ({ commands }: CommandTable) =>
    [
      'complete -c reprise -f',
      ...commands.map(
        (spec) =>
          `complete -c reprise -n __fish_use_subcommand -a ${spec.name} -d '${spec.summary.replaceAll("'", '’')}'`,
      ),
      ...commands.flatMap((spec) =>
        Object.entries(spec.options ?? {}).map(
          ([name, option]) =>
            `complete -c reprise -n '__fish_seen_subcommand_from ${spec.name}' -l ${name} -d '${option.help.replaceAll("'", '’')}'`,
        ),
      ),
    ].join('\n'),
}
