// What a command is: its words, its options, and the module that does it, loaded when it is called.

import type { Duration } from '../core/duration.ts'
import type { Renewal } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { Output } from './output.ts'

export interface OptionSpec {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly multiple?: boolean
  readonly value?: string
  readonly help: string
}

export interface CommandSpec {
  readonly name: string
  readonly usage: string
  readonly summary: string
  readonly options?: Readonly<Record<string, OptionSpec>>
  /** Positional arguments: how many at least and at most. */
  readonly arguments: readonly [number, number]
  /**
   * Which store it is given: 'reading' one that is only read, so that it needs neither the write lock nor the right to
   * write; 'existing' one that is there; 'create' one that is made when it is first used; 'none'.
   */
  readonly store: 'reading' | 'existing' | 'create' | 'none'
  /**
   * What to do about a store whose file is too damaged to be opened: with this option it is written anew, without it looked
   * at.
   */
  readonly renewsWith?: string
  /** Options with which a command that reads writes after all. */
  readonly writesWith?: readonly string[]
  /** Without a store it works on an empty one, unless one is named. */
  readonly mayLackStore?: true
  /** It also takes a store whose restore has not finished. */
  readonly evenUnfinished?: true
  readonly load: () => Promise<{ readonly default: Command }>
}

export type Options = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

export interface Invocation {
  readonly args: readonly string[]
  readonly options: Options
  readonly output: Output
  /** The open store; throws for commands that have none. */
  readonly engine: Reprise
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: NodeJS.ReadStream
  readonly isVerbose: boolean
  /** The store did not open and was written anew, or would be; `engine` is there in the first case only. */
  readonly renewal: Renewal | null
  /** Every command, and the options that all of them take. */
  readonly table: CommandTable
}

export interface CommandTable {
  readonly commands: readonly CommandSpec[]
  readonly commonOptions: Readonly<Record<string, OptionSpec>>
}

/** Resolves to the exit code. */
export type Command = (invocation: Invocation) => Promise<number> | number

export function text(options: Options, name: string): string | undefined {
  const value = options[name]
  return typeof value === 'string' ? value : undefined
}

/** An option that takes a duration. Its text is checked where it is used. */
export function duration(options: Options, name: string): Duration | undefined {
  return text(options, name) as Duration | undefined
}

/** An option that may be given several times. */
export function list(options: Options, name: string): readonly string[] {
  const value = options[name]
  return typeof value === 'string' ? [value] : Array.isArray(value) ? (value as readonly string[]) : []
}

export function flag(options: Options, name: string): boolean {
  return options[name] === true
}
