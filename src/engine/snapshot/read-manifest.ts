// Reads the manifest of a catalog entry, checked before it is decoded.

import { decodeManifest } from '../../core/checkpoint/manifest.ts'
import { equalBytes } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'

/** The manifest's body, checked against its digest and its catalog entry before anything is decoded. */
export function readManifest(kernel: Pick<Kernel, 'hash' | 'sealer'>, record: ManifestRecord) {
  const body = kernel.sealer.unwrap(record.body)
  if (!equalBytes(kernel.hash(body), record.bodyDigest)) throw mismatch(record, 'does not match its digest')
  const manifest = decodeManifest(body)
  if (manifest.seq !== record.seq || !equalBytes(manifest.digest, record.digest)) {
    throw mismatch(record, 'has a coordinate that differs from its catalog row')
  }
  return manifest
}

export function mismatch(record: ManifestRecord, what: string): RepriseError {
  return new RepriseError('CHECKPOINT_DAMAGED', `checkpoint ${record.id} ${what}`, { id: record.id, seq: record.seq })
}
