export interface ClientTransaction {
  /** The transaction that the application passes to within(). */
  readonly handle: unknown
  run(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** A transaction inside this one: if the work throws, it is undone and throws. */
  nest(work: (tx: ClientTransaction) => Promise<void>): Promise<unknown>
}
export interface Client {
  /** Commits if the work resolves. */
  transaction(work: (tx: ClientTransaction) => Promise<void>): Promise<unknown>
  close(): Promise<unknown>
}
export declare const postgresClients: Readonly<Record<string, (url: string) => Client>>
export declare const sqliteClients: Readonly<Record<string, (file: string) => Client>>
/** Nested transactions by SAVEPOINT, for clients without an interface for them. */
export declare function bySavepoint(run: ClientTransaction['run'], handle: unknown): ClientTransaction
