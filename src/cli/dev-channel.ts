// Between `reprise dev` and the server it has started: the server reports when the module is loaded, and continues on
// request; when `reprise dev` exits, it ends. Code that cannot be loaded therefore never replaces running code.

const variable = 'REPRISE_DEV'

export interface DevChannel {
  /** True if this server replaces another one, whose start messages are not repeated. */
  readonly isReload: boolean
  /** Resolves when `reprise dev` has exited. */
  readonly over: Promise<void>
  /** Reports that everything is loaded, and resolves when this server may start. */
  turn(): Promise<void>
  /** Reports that the server answers requests. */
  serves(): void
  close(): void
}

export function devEnvironment(isReload: boolean): Record<string, string> {
  return { [variable]: isReload ? 'reload' : 'start' }
}

/** Null: this process was not started by `reprise dev`. */
export function devChannel(): DevChannel | null {
  const how = process.env[variable]
  if (how === undefined || !process.send) return null
  return {
    isReload: how === 'reload',
    over: new Promise((resolve) => void process.once('disconnect', () => resolve())),
    turn: () =>
      new Promise((resolve) => {
        process.once('message', () => resolve())
        process.send!('loaded')
      }),
    serves: () => void process.send!('serving'),
    close: () => {
      if (process.connected) process.disconnect()
    },
  }
}
