// Log lines with the fields of their origin. The user provides the logger: any object with four functions.

/** The shape of common loggers: console, or a logger that takes fields beside the message. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export type LogFields = Readonly<Record<string, unknown>>

/** The origin of a context's log lines. A layer has one per kind of context. */
export interface LogPlace {
  /** The fields of a line that is written now. Null: the line is dropped. */
  fields(context: never): LogFields | null
  /** Wraps the call of the logger. Default: only the call. */
  around?(write: () => void): void
}

export const logPlace: unique symbol = Symbol.for('reprise.log-place')

/** A context whose log lines carry their origin: of a workflow, an item or batch of a job, a tool, or a record of a pipeline. */
export interface Logged {
  readonly [logPlace]?: LogPlace
}

/**
 * A logger whose lines begin with the fields of their origin: the run, step, item, tool or operator, and the attempt. A
 * replay of a workflow writes no line again; lines after the last outcome in its history are written again if the run
 * left memory meanwhile, because history cannot show that they were written.
 * @example const log = logOf(ctx, console); log.info('paid', { cents })
 */
export function logOf(context: Logged, logger: Logger): Logger {
  const place = context[logPlace]
  const line =
    (level: keyof Logger) =>
    (message: string, fields: LogFields = {}) => {
      const from = place ? place.fields(context as never) : {}
      if (from === null) return
      const write = () => logger[level](message, { ...from, ...fields })
      if (place?.around) place.around(write)
      else write()
    }
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}
