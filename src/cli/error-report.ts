// The form of an error for people: its code, message, location in the user's files, cause, and remedy in terms of the command
// line. The JSON has the same fields.

import { explain, noTimelineHint, RepriseError } from '../core/errors.ts'
import { isWithin } from '../core/history/scope.ts'
import type { CommandSpec } from './command.ts'
import { type Place, placeOf } from './error-location.ts'
import { UsageError } from './exit.ts'
import type { Output } from './output.ts'

export interface ErrorReport {
  readonly code: string
  readonly message: string
  readonly why: string | null
  readonly hint: string
  readonly remedy: string
  readonly data: Readonly<Record<string, unknown>>
}

/** `options`: those of the failed command. */
export function errorReportOf(error: unknown, options: CommandSpec['options'] = {}): ErrorReport {
  const report = inFlags(describe(error), error, options)
  const place = error instanceof UsageError ? null : placeOf(error)
  return place ? { ...report, data: { ...report.data, at: shown(place) } } : report
}

function shown({ file, line, column }: Place): string {
  return column === null ? `${file}:${line}` : `${file}:${line}:${column}`
}

function describe(error: unknown): ErrorReport {
  const message = error instanceof Error ? error.message : String(error)
  const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : null
  if (error instanceof RepriseError) {
    const { code, remedy, data } = error
    return { code, message: message.replace(/ \[[A-Z_]+\]$/, ''), why, hint: cureOf(error), remedy, data }
  }
  if (error instanceof UsageError) {
    return { code: 'USAGE', message, why, hint: error.hint, remedy: 'fix', data: {} }
  }
  const { code, syscall, path } = (error ?? {}) as { code?: unknown; syscall?: unknown; path?: unknown }
  if (typeof code === 'string' && typeof syscall === 'string' && typeof path === 'string') {
    const words = message.replace(`${code}: `, '')
    return { code, message: words, why, hint: 'Check the path and its permissions.', remedy: 'fix', data: { path } }
  }
  if (error instanceof SyntaxError) {
    return {
      code: 'ERROR',
      message,
      why,
      hint: 'Correct the file at the named line.',
      remedy: 'fix',
      data: {},
    }
  }
  // Thrown by the user's own code, or a bug in Reprise.
  return { code: 'ERROR', message, why, hint: '--verbose prints its stack trace.', remedy: 'stop', data: {} }
}

export function reportError(
  error: unknown,
  output: Output,
  isVerbose: boolean,
  options?: CommandSpec['options'],
): void {
  const { red, bold, dim } = output.errorColours
  const report = errorReportOf(error, options)
  const { code, message, why, hint } = report
  output.json({ error: report })
  reportLines(output, `${red(bold(code))} `, message)
  if (typeof report.data.at === 'string') output.note(`${dim('at   ')}${report.data.at}`)
  if (why && !message.includes(why)) reportLines(output, dim('why  '), why)
  reportLines(output, dim('cure '), hint)
  if (error instanceof RepriseError) output.note(`${dim('more ')}reprise explain ${code} (${error.docs})`)
  if (isVerbose && error instanceof Error) reportLines(output, '', error.stack ?? '')
}

/** Further lines are indented: no line of it must look like one of ours. */
function reportLines(output: Output, start: string, text: string): void {
  const [first, ...rest] = text.split('\n')
  output.note(`${start}${first}`)
  for (const line of rest) output.note(`     ${line}`)
}

/**
 * The library's hints name its options, as in { takeover: true }; the flags of the current command have the same names.
 * @example inFlags(report, owned, run.options).hint // '… Here: --takeover.'
 * /
 */
function inFlags(report: ErrorReport, error: unknown, options: NonNullable<CommandSpec['options']>): ErrorReport {
  const hint = error instanceof RepriseError ? error.hint : ''
  const advised = [...`${report.message} ${hint}`.matchAll(/\{ (\w+)/g)].map(([, name]) => name!)
  const flags = [...new Set(advised)].flatMap((name) => {
    const option = options[name]
    return option ? [option.value === undefined ? `--${name}` : `--${name} ${option.value}`] : []
  })
  return flags.length === 0 ? report : { ...report, hint: `${report.hint} Here: ${flags.join(', ')}.` }
}

/** The library's hints name its functions; here they are replaced with commands and flags. */
function cureOf(error: RepriseError): string {
  if (error.hint === noTimelineHint) return 'reprise ls lists the timelines; --url and --namespace select the store.'
  // A specific hint takes precedence.
  if (error.hint !== explain(error.code).hint) return error.hint
  if (error.code === 'NOT_FOUND') {
    if ('file' in error.data) return 'Check the name of the file and its exports.'
    if ('url' in error.data) return 'Run something first, or name the store with --url or $REPRISE_URL.'
  }
  if (error.code === 'OWNED') return 'A live worker has it (reprise workers): wait for it, or stop it first.'
  if (error.code === 'OUT_OF_RANGE') return 'reprise show prints the range of its history.'
  const { timeline, run } = error.data
  if (error.code === 'ENDED')
    return `reprise show ${String(timeline)} shows how it ended. ${afterEnd(String(timeline), run)}.`
  if (error.code === 'CONFLICT' && run !== undefined && timeline !== undefined) {
    return `reprise show ${String(timeline)} shows its current state.`
  }
  return error.hint
}

/** Actions on an ended run. A finished pipeline has read all of its sources. */
function afterEnd(timeline: string, run: unknown): string {
  if (run !== undefined) return 'retry undoes a failure; fork and rollback continue from an earlier step'
  if (!isWithin('pipeline/', timeline)) return 'run restarts it'
  return 'All of its sources were read: fork it at an earlier sequence, or run it from the beginning with another --id'
}
