// An entry in transit between two stores, as one self-verifying stream of bytes:
//
//     "RPMEMO" 1 | length of the head, 4 bytes | head | bytes of the stream, if there is one | sha256 of all before
//
// The head is canonically encoded: { name, key, streamBytes, envelope }. A frame that is truncated, changed, of another key,
// or too long is refused before any of it becomes visible.

import { createHash } from 'node:crypto'
import { RepriseError } from '../../core/errors.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { ExactReader } from '../../lib/exact-reader.ts'
import type { Envelope } from './entry.ts'
import type { Key, KeyParts } from './key.ts'

type Coding = Pick<Kernel, 'codec' | 'limits'>

export interface Frame {
  readonly envelope: Envelope
  readonly streamBytes: number | null
  /** Throws at its end unless the whole frame is intact. Null: the frame has no stream, and is already checked. */
  readonly stream: AsyncIterable<Uint8Array> | null
}

const magic = Buffer.from('RPMEMO\u0001', 'latin1')
const lengthBytes = 4
const digestBytes = 32

export async function* writeFrame(
  { codec }: Coding,
  about: {
    readonly name: string
    readonly key: string
    readonly envelope: Envelope
    readonly streamBytes: number | null
  },
  stream: AsyncIterable<Uint8Array> | null,
): AsyncGenerator<Uint8Array> {
  const { name, key, envelope, streamBytes } = about
  const head = codec.encode({ name, key, envelope, streamBytes })
  const length = Buffer.alloc(lengthBytes)
  length.writeUInt32BE(head.length)
  const hash = createHash('sha256')
  const opening = Buffer.concat([magic, length, head])
  hash.update(opening)
  yield opening
  for await (const piece of stream ?? []) {
    hash.update(piece)
    yield piece
  }
  yield hash.digest()
}

/** MALFORMED unless the frame has this name, key and parts. */
export async function readFrame(
  coding: Coding,
  body: AsyncIterable<Uint8Array>,
  name: string,
  key: Key,
): Promise<Frame> {
  const { codec, limits } = coding
  const bytes = new FrameBytes(body)
  const opening = await bytes.exactly(magic.length + lengthBytes)
  const length = Buffer.from(opening).readUInt32BE(magic.length)
  if (!magic.equals(opening.subarray(0, magic.length))) throw malformed('it is not an entry of this format')
  if (length > limits.valueBytes) throw malformed('its head is too long')
  const head = decoded(codec, await bytes.exactly(length))
  const { envelope, streamBytes } = checked(coding, head, name, key.hex, await key.parts())
  if (streamBytes === null) {
    await bytes.end()
    return { envelope, streamBytes, stream: null }
  }
  return { envelope, streamBytes, stream: bytes.stream(streamBytes) }
}

function decoded(codec: Coding['codec'], bytes: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    return codec.decode(bytes) as Readonly<Record<string, unknown>>
  } catch (error) {
    throw malformed(`its head cannot be read (${(error as Error).message})`)
  }
}

function checked(
  { codec }: Coding,
  head: Readonly<Record<string, unknown>>,
  name: string,
  key: string,
  parts: KeyParts,
): Omit<Frame, 'stream'> {
  if (typeof head !== 'object' || head === null) throw malformed('its head is not a record')
  const { envelope, streamBytes } = head
  if (head.name !== name || head.key !== key || !isEnvelope(envelope)) throw malformed('it is a different entry')
  // The key alone is not sufficient: the sender chose the location.
  if (Buffer.compare(codec.encode(envelope.parts), codec.encode(parts)) !== 0)
    throw malformed('its parts differ from the request')
  if (streamBytes !== null && !(Number.isSafeInteger(streamBytes) && (streamBytes as number) >= 0)) {
    throw malformed('its length is not a number')
  }
  if (envelope.outcome.kind === 'bytes' && streamBytes === null) throw malformed('its stream is missing')
  return { envelope, streamBytes: streamBytes as number | null }
}

function isEnvelope(value: unknown): value is Envelope {
  if (typeof value !== 'object' || value === null) return false
  const { parts, computedAt, tookMs, by, for: asker, outcome } = value as Partial<Record<keyof Envelope, unknown>>
  const kind = (outcome as { readonly kind?: unknown } | null | undefined)?.kind
  return (
    typeof parts === 'object' &&
    Number.isFinite(computedAt) &&
    Number.isFinite(tookMs) &&
    typeof by === 'string' &&
    (asker === null || typeof asker === 'string') &&
    // Errors are not sent to other stores.
    (kind === 'value' || kind === 'bytes')
  )
}

function malformed(why: string): RepriseError {
  return new RepriseError('MALFORMED', `the response of the cache is not used: ${why}`, {})
}

/** Reads exact lengths of a frame, and hashes them. */
class FrameBytes {
  readonly #body: ExactReader
  readonly #hash = createHash('sha256')

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = new ExactReader(body, () => malformed('it ends early'))
  }

  async exactly(length: number): Promise<Uint8Array> {
    const bytes = await this.#body.exactly(length)
    this.#hash.update(bytes)
    return bytes
  }

  async *stream(length: number): AsyncGenerator<Uint8Array> {
    for await (const piece of this.#body.pieces(length)) {
      this.#hash.update(piece)
      yield piece
    }
    await this.end()
  }

  async end(): Promise<void> {
    const digest = this.#hash.digest()
    if (!digest.equals(await this.#body.exactly(digestBytes))) throw malformed('its digest differs')
    if (!(await this.#body.isAtEnd())) throw malformed('it continues after its end')
  }
}
