// Pushed configuration: versions that clients accept or refuse, and rollouts in stages. Part of reprise/resources.

export { type ConfigDefinition, type ConfigOptions, config } from './definition.ts'
export type { ConfigHandle, ConfigSetOptions, EndedOptions, ReachedOptions } from './handle.ts'
export type { RolloutOptions } from './rules/plan.ts'
export type { Tally } from './rules/rollout.ts'
export type { Rollout, RolloutEnd, RolloutStatus } from './rules/state.ts'
export type { ClientView, ConfigStatus } from './status.ts'
export type { AnswerReceipt, ClientOptions, ClientStream, NextOptions, Offer } from './stream.ts'
