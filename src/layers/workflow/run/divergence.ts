// Messages for people about differences between history and code.

import { RepriseError } from '../../../core/errors.ts'
import type { Item } from '../history/entries.ts'
import type { Command } from './command.ts'
import { readableId } from './scope.ts'

/** The command that history expects from the code. */
export interface Expected {
  readonly id: string | null
  readonly seq: number | null
  readonly what: string
}

export function describeItem(item: Item): string {
  switch (item.kind) {
    case 'done':
      return `the result of ${readableId(item.id)}`
    case 'failed':
      return `the failure of ${readableId(item.id)}`
    case 'child':
      return `the end of child ${readableId(item.id)}`
    case 'timer':
      return `the timer ${readableId(item.id)}`
    case 'loop':
      return `iteration ${item.n} of ${readableId(item.id)}`
    default:
      return `a ${item.kind}`
  }
}

export function divergence({ id, seq, what }: Expected, requested: Iterable<Command>, isOver: boolean): RepriseError {
  const asks = [...requested].map(describeCommand)
  const code = isOver
    ? 'the code has ended'
    : asks.length > 0
      ? `the code requests ${asks.join(', ')}`
      : 'the code requests nothing'
  const where = seq === null ? '' : ` at sequence ${seq}`
  return new RepriseError('DIVERGED', `history has ${what}${where}, ${code}`, {
    seq,
    step: id === null ? null : readableId(id),
    history: what,
    code: isOver ? ['(ended)'] : asks,
  })
}

function describeCommand(command: Command): string {
  return command.kind === 'step' ? readableId(command.id) : `${command.kind} ${readableId(command.id)}`
}
