// The bytes of a complete upload: read in any range, in bounded memory, with each chunk checked before it is returned.

import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { StreamReader } from '../../engine/writing/growing-stream.ts'
import type { UploadState } from './rules/state.ts'
import type { StoredUpload } from './stored-upload.ts'

export interface UploadedFile {
  readonly id: string
  readonly timeline: string
  readonly size: number
  readonly metadata: Readonly<Record<string, string>>
  /** The creator, as the server knows it. */
  readonly by: string | null
  readonly createdAt: Date
  readonly etag: string
  /** Bytes from `from` up to, but excluding, `to`. Default: all. */
  read(from?: number, to?: number): AsyncGenerator<Uint8Array>
}

export function fileOf(kernel: Kernel, { timeline, state, parts }: StoredUpload): UploadedFile {
  const { offset: size, metadata, by, createdAt, etag } = state satisfies UploadState
  return {
    id: timeline.slice(timeline.lastIndexOf('/') + 1),
    ...{ timeline, size, metadata, by, etag: etag ?? '' },
    createdAt: new Date(createdAt),
    read: (from = 0, to = size) => new StreamReader(parts, stateIo(kernel)).read(from, Math.min(to, size)),
  }
}
