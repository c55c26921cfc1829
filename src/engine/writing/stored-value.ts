// A value, optionally with a stream of bytes, as the parts of one manifest: written in bounded memory, checked before
// the first byte is returned, and read piece by piece. For layers with authority "state": saves, memo entries.

import type { Content, Part } from '../../core/checkpoint/manifest.ts'
import { type Digest, fromHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { type ByteSource, ChunkWriter } from '../checkpoint/chunk-writer.ts'
import { readManifest } from '../history/recover.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { liveChunks, verifyChunks } from '../snapshot/restore.ts'
import { ChunkInput } from '../snapshot/restore-input.ts'
import type { ChunkHold } from '../storage/chunk-hold.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { Publication } from './state-timeline.ts'

/** The part with the bytes of a stream; the value's part has no name. */
export const streamPart = 'bytes'
/** Up to this size everything is read back before it becomes visible, including chunks shared with earlier checkpoints. */
const readBackBytes = 8 * 1024 * 1024

export type StoredParts = Pick<
  Publication,
  'parts' | 'totalBytes' | 'addedBytes' | 'addedChunks' | 'readsBackAll' | 'hold'
>

export interface StreamOptions {
  /** Chunks that a checkpoint in the catalog holds: referenced, not written again. */
  readonly held?: ReadonlySet<string>
  readonly signal?: AbortSignal | undefined
}

export async function writeValue(
  kernel: Kernel,
  hold: ChunkHold,
  source: ByteSource | null,
  /** Called after the stream has been read. */
  value: () => unknown,
  { held = new Set(), signal }: StreamOptions = {},
): Promise<StoredParts> {
  const writer = new ChunkWriter(stateIo(kernel, hold), held)
  const streamed = source ? await writer.stream(source, signal) : null
  return await finishValue(kernel, hold, writer, streamed, value())
}

/** Writes the value behind its stream, and ends the output. */
export async function finishValue(
  kernel: Kernel,
  hold: ChunkHold,
  writer: ChunkWriter,
  streamed: Awaited<ReturnType<ChunkWriter['stream']>> | null,
  value: unknown,
): Promise<StoredParts> {
  const main = await writer.value(kernel.codec.encode({ shape: 'value', value }))
  await writer.output.finish()
  const totalBytes = main.storedBytes + (streamed?.storedBytes ?? 0)
  return {
    parts: [
      { kind: 'value', name: null, content: main.content },
      ...(streamed ? [{ kind: 'stream' as const, name: streamPart, content: streamed.content }] : []),
    ],
    totalBytes,
    addedBytes: writer.output.addedBytes,
    readsBackAll: totalBytes <= readBackBytes,
    addedChunks: writer.output.added,
    hold,
  }
}

export interface StoredValue {
  readonly value: unknown
  /** Null: there is no stream. */
  readonly stream: Content | null
}

/**
 * Everything is read once before the first byte is returned: damage at the end must not surface halfway. `unverified`:
 * only the value is read.
 */
export async function readValue(
  kernel: Kernel,
  record: ManifestRecord,
  { unverified = false }: { readonly unverified?: boolean } = {},
): Promise<StoredValue> {
  const { parts } = readManifest(kernel, record)
  const io = stateIo(kernel)
  const main = partNamed(parts, null)
  if (main?.kind !== 'value') throw new RepriseError('CHECKPOINT_DAMAGED', `checkpoint ${record.id} has no value`)
  const { plain } = await new ChunkInput(io).readContent(main.content, null)
  const { value } = kernel.codec.decode(plain) as { readonly value: unknown }
  const bytes = partNamed(parts, streamPart)
  const stream = bytes?.kind === 'stream' ? bytes.content : null
  if (stream && !unverified) await verifyChunks({ parts }, io)
  return { value, stream }
}

export async function* readStream(kernel: Kernel, content: Content | null): AsyncGenerator<Uint8Array> {
  if (!content) return
  const input = new ChunkInput(stateIo(kernel))
  if (content.kind === 'inline') {
    yield input.io.sealer.openChunk(content.sealed)
    return
  }
  const refs = await input.streamRefs(content, streamPart)
  let size = 0
  for await (const piece of input.readPlain(refs, streamPart)) {
    size += piece.length
    yield piece
  }
  if (size !== content.size) {
    throw new RepriseError('CHECKPOINT_DAMAGED', `the stream has ${size} bytes where ${content.size} were promised`)
  }
}

/** Deletes a chunk that does not match its digest: it is useless, and prevents an intact copy from being put. */
export async function removeRotten(kernel: Kernel, error: RepriseError): Promise<void> {
  if (error.code !== 'CHUNK_DAMAGED' || typeof error.data.digest !== 'string') return
  await kernel.store.blobs.delete([fromHex(error.data.digest)], Number.MAX_SAFE_INTEGER)
}

/** Deletes every chunk of this checkpoint that does not match its digest, as far as its lists can be read. */
export async function removeAllRotten(kernel: Kernel, record: ManifestRecord): Promise<void> {
  const manifest = readManifest(kernel, record)
  const io = stateIo(kernel)
  const noted = async (work: () => Promise<unknown>) => {
    try {
      return await work()
    } catch (error) {
      if (!isReprise(error, 'CHUNK_DAMAGED', 'CHUNK_MISSING')) throw error
      await removeRotten(kernel, error)
      return null
    }
  }
  const digests = (await noted(() => liveChunks(manifest, io))) as Digest[] | null
  for (const digest of digests ?? []) await noted(() => verifyChunks(manifest, io, [digest]))
}

function partNamed(parts: readonly Part[], name: string | null): Part | undefined {
  return parts.find((part) => part.name === name)
}
