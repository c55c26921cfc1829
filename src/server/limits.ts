// The bounds of the server: whatever a client can make large, many or slow has one here, and a test on each side of it.

export interface ServerLimits {
  /** Largest body of a request, in bytes. */
  readonly bodyBytes: number
  /** Largest checkpoint that a sidecar puts, in bytes. */
  readonly checkpointBytes: number
  /** Largest file that is imported, in bytes. */
  readonly importBytes: number
  /** Largest artifact of a build tool, in bytes. It is streamed: memory stays bounded. */
  readonly artifactBytes: number
  /** All headers of a request together, in bytes. */
  readonly headerBytes: number
  /** Longest address of a request, its query included, in characters. */
  readonly urlLength: number
  /** Requests at work in the same moment; further ones are refused with OVERLOADED. */
  readonly concurrency: number
  /** Clients that follow the feed in the same moment. */
  readonly streams: number
  /** How long a request may take, in milliseconds; verify, drill and collect have ten times as long. */
  readonly requestMs: number
  /** How long a client waits for a store whose commits fail, in milliseconds; then it is told OUTCOME_UNKNOWN. */
  readonly storeMs: number
  /** How long `close` waits for what is at work, in milliseconds. */
  readonly closeMs: number
  /** Entries or timelines on one page. */
  readonly pageItems: number
  /** Longest lease that a sidecar may ask for, in milliseconds. */
  readonly leaseMs: number
  /** Leases and open timelines of sidecars in the same moment. */
  readonly openTimelines: number
  /** Timelines that can be searched; of a store that has more, the first ones by id. */
  readonly indexedTimelines: number
  /** How long the answer to a request with an Idempotency-Key is kept, in milliseconds. */
  readonly answersMs: number
}

export const defaultServerLimits: ServerLimits = {
  bodyBytes: 1024 * 1024,
  checkpointBytes: 16 * 1024 * 1024,
  importBytes: 64 * 1024 * 1024,
  artifactBytes: 2 * 1024 * 1024 * 1024,
  headerBytes: 16 * 1024,
  urlLength: 8 * 1024,
  concurrency: 128,
  streams: 1000,
  requestMs: 30_000,
  storeMs: 3000,
  closeMs: 5000,
  pageItems: 1000,
  leaseMs: 10 * 60_000,
  openTimelines: 1000,
  indexedTimelines: 250_000,
  answersMs: 24 * 3_600_000,
}
