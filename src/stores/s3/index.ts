// reprise/s3: chunks in any S3-compatible store. Most programs never import it: `open(url, { blobs:
// 's3://bucket/prefix' })` and the commands take addresses. This is for programs that read such a place themselves.

import { createHash } from 'node:crypto'
import type { Blobs } from '../../core/store/ports.ts'
import type { S3ClientOptions } from './client.ts'
import { openS3Place } from './place.ts'

export type { Blobs, Change, ChunkRow, Rewritten, StoredChunk } from '../../core/store/ports.ts'
export type { S3ClientOptions } from './client.ts'

export interface S3Options extends S3ClientOptions {
  /**
   * How long the bytes of deleted chunks are kept. Tolerates lists that are outdated by up to half of it. Default: 10
   * minutes.
   */
  readonly graceMs?: number
}

/**
 * The chunks below an address: `s3://bucket/prefix`, with `?endpoint=` and `region=` if the environment does not set
 * them.
 * Chunks of a store are below its namespace: `s3://bucket/prefix/default`.
 */
export async function s3Blobs(url: string, options: S3Options = {}): Promise<Blobs> {
  const hash = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
  return (await openS3Place(url, { ...options, hash })).blobs
}
