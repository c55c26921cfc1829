// Log lines with the fields of their origin. The user provides the logger: any object with four functions.

/** The shape of common loggers: console, or a logger that takes fields beside the message. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export type LogFields = Readonly<Record<string, unknown>>

/**
 * Each line gets the current fields of `place`, before its own fields. Null: the line is dropped. `around` wraps the
 * call of the logger.
 */
export function placed(
  logger: Logger,
  place: () => LogFields | null,
  around: (write: () => void) => void = (write) => write(),
): Logger {
  const line =
    (level: keyof Logger) =>
    (message: string, fields: LogFields = {}) => {
      const where = place()
      if (where) around(() => logger[level](message, { ...where, ...fields }))
    }
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}
