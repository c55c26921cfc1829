// Connections. Every call ends: an unreachable server is retried with growing pauses until connectTimeoutMs; a
// statement without an answer fails after statementTimeoutMs, and its connection is dropped.
// There is no session state except for settings at connect (session-settings.ts), and no session locks: a pooler in
// transaction mode works. Calls of our functions are prepared statements, and continue unprepared once one is missing,
// or exists already, because a pooler shares sessions. Features that need a session have one of their own (session.ts).

import { RepriseError } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { realTime, sleep, within } from '../../lib/waiting.ts'
import { Call, type CallValue, callText, statementName } from './call.ts'
import { type Driver, type DriverClient, type DriverPool, ownTypes, type QueryResult } from './driver.ts'
import { isConnectionLoss, isRetryable, isStartupRefused, isStatementMisplaced, toReprise } from './failure.ts'
import { functionName } from './functions.ts'
import { patientClient } from './patient-client.ts'
import { withoutSettings, withSettings } from './session-settings.ts'
import { Slots } from './slots.ts'

export interface ConnectionOptions {
  readonly poolSize: number
  readonly connectTimeoutMs: number
  readonly statementTimeoutMs: number
  /** Prepared statements for calls of our functions, as long as they work. */
  readonly isPrepared: boolean
  /** Also sets the server's session to read-only, so that nothing can be written by mistake. */
  readonly isReadOnly?: boolean
  /** A server that may lose acknowledged commits is accepted. */
  readonly isRelaxed?: boolean
}

/** The reaction to a lost answer: retry, or report it to the caller. */
export type Repeat = 'safe' | 'unsafe'

const graceMs = 500
const firstPauseMs = 20
const longestPauseMs = 500
const conflictRetriesMax = 20
const keepMs = 10
const keptMax = 2
const reserved = 2
const endlessMs = 2 ** 31 - 1

export class Connections {
  readonly driver: Driver
  #config: Readonly<Record<string, unknown>>
  readonly #Client: Driver['Client']
  #pool: DriverPool
  readonly #options: ConnectionOptions
  /** For a pooler that accepts no settings at connect. */
  readonly #plainUrl: string
  readonly #url: string
  readonly #statements = new Map<string, { readonly text: string; readonly name: string }>()
  /** The pool would count the wait for a busy connection as a server that does not answer. */
  readonly #slots: Slots
  /** User SQL may take any time: some connections are reserved, so that heartbeats and reads continue beside it. */
  readonly #userSlots: Slots
  #isPrepared: boolean
  /** All statements use this connection, in one transaction. */
  #frozen: DriverClient | null = null
  #isClosed = false
  /** Connections of the last statements, kept for the next ones: the pool takes a tenth of an append's time to lend one. */
  readonly #kept: DriverClient[] = []
  #keeping: NodeJS.Timeout | null = null

  constructor(driver: Driver, url: string, options: ConnectionOptions) {
    this.driver = driver
    this.#url = url
    this.#options = options
    this.#isPrepared = options.isPrepared
    const session = { isReadOnly: options.isReadOnly ?? false, isRelaxed: options.isRelaxed ?? false }
    this.#plainUrl = withoutSettings(url, session)
    this.#config = {
      connectionString: withSettings(url, session),
      // The server stops first, so that an abandoned statement is not executed later; the client waits a little longer
      // for its answer.
      statement_timeout: options.statementTimeoutMs,
      keepAlive: true,
      application_name: 'reprise',
    }
    const limits = { connectMs: options.connectTimeoutMs, answerMs: options.statementTimeoutMs + graceMs }
    this.#Client = patientClient(driver, limits)
    this.#pool = this.#makePool()
    this.#slots = new Slots(options.poolSize, options.connectTimeoutMs + options.statementTimeoutMs + graceMs)
    const { poolSize } = options
    this.#userSlots = new Slots(poolSize > 2 * reserved ? poolSize - reserved : poolSize, endlessMs)
  }

  /** Connections whose statements all see the current state of the database, until they are closed. */
  async freeze(): Promise<Connections> {
    const frozen = new Connections(this.driver, this.#url, { ...this.#options, poolSize: 1, isReadOnly: true })
    try {
      await frozen.#freeze()
      return frozen
    } catch (error) {
      await frozen.close()
      throw error
    }
  }

  /** The transaction lasts for minutes, idle between statements: limits for either would end it. */
  async #freeze(): Promise<void> {
    const client = await this.#checkOut('freeze', performance.now() + this.#options.connectTimeoutMs)
    this.#frozen = client
    for (const text of [
      'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
      "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')",
    ]) {
      await client.query({ text })
    }
  }

  /** A client outside of the pool. */
  newClient(config: Readonly<Record<string, unknown>>): DriverClient {
    return new this.#Client({ ...this.#config, ...config })
  }

  #makePool(): DriverPool {
    const pool = new this.driver.Pool({
      ...this.#config,
      Client: this.#Client,
      max: this.#options.poolSize,
      idleTimeoutMillis: 30_000,
      allowExitOnIdle: true,
    })
    // A connection that breaks while idle is replaced by the next call; there is no caller to report it to.
    pool.on('error', ignore)
    pool.on('connect', (client: DriverClient) => client.on('error', ignore))
    return pool
  }

  /**
   * A pooler may accept no settings at connect. Then only the client's time limit applies, and heartbeats detect other
   * settings.
   */
  #goWithoutSettings(pool: DriverPool): void {
    if (this.#pool !== pool) return
    const { statement_timeout: _, ...rest } = this.#config
    this.#config = { ...rest, connectionString: this.#plainUrl }
    this.#pool = this.#makePool()
    pool.end().catch(ignore)
  }

  /** Rows of one statement. A conflict between transactions is retried here: every write of the store can be repeated. */
  async rows<Row>(text: string, values: readonly unknown[], repeat: Repeat, doing = 'a query'): Promise<Row[]> {
    const query = { text, values, types: ownTypes }
    const result = await this.use(doing, repeat, (client) => client.query(query))
    return result.rows as Row[]
  }

  /**
   * Rows of a read that is planned without statistics (functions.ts, steady). Its values are $1[1], $1[2], … in the
   * text; `columns` are the names and types of its result.
   */
  steadyRows<Row>(
    s: string,
    text: string,
    columns: string,
    values: readonly (string | null)[],
    doing: string,
  ): Promise<Row[]> {
    const outer = `SELECT * FROM ${functionName(s, 'steady')}($1, $2) AS x(${columns})`
    return this.rows<Row>(outer, [text, values], 'safe', doing)
  }

  /** The value of one of our writing functions. As with any write, it is not retried if its answer is lost. */
  call(functionName: string, values: readonly CallValue[]): Promise<string | null> {
    const statement = this.#statements.get(functionName) ?? this.#statement(functionName, values.length)
    return this.use(functionName, 'unsafe', async (client) => {
      try {
        return await send(client, statement.text, this.#isPrepared ? statement.name : '', values)
      } catch (error) {
        if (!isStatementMisplaced(error)) throw error
        // A pooler shares the sessions among its clients. Nothing was done; later calls are not prepared.
        this.#isPrepared = false
        return await send(client, statement.text, '', values)
      }
    })
  }

  #statement(functionName: string, count: number) {
    const text = callText(functionName, count)
    const statement = { text, name: statementName(text) }
    this.#statements.set(functionName, statement)
    return statement
  }

  /** A transaction of several statements. */
  async transaction<Result>(
    doing: string,
    work: (run: RunSql) => Promise<Result>,
    timeoutMs = this.#options.statementTimeoutMs,
  ): Promise<Result> {
    return this.use(doing, 'unsafe', async (client) => {
      const query_timeout = timeoutMs + graceMs
      const run: RunSql = (text, values = []) => client.query({ text, values, types: ownTypes, query_timeout })
      await run('BEGIN')
      try {
        if (timeoutMs !== this.#options.statementTimeoutMs) await run(`SET LOCAL statement_timeout = ${timeoutMs}`)
        const result = await work(run)
        await run('COMMIT')
        return result
      } catch (error) {
        await run('ROLLBACK')
        throw error
      }
    })
  }

  /** `spend`: marks the connection as not reusable. */
  async use<Result>(
    doing: string,
    repeat: Repeat,
    work: (client: DriverClient, spend: () => void) => Promise<Result>,
    isRaw = false,
  ): Promise<Result> {
    if (!this.#slots.tryTake()) await this.#slots.take(doing)
    try {
      return await this.#use(doing, repeat, work, isRaw)
    } finally {
      this.#slots.release()
    }
  }

  /** For a transaction with the user's SQL: waits for the running ones, however long they take. */
  async inUserTurn<Result>(doing: string, work: () => Promise<Result>): Promise<Result> {
    if (!this.#userSlots.tryTake()) await this.#userSlots.take(doing)
    try {
      return await work()
    } finally {
      this.#userSlots.release()
    }
  }

  async #use<Result>(
    doing: string,
    repeat: Repeat,
    work: (client: DriverClient, spend: () => void) => Promise<Result>,
    isRaw: boolean,
  ): Promise<Result> {
    if (this.#frozen) return await this.#useFrozen(this.#frozen, doing, work)
    const until = performance.now() + this.#options.connectTimeoutMs
    for (let attempt = 1; ; attempt++) {
      const client = await this.#checkOut(doing, until)
      let isSpent = false
      const spend = () => {
        isSpent = true
      }
      try {
        const result = await work(client, spend)
        this.#giveBack(client, isSpent)
        return result
      } catch (error) {
        const isLost = isConnectionLoss(error)
        this.#giveBack(client, isLost || isSpent)
        if (isRaw) throw error
        const isWorthAnother = isRetryable(error)
          ? attempt <= conflictRetriesMax
          : isLost && repeat === 'safe' && performance.now() < until
        if (!isWorthAnother) throw toReprise(error, doing)
        await pause(attempt)
      }
    }
  }

  /** Not retried: a new transaction would see a different snapshot. */
  async #useFrozen<Result>(
    client: DriverClient,
    doing: string,
    work: (client: DriverClient, spend: () => void) => Promise<Result>,
  ): Promise<Result> {
    this.checkOpen()
    try {
      return await work(client, ignore)
    } catch (error) {
      throw toReprise(error, doing)
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    // Ends its transaction, too.
    this.#frozen?.release(true)
    this.#frozen = null
    this.#endKept()
    // A hanging server must not delay closing.
    await within(realTime, 2000, this.#pool.end().catch(ignore))
  }

  checkOpen(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the PostgreSQL store is closed')
  }

  /** Nothing was sent yet, so a retry is always safe. */
  async #checkOut(doing: string, until: number): Promise<DriverClient> {
    for (let attempt = 1; ; attempt++) {
      this.checkOpen()
      const kept = this.#kept.pop()
      if (kept) return kept
      const pool = this.#pool
      try {
        return await pool.connect()
      } catch (error) {
        if (isStartupRefused(error) && 'statement_timeout' in this.#config) {
          this.#goWithoutSettings(pool)
          continue
        }
        const failure = toReprise(error, doing)
        const isHopeless = failure.code !== 'STORE_UNREACHABLE' || isRefusedForGood(error)
        if (isHopeless || performance.now() >= until) throw failure
        await pause(attempt)
      }
    }
  }

  #giveBack(client: DriverClient, isLost = false): void {
    if (isLost || this.#kept.length >= keptMax || this.#isClosed) {
      client.release(isLost)
      return
    }
    this.#kept.push(client)
    this.#keeping = this.#keeping?.refresh() ?? setTimeout(() => this.#endKept(), keepMs).unref()
  }

  #endKept(): void {
    for (const client of this.#kept.splice(0)) client.release()
  }
}

export type RunSql = (text: string, values?: readonly unknown[]) => Promise<QueryResult>

function send(client: DriverClient, text: string, name: string, values: readonly CallValue[]): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const call = new Call(text, name, values, (error) => (error ? reject(error) : resolve(call.answer)))
    client.query(call)
  })
}

/** Wrong password, no such database, no such host: waiting does not help. */
function isRefusedForGood(error: unknown): boolean {
  const code = String((error as { code?: unknown })?.code ?? '')
  return code.startsWith('28') || code === '3D000' || code === 'ENOTFOUND'
}

function pause(attempt: number): Promise<void> {
  const pauseMs = growingPause(attempt, firstPauseMs, longestPauseMs) * (0.5 + Math.random())
  return sleep(realTime, pauseMs)
}

function ignore(): void {}
