// What a program is told to be run with, checked once and with its defaults.

import { resolve, sep } from 'node:path'
import { type ResolvedRetry, resolveRetry } from '../../core/calls/retry.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Settings, When } from './entries.ts'
import { keepUsually } from './model.ts'

export interface ExecOptions {
  /** The program and its arguments, without a shell. */
  readonly command: readonly string[]
  /** The folder in which it writes what it needs to go on. It belongs to the program: a restore makes it what was captured. */
  readonly state: string
  /** Where it runs; this process's own directory if left out. */
  readonly directory?: string
  /** Beside those of this process. */
  readonly env?: Readonly<Record<string, string>>
  /** The last N captures stay, at least 2; 3 if left out. Savepoints stay besides. */
  readonly keep?: number
  /**
   * What says that its files belong together: nothing has changed for `quiet` (the default), a file got its name, the file
   * `marker` is newer than all others, or only the program itself, by a word. Words count in every case.
   */
  readonly when?: When
  /** 1 second if left out. */
  readonly quiet?: Duration
  /** After this long without a capture, take one as soon as no file is being written. For `quiet` and `rename`. */
  readonly every?: Duration
  /** The path of the marker file in the folder; sets `when`. */
  readonly marker?: string
  /** Further files that are left alone, as in .gitignore: logs, caches. */
  readonly ignore?: readonly string[]
  /** From the notice that it must stop until it is killed; 25 seconds if left out. */
  readonly grace?: Duration
  /** How many failures in a row, without a capture in between, are followed by another start; 0 if left out. */
  readonly retries?: number
  /** Pause after the first failure, doubled each time up to a minute; 1 second if left out. */
  readonly backoff?: Duration
}

export interface ExecSpec extends Settings {
  readonly name: string
  readonly command: readonly string[]
  readonly directory: string
  readonly state: string
  readonly stateAt: string
  readonly env: Readonly<Record<string, string>>
  readonly retry: ResolvedRetry
}

const known = namesOf<ExecOptions>({
  command: true,
  state: true,
  directory: true,
  env: true,
  keep: true,
  when: true,
  quiet: true,
  every: true,
  marker: true,
  ignore: true,
  grace: true,
  retries: true,
  backoff: true,
})
const whens: readonly When[] = ['quiet', 'rename', 'marker', 'word']

export function specOf(name: string, options: ExecOptions): ExecSpec {
  checkOptions(`exec ${name}`, options, known)
  const { command, state, marker, every, keep = keepUsually, retries = 0, ignore = [] } = options
  const when = options.when ?? (marker === undefined ? 'quiet' : 'marker')
  if (!Array.isArray(command) || command.length === 0 || !command.every((word) => typeof word === 'string'))
    throw invalid("command must be a list of words, such as ['python', 'train.py']", { command })
  if (!whens.includes(when)) throw invalid(`when must be ${whens.join(', ')} (got ${String(when)})`, { when })
  if ((when === 'marker') !== (marker !== undefined))
    throw invalid('a marker is named with when: "marker", and only with it', { when, marker })
  if (every !== undefined && (when === 'marker' || when === 'word'))
    throw invalid(`every cannot go with ${when}: that alone says when the files are complete`, { when })
  if (!Number.isSafeInteger(keep) || keep < 2) {
    throw invalid(`keep must be at least 2 (got ${keep}): a damaged capture needs one to fall back to`, { keep })
  }
  if (!Number.isSafeInteger(retries) || retries < 0)
    throw invalid(`retries must be at least 0 (got ${retries})`, { retries })
  const directory = resolve(options.directory ?? '.')
  const stateAt = resolve(directory, state)
  refuseAround(stateAt, directory)
  return {
    name,
    command,
    directory,
    state,
    stateAt,
    env: options.env ?? {},
    when,
    quietMs: toMs(options.quiet ?? '1s', 'quiet'),
    everyMs: every === undefined ? null : toMs(every, 'every'),
    marker: marker ?? null,
    ignore,
    graceMs: toMs(options.grace ?? '25s', 'grace'),
    keep,
    retries,
    retry: resolveRetry({ attempts: retries + 1, backoff: options.backoff ?? '1s' }),
  }
}

/** What a later start takes over without being told. */
export function settingsOf(spec: ExecSpec): Settings {
  const { when, quietMs, everyMs, marker, ignore, graceMs, keep, retries } = spec
  return { when, quietMs, everyMs, marker, ignore, graceMs, keep, retries }
}

/** A restore deletes what was not captured: it is not let loose on the folder that the program itself lies in. */
function refuseAround(stateAt: string, directory: string): void {
  const below = stateAt.endsWith(sep) ? stateAt : stateAt + sep
  if (directory !== stateAt && !directory.startsWith(below)) return
  const what = `the state folder ${stateAt} holds the directory in which the program runs: give it a folder of its own`
  throw invalid(what, { state: stateAt, directory })
}

function invalid(what: string, data: Readonly<Record<string, unknown>>): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, data)
}
