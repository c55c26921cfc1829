// Between `reprise dev` and the server that it has started: the server says when the module is loaded, and goes on when it is
// told to; when `reprise dev` is gone, it ends. So code that cannot be loaded never takes the place of code that runs.

const variable = 'REPRISE_DEV'

export interface DevChannel {
  /** It takes the place of another: what was said then need not be said again. */
  readonly isReload: boolean
  /** Whoever started it is gone. */
  readonly over: Promise<void>
  /** Says that everything is loaded, and resolves when it is this one's turn. */
  turn(): Promise<void>
  close(): void
}

export function devEnvironment(isReload: boolean): Record<string, string> {
  return { [variable]: isReload ? 'reload' : 'start' }
}

/** Null: nobody but a person has started this process. */
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
    close: () => {
      if (process.connected) process.disconnect()
    },
  }
}
