// A call of one of our functions: values in, one value out, as text. It is sent as a query of its own kind (the driver calls
// that submittable), without the parts that a call does not need: no description of the result, no rows, no copies. A commit is
// one such call, so this is most of the client's cost of an append.

import { createHash } from 'node:crypto'
import type { DriverConnection, Submittable } from './driver.ts'

/** As the driver sends them: text, or bytes in binary. */
export type CallValue = string | Buffer | null

/** @example callText('"reprise".append_one_v1', 2) // 'SELECT "reprise".append_one_v1($1,$2) AS answer' */
export function callText(name: string, count: number): string {
  return `SELECT ${name}(${Array.from({ length: count }, (_, i) => `$${i + 1}`).join(',')}) AS answer`
}

/**
 * The name of a prepared statement is derived from its text. Behind a pooler, sessions of the server are shared with
 * other clients: an existing statement of this name has this text.
 */
export function statementName(text: string): string {
  return `reprise_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
}

export class Call implements Submittable {
  /** The driver records name and text of a parsed statement. Without a name it is parsed every time. */
  readonly name: string
  readonly text: string
  callback: (error: unknown) => void
  answer: string | null = null
  readonly #values: readonly CallValue[]

  constructor(text: string, name: string, values: readonly CallValue[], callback: (error: unknown) => void) {
    this.text = text
    this.name = name
    this.#values = values
    this.callback = callback
  }

  submit(connection: DriverConnection): null {
    const { name, text } = this
    const { stream } = connection
    stream.cork?.()
    if (name === '' || connection.parsedStatements[name] === undefined) connection.parse({ name, text })
    connection.bind({ statement: name, values: this.#values })
    connection.execute({})
    connection.sync()
    stream.uncork?.()
    return null
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.answer = fields[0]!
  }

  handleReadyForQuery(): void {
    this.callback(null)
  }

  handleError(error: unknown): void {
    this.callback(error)
  }

  handleRowDescription(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}
