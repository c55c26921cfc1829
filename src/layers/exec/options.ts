// The options of a program, validated and with defaults applied.

import { resolve, sep } from 'node:path'
import { type Duration, positiveMs, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, namesOf } from '../../core/options.ts'
import { type ResolvedRetry, type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { CaptureWhen, Settings } from './entries.ts'
import { keepUsually } from './model.ts'

export interface ExecOptions {
  /** The program and its arguments, without a shell. */
  readonly command: readonly string[]
  /**
   * The folder that holds the program's state. It belongs to the program: a restore replaces its content with the captured
   * files.
   */
  readonly state: string
  /** Working directory of the program. Default: that of this process. */
  readonly directory?: string
  /** Added to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>
  /** Number of captures to keep, at least 2; savepoints are kept in addition. Default: 3. */
  readonly keep?: number
  /**
   * The condition under which its files form a complete set: unchanged for `quiet`, a rename, the file `marker` newer than
   * all others, or only a word from the program. Words are accepted in every case. Default: `quiet`.
   */
  readonly when?: CaptureWhen
  /** Default: 1 second. */
  readonly quiet?: Duration
  /** After this long without a capture, captures as soon as no file is being written. For `quiet` and `rename`. */
  readonly every?: Duration
  /**
   * The maximum age of uncaptured work: captures after half of it, as with `every`. With `marker` and `word` the
   * program itself decides. The recovery card shows whether it is kept, and the doctor and the metrics report it when it is not.
   * Default: none.
   */
  readonly loseAtMost?: Duration
  /** The path of the marker file in the folder; sets `when`. */
  readonly marker?: string
  /** Further files to exclude, as in .gitignore: logs, caches. */
  readonly ignore?: readonly string[]
  /** Time between the request to stop and the kill. Default: 25 seconds. */
  readonly grace?: Duration
  /** How often it is started again after a failure; a capture in between resets the count. Default: one attempt. */
  readonly retry?: RetryPolicy
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

const known = namesOf<ExecOptions>()(
  'command state directory env keep when quiet every loseAtMost marker ignore grace retry',
)
const usualRetry: RetryPolicy = { attempts: 1, backoff: '1s', backoffMax: '1m' }
const whens: readonly CaptureWhen[] = ['quiet', 'rename', 'marker', 'word']

export function specOf(name: string, options: ExecOptions): ExecSpec {
  checkGivenOptions(`exec ${name}`, options, known)
  const { command, state, marker, every, keep = keepUsually, ignore = [] } = options
  const when = options.when ?? (marker === undefined ? 'quiet' : 'marker')
  if (!Array.isArray(command) || command.length === 0 || !command.every((word) => typeof word === 'string'))
    throw invalid("command must be a list of words, such as ['python', 'train.py']", { command })
  if (!whens.includes(when)) throw invalid(`when must be ${whens.join(', ')} (got ${String(when)})`, { when })
  if ((when === 'marker') !== (marker !== undefined))
    throw invalid('marker requires when: "marker", and the reverse', { when, marker })
  if (every !== undefined && (when === 'marker' || when === 'word'))
    throw invalid(`every cannot be combined with ${when}, which decides when the files are complete`, { when })
  if (!Number.isSafeInteger(keep) || keep < 2) {
    throw invalid(`keep must be at least 2 (got ${keep}): after a damaged capture, recovery needs an earlier one`, {
      keep,
    })
  }
  const loseAtMostMs = options.loseAtMost === undefined ? null : positiveMs(options.loseAtMost, 'loseAtMost')
  const retry = resolveRetry(options.retry, usualRetry)
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
    everyMs: leastOf(every === undefined ? null : toMs(every, 'every'), loseAtMostMs, when),
    loseAtMostMs,
    marker: marker ?? null,
    ignore,
    graceMs: toMs(options.grace ?? '25s', 'grace'),
    keep,
    retries: retry.attempts - 1,
    retry,
  }
}

/** A capture after half of the bound leaves the other half for files that are being written, and for the capture itself. */
function leastOf(everyMs: number | null, loseAtMostMs: number | null, when: CaptureWhen): number | null {
  if (loseAtMostMs === null || when === 'marker' || when === 'word') return everyMs
  return Math.min(everyMs ?? Number.POSITIVE_INFINITY, Math.ceil(loseAtMostMs / 2))
}

/** The settings that a later start takes over. */
export function settingsOf(spec: ExecSpec): Settings {
  const { when, quietMs, everyMs, loseAtMostMs = null, marker, ignore, graceMs, keep, retries } = spec
  return {
    when,
    quietMs,
    everyMs,
    ...(loseAtMostMs !== null && { loseAtMostMs }),
    marker,
    ignore,
    graceMs,
    keep,
    retries,
  }
}

/** A restore deletes files that were not captured, so it must not run on a folder that contains the program's directory. */
function refuseAround(stateAt: string, directory: string): void {
  const below = stateAt.endsWith(sep) ? stateAt : stateAt + sep
  if (directory !== stateAt && !directory.startsWith(below)) return
  const what = `the state folder ${stateAt} contains the working directory of the program: use a separate folder`
  throw invalid(what, { state: stateAt, directory })
}

function invalid(what: string, data: Readonly<Record<string, unknown>>): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, data)
}
