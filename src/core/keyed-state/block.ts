// A block: entries of a Keyed in key order, as the bytes of one chunk. Pages and delta layers both consist of blocks.
//
//   block = version(byte 1) entry*
//   entry = key size(integer; 0: the key was removed, else 1 + length of the value) value(bytes of the codec)
//   key   = units(integer: 2 × number of UTF-16 code units, + 1 if wide) then one byte per unit (all below 0x80), or two,
//           low byte first (wide). So every string can be stored, even lone surrogates, and common keys take one byte per
//           character.
//
// Values are encoded one by one: a value has the same bytes in a page and in a layer, and a reader of one key need not
// decode its neighbours.

import { ByteReader, type ByteWriter } from '../bytes.ts'
import { RepriseError } from '../errors.ts'

export const formatVersion = 1

export function beginBlock(writer: ByteWriter): void {
  writer.reset()
  writer.byte(formatVersion)
}

/** `value` is the encoded value, or null for a removed key. */
export function writeEntry(writer: ByteWriter, key: string, value: Uint8Array | null): void {
  writeKey(writer, key)
  if (value === null) {
    writer.integer(0)
    return
  }
  writer.integer(value.length + 1)
  writer.raw(value)
}

/** Visits each entry in order; checks that keys ascend. Throws MALFORMED on anything else. */
export function readBlock(bytes: Uint8Array, visit: (key: string, value: Uint8Array | null) => void): void {
  const reader = new ByteReader(bytes)
  const version = reader.byte()
  if (version !== formatVersion) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `block format ${version} is not known`, {
      version,
      known: formatVersion,
    })
  }
  let before: string | undefined
  while (reader.remaining > 0) {
    const key = readKey(reader)
    if (before !== undefined && !(before < key)) throw new RepriseError('MALFORMED', 'keys of a block are out of order')
    before = key
    const size = reader.integer()
    visit(key, size === 0 ? null : reader.raw(size - 1))
  }
}

export function writeKey(writer: ByteWriter, key: string): void {
  const isWide = !isNarrow(key)
  writer.integer(key.length * 2 + (isWide ? 1 : 0))
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i)
    writer.byte(unit & 0xff)
    if (isWide) writer.byte(unit >>> 8)
  }
}

export function readKey(reader: ByteReader): string {
  const units = reader.integer()
  const length = Math.floor(units / 2)
  if (units % 2 === 0) return fromUnits(reader.raw(length), false)
  const bytes = reader.raw(length * 2)
  const wide = new Uint16Array(length)
  for (let i = 0; i < length; i++) wide[i] = bytes[2 * i]! | (bytes[2 * i + 1]! << 8)
  return fromUnits(wide, true)
}

/** Converts in pieces: a very long key would exceed the maximum number of arguments. */
function fromUnits(units: Uint8Array | Uint16Array, isWide: boolean): string {
  let text = ''
  for (let at = 0; at < units.length; at += 4096) {
    const piece = units.subarray(at, at + 4096)
    if (!isWide) for (const unit of piece) if (unit >= 0x80) throw new RepriseError('MALFORMED', 'a key is not ASCII')
    text += String.fromCharCode.apply(null, piece as unknown as number[])
  }
  return text
}

function isNarrow(key: string): boolean {
  for (let i = 0; i < key.length; i++) if (key.charCodeAt(i) >= 0x80) return false
  return true
}
