// Types of crash-model.mjs, which has none so that child programs run it as it is.

import type { Keyed, TimelineDefinition } from '../../src/index.ts'

export interface Numbered {
  readonly type: 'n'
  readonly n: number
  readonly pad: string
}

export interface Progress {
  last: number
  gaps: number
  mix: number
}

export type Kind = 'plain' | 'ledger' | 'shelf'

export function entry(n: number): Numbered

export function define(
  library: { readonly timeline: unknown; readonly keyed: unknown },
  options?: { readonly every?: number },
): {
  readonly plain: TimelineDefinition<Progress, Numbered>
  readonly ledger: TimelineDefinition<Progress, Numbered>
  readonly shelf: TimelineDefinition<Progress & { items: Keyed<string> }, Numbered>
}

export function show(state: unknown): unknown

export function expected(kind: string, last: number): unknown

export interface Chance {
  number(): number
  below(limit: number): number
  chance(share: number): boolean
}

export function randomFrom(seed: number): Chance
