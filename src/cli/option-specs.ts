// Options that several commands have.

export const limit = { type: 'string', value: 'N', help: 'how many at most' } as const
export const yes = { type: 'boolean', short: 'y', help: 'do it without asking' } as const
export const moduleOption = {
  type: 'string',
  value: 'FILE',
  help: 'module with the definition, for models this program does not know',
} as const
export const rollbackOptions = {
  before: { type: 'string', value: 'SEQ', help: 'to before this entry' },
  'before-time': { type: 'string', value: 'WHEN', help: 'to before the first entry of this time or later' },
  'until-valid': { type: 'boolean', help: 'to before the state was no longer valid, by its definition' },
  where: { type: 'string', value: 'FILE', help: 'the same, by the predicate that this module exports' },
  module: moduleOption,
  takeover: { type: 'boolean', help: 'also from a live owner' },
  yes,
} as const
