// Bounds of the server: every size, number and duration that a client controls has one here, and a test on each side of it.

export interface ServerLimits {
  /** Largest body of a request, in bytes. */
  readonly bodyBytes: number
  /** Largest checkpoint a sidecar may store, in bytes. */
  readonly checkpointBytes: number
  /** Largest imported file, in bytes. */
  readonly importBytes: number
  /** Largest artifact of a build tool, in bytes. Artifacts are streamed, so memory stays bounded. */
  readonly artifactBytes: number
  /** Total size of a request's headers, in bytes. */
  readonly headerBytes: number
  /** Longest address of a request including its query, in characters. */
  readonly urlLength: number
  /** Concurrent requests; further ones are refused with OVERLOADED. */
  readonly concurrency: number
  /** Concurrent clients of the feed. */
  readonly streams: number
  /** Longest duration of a request, in milliseconds; verify, drill and collect may take ten times as long. */
  readonly requestMs: number
  /** How long a client waits for a store whose commits fail, in milliseconds; then it receives OUTCOME_UNKNOWN. */
  readonly storeMs: number
  /** How long `close` waits for requests in progress, in milliseconds. */
  readonly closeMs: number
  /** Entries or timelines on one page. */
  readonly pageItems: number
  /** Longest lease a sidecar may request, in milliseconds. */
  readonly leaseMs: number
  /** Concurrent leases and open timelines of sidecars. */
  readonly openTimelines: number
  /** Number of searchable timelines; in a larger store, the first ones by id. */
  readonly indexedTimelines: number
  /** How long the response to a request with an Idempotency-Key is stored, in milliseconds. */
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
