// Wrapped bytes: a stored record (a run, a manifest, a message, a chunk) that was encrypted as a whole under a newer key
// (engine/storage/seal/wrap.ts owns the content). Everything that names or vouches for the record, such as its digest,
// refers to the bytes inside. Stores treat wrapped bytes like any others; only a store's own check must not report damage.
//
//   wrapped = magic(4 bytes) crc32(4, of the rest) key id(text) …
//
// No unwrapped record begins with the magic: runs and manifests begin with a version, the others with flags below 16.

const magic = [0xe1, 0x72, 0x77, 0x01] as const

export const wrappedStartBytes = magic.length + 4

export function isWrapped(bytes: Uint8Array): boolean {
  return (
    bytes[0] === magic[0] &&
    bytes[1] === magic[1] &&
    bytes[2] === magic[2] &&
    bytes[3] === magic[3] &&
    bytes.length > wrappedStartBytes
  )
}

export function writeWrappedStart(bytes: Uint8Array, crc: number): void {
  bytes.set(magic)
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(magic.length, crc, true)
}

export function wrappedCrc(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(magic.length, true)
}
