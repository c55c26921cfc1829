// The log of `reprise serve`, `reprise dev` and `reprise work`, on stderr. json: one row per request, error, and event of the
// work in this process. text: errors, in words.
// A row carries names of tokens, never a token.

import { isReprise, RepriseError } from '../core/errors.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { RequestLog, RequestLogger } from '../server/index.ts'
import { problemPrinter } from './action-report.ts'
import { type Options, text } from './command.ts'
import { UsageError } from './exit.ts'
import type { Output } from './output.ts'
import { logWork } from './work-log.ts'

export type LogFormat = 'json' | 'text' | 'none'

export function logFormat(options: Options): LogFormat {
  const format = text(options, 'log') ?? 'text'
  if (format !== 'json' && format !== 'text' && format !== 'none') {
    throw new UsageError('--log must be json, text or none')
  }
  return format
}

/** The server appends the id of the response to the stack of its unexpected error. */
const idOfResponse = /\((urn:uuid:[\w-]+)\)$/

export class ServeLog {
  readonly #format: LogFormat
  readonly #output: Output
  readonly #isVerbose: boolean
  /** Undefined: requests are not logged. */
  readonly requests: RequestLogger | undefined

  constructor(format: LogFormat, output: Output, isVerbose: boolean) {
    this.#format = format
    this.#output = output
    this.#isVerbose = isVerbose
    this.requests = format === 'json' ? (row) => this.#request(row) : undefined
    if (format === 'json') output.logJson()
  }

  /** Logs the problems of this engine: of its work, and of requests that failed unexpectedly. */
  follow(engine: Reprise): void {
    const { events } = engine
    if (this.#format === 'none') return
    if (this.#format === 'json') {
      logWork(engine, this.#output)
      events.on('problem', ({ where, error }) => this.#error(where, error))
      return
    }
    const print = problemPrinter(this.#output)
    events.on('problem', ({ where, error }) => {
      const isPrinted = print({ where, error })
      if (isPrinted && this.#isVerbose && error instanceof Error) this.#output.notes(error.stack ?? '')
      if (isReprise(error, 'DIVERGED')) this.#output.notes(whatToDo)
    })
  }

  #request({ time, problem, ...row }: RequestLog): void {
    const refusal = problem && { code: problem.code, ...(problem.id !== undefined && { id: problem.id }) }
    // An unexpected error is also a problem of the engine, which logs it.
    const isServers = row.status >= 500
    if (problem && isServers && problem.id === undefined) this.#error(row.route ?? row.path ?? '', problem.error)
    const level = isServers ? 'error' : problem ? 'warn' : 'info'
    this.#output.log({ time: new Date(time).toISOString(), level, kind: 'request', ...row, ...refusal })
  }

  #error(where: string, error: unknown): void {
    const [, id] = idOfResponse.exec(where) ?? []
    const { message, stack } = error instanceof Error ? error : new Error(String(error))
    const known = error instanceof RepriseError ? error : null
    this.#output.log({
      ...{ level: 'error', kind: 'error', where, code: known?.code ?? 'BUG', ...(id !== undefined && { id }), message },
      ...(known && { hint: known.hint }),
      ...(this.#isVerbose && { stack }),
    })
  }
}

const whatToDo = `  The code no longer matches the recorded history of this run. Nothing was executed, and the run waits:
  - undo the edit: with the old code, the run continues
  - or keep both: if (ctx.patch('name-of-change')) { the new code } else { the old code }
  - or continue a copy with the new code from an earlier entry: reprise fork RUN@SEQ NAME`
