// A client of the driver with our own time limits: the driver's limits run by the clock, and would mistake a busy
// process for a silent server. A server that does not answer in time loses the connection, and with it the statement.

import { patientTimer } from '../patient-timer.ts'
import type { Driver, QueryConfig, QueryResult, Submittable } from './driver.ts'

export interface AnswerLimits {
  readonly connectMs: number
  readonly answerMs: number
}

/** The driver's stream, which is accessible to query objects. */
interface Streamed {
  readonly connection: { readonly stream: { destroy(error: Error): void } }
}

type Connected = (error: unknown, ...more: readonly unknown[]) => void
/** As called by the driver's pool, and by us. */
type Connect = (connected?: Connected) => Promise<void> | undefined
type Ask = (query: QueryConfig | Submittable, ...more: readonly unknown[]) => unknown

export function patientClient(driver: Driver, limits: AnswerLimits): Driver['Client'] {
  const { Client } = driver
  class PatientClient extends Client {
    override connect(connected?: Connected): Promise<void> {
      // The socket keeps the process alive if anything should.
      const end = this.#limit(limits.connectMs, 'the server did not accept the connection before the timeout', false)
      const connect = super.connect.bind(this) as Connect
      if (!connected) return connect()!.finally(end)
      connect((...answer) => {
        end()
        connected(...answer)
      })
      return undefined as never
    }

    override query(query: QueryConfig): Promise<QueryResult>
    override query(query: Submittable): unknown
    override query(query: QueryConfig | Submittable, ...more: readonly unknown[]): unknown {
      const ask = super.query.bind(this) as Ask
      if ('submit' in query) {
        const submitted = query as Submittable & { callback?: (...answer: readonly unknown[]) => void }
        const { callback } = submitted
        const end = this.#limit(limits.answerMs, 'no response before the statement timeout')
        submitted.callback = (...answer) => {
          end()
          callback?.(...answer)
        }
        return ask(query, ...more)
      }
      const { query_timeout: answerMs = limits.answerMs, ...rest } = query
      const end = this.#limit(answerMs, 'no response before the statement timeout')
      return (ask(rest, ...more) as Promise<QueryResult>).finally(end)
    }

    /** The driver rejects everything that waits on the connection. */
    #limit(limitMs: number, what: string, keepsAlive = true): () => void {
      const give = () => (this as unknown as Streamed).connection.stream.destroy(new Error(what))
      return patientTimer(limitMs, give, keepsAlive)
    }
  }
  return PatientClient
}
