// A command: its arguments, its options, and the module that implements it, loaded on demand.

import { type HistoryPoint, parsePoint } from '../core/coordinate.ts'
import { type Duration, toMs } from '../core/duration.ts'
import type { Renewal } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { UsageError } from './exit.ts'
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
  /** Further forms of the command line. */
  readonly forms?: readonly string[]
  /** One imperative phrase that fits on its line of `reprise help`. */
  readonly summary: string
  /** Sentences that only `reprise help COMMAND` prints. */
  readonly details?: string
  readonly options?: Readonly<Record<string, OptionSpec>>
  /** Minimum and maximum number of positional arguments. */
  readonly arguments: readonly [number, number]
  /**
   * The store it opens: 'reading' one that is only read, so that it needs neither the write lock nor write permission;
   * 'existing' one that exists; 'create' one that is created on first use; 'none'.
   */
  readonly store: 'reading' | 'existing' | 'create' | 'none'
  /** For a store whose file is too damaged to be opened: with this option the file is rewritten, without it only inspected. */
  readonly renewsWith?: string
  /** Options that make a reading command write. */
  readonly writesWith?: readonly string[]
  /** Options that make it work without a store. */
  readonly storelessWith?: readonly string[]
  /** Without a store it works on an empty one, unless one is named. */
  readonly mayLackStore?: true
  /** Also accepts a store whose restore has not finished. */
  readonly evenUnfinished?: true
  /** A module with one command exports it as `default`, a module with several exports each under its name. */
  readonly load: () => Promise<{ readonly default: Command } | Readonly<Record<string, Command>>>
}

/** A command as it is declared. Its name and the number of its arguments are read from `usage`, unless it states the number. */
export type CommandRow = Omit<CommandSpec, 'name' | 'arguments'> & Partial<Pick<CommandSpec, 'arguments'>>

/** The commands under one heading of `reprise help`. */
export interface CommandGroup {
  /** `reprise help TOPIC` prints the group with the usage of its commands. */
  readonly topic: string
  readonly title: string
  readonly commands: readonly CommandSpec[]
}

export type Options = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

export interface Invocation {
  readonly args: readonly string[]
  readonly options: Options
  readonly output: Output
  /** The open store; throws for commands without a store. */
  readonly engine: Reprise
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdin: NodeJS.ReadStream
  readonly isVerbose: boolean
  /** The store could not be opened and was rewritten, or would be; `engine` is available only in the first case. */
  readonly renewal: Renewal | null
  /** Every command, and the common options. */
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

/** An option with a place in history: SEQ:DIGEST. */
export function point(options: Options, name: string): HistoryPoint | undefined {
  const given = text(options, name)
  if (given === undefined) return undefined
  const found = parsePoint(given)
  if (found) return found
  throw new UsageError(
    `--${name} must be SEQ:DIGEST, with at least 16 digits of the digest`,
    'reprise show prints the sequence and the digest',
  )
}

/** An option with a duration. Its text is validated on use. */
export function duration(options: Options, name: string): Duration | undefined {
  const given = text(options, name)
  if (given !== undefined) toMs(given, `--${name}`)
  return given as Duration | undefined
}

/** An option with a whole number. */
export function whole(options: Options, name: string): number | undefined {
  const value = text(options, name)
  if (value === undefined) return undefined
  if (!/^\d+$/.test(value)) throw new UsageError(`--${name} must be a whole number (got ${value})`)
  return Number(value)
}

/** An option that may be repeated. */
export function list(options: Options, name: string): readonly string[] {
  const value = options[name]
  return typeof value === 'string' ? [value] : Array.isArray(value) ? (value as readonly string[]) : []
}

export function flag(options: Options, name: string): boolean {
  return options[name] === true
}

/** Refuses options that this form of the command would ignore. @example refuseOptions(options, ['key'], 'only with …') */
export function refuseOptions(options: Options, names: readonly string[], why: string): void {
  const given = names.filter((name) => options[name] !== undefined)
  if (given.length > 0) throw new UsageError(`${given.map((name) => `--${name}`).join(', ')}: ${why}`)
}
