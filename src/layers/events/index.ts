// reprise/events: aggregates (decide and evolve), projections of their events, and commands between them.

export { type AggregateDefinition, type AggregateOptions, aggregate } from './aggregate.ts'
export type { AggregateHandle } from './handle.ts'
export type { Happened, When } from './history.ts'
export { type Personal, personal } from './personal.ts'
export { Refused } from './refused.ts'
export { checked, type StandardSchema } from './schema.ts'
export type { CommandInfo, CommandOptions, Done, EventInfo, EventOf, Metadata } from './types.ts'
