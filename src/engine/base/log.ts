// Lines of a log that say where they come from. Who logs, and how, is the user's: any object with four functions.

/** What most loggers are: console, or one that keeps fields apart from the message. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export type LogFields = Readonly<Record<string, unknown>>

/**
 * Each line gets what `place` says at that moment, before its own fields. Null: nothing is written. `around` calls the logger,
 * where it needs a place of its own.
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
