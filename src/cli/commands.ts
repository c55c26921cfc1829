// The one table of commands, under the headings of `reprise help`: help, completion and parsing all read it. Each heading's
// rows are in a file of command-table/.

import type { CommandGroup, CommandRow, CommandSpec } from './command.ts'
import { branches } from './command-table/branches.ts'
import { copies } from './command-table/copies.ts'
import { execution } from './command-table/execution.ts'
import { inspection } from './command-table/inspection.ts'
import { operation } from './command-table/operation.ts'
import { processes } from './command-table/processes.ts'
import { proof } from './command-table/proof.ts'
import { start } from './command-table/start.ts'
import { storage } from './command-table/storage.ts'
import { flag, value } from './option-specs.ts'

export const commandGroups: readonly CommandGroup[] = [
  { topic: 'start', title: 'Start here', commands: start.map(specOf) },
  { topic: 'execution', title: 'Run and serve', commands: execution.map(specOf) },
  { topic: 'inspection', title: 'Inspect timelines', commands: inspection.map(specOf) },
  { topic: 'operation', title: 'Act on runs, sessions and dead letters', commands: operation.map(specOf) },
  { topic: 'processes', title: 'Workers, queues and readers of the feed', commands: processes.map(specOf) },
  { topic: 'branches', title: 'Savepoints, forks and rollbacks', commands: branches.map(specOf) },
  { topic: 'proof', title: 'Verify and repair', commands: proof.map(specOf) },
  { topic: 'copies', title: 'Copy, move and restore', commands: copies.map(specOf) },
  { topic: 'storage', title: 'Retention, erasure, keys and databases', commands: storage.map(specOf) },
]

export const commands: readonly CommandSpec[] = commandGroups.flatMap((group) => group.commands)

export const commonOptions = {
  url: value('URL', 'the store (default: $REPRISE_URL or sqlite:.reprise/reprise.db)'),
  namespace: value('NAME', 'namespace in the store'),
  blobs: value('DIR', 'folder or s3://bucket/prefix of chunks outside the store (default: $REPRISE_BLOBS)'),
  keys: value('FILE', 'encryption keys, as JSON: { current, keys: { id: base64 } } (default: $REPRISE_KEYS)'),
  json: flag('print results as JSON'),
  verbose: flag('show stack traces of errors'),
  help: flag('show this help', 'h'),
} as const

function specOf(row: CommandRow): CommandSpec {
  const [words = ''] = row.usage.split(' --')
  const [name = '', ...rest] = words.split(' ')
  return { ...row, name, arguments: row.arguments ?? argumentsOf(rest) }
}

/** @example argumentsOf(['NAME', '[KEY…]']) // [1, 1000] */
function argumentsOf(words: readonly string[]): readonly [number, number] {
  let least = 0
  let isOptional = false
  for (const word of words) {
    isOptional ||= word.startsWith('[')
    if (!isOptional && word !== '…') least++
    if (word.endsWith(']')) isOptional = false
  }
  return [least, words.some((word) => word.includes('…')) ? 1000 : words.length]
}
