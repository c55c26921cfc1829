// Options that several commands have.

export const limit = { type: 'string', value: 'N', help: 'how many at most' } as const
export const yes = { type: 'boolean', short: 'y', help: 'do it without asking' } as const
export const moduleOption = {
  type: 'string',
  value: 'FILE',
  help: 'module with the definition, for models this program does not know',
} as const
