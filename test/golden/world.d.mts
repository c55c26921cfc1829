import type { Reprise } from '../../src/index.ts'

/** The package of some version: what its entries export, together. */
export type Package = Readonly<Record<string, unknown>>
export type Definitions = Readonly<Record<string, never>>
export type Answers = Readonly<Record<string, unknown>>

export function define(m: Package): Definitions
export function fill(rp: Reprise, d: Definitions): Promise<void>
export function ask(rp: Reprise, d: Definitions): Promise<Answers>
export function goOn(rp: Reprise, d: Definitions): Promise<Answers>
