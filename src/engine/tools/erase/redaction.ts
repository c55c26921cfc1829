// The remainder of an erased entry: its sequence, its time and its type; the hash of its dedupe key; and, for a marker of
// an effect, that it was done, and under which key. Therefore an erasure never causes anything to be done twice.

import type { Digest } from '../../../core/coordinate.ts'
import { isEffectType } from '../../../core/history/effects.ts'
import type { EntryDraft, StoredEntry } from '../../../core/history/entry-run.ts'
import { erasedKey } from '../../../core/history/erased-key.ts'
import { erasedType, redactRun } from '../../../core/history/redact.ts'
import type { EntryRun } from '../../../core/store/ports.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { openEntry, sealEntry } from '../../storage/seal/entries.ts'

/** The run without the content of these entries. Null: they are erased already. */
export function redact(
  kernel: Pick<Kernel, 'hash' | 'sealer' | 'codec'>,
  run: EntryRun,
  before: Digest,
  seqs: ReadonlySet<number>,
): EntryRun | null {
  let count = 0
  const redacted = redactRun(kernel.hash, run, before, (stored) => {
    if (!seqs.has(stored.seq) || stored.isErased) return null
    count += 1
    return remainder(kernel, stored, before, stored.seq - run.first)
  })
  return count > 0 ? redacted : null
}

function remainder(
  { sealer, codec, hash }: Pick<Kernel, 'hash' | 'sealer' | 'codec'>,
  stored: StoredEntry,
  before: Digest,
  index: number,
): EntryDraft {
  const { type, key, plain } = openEntry(sealer, stored, before, index)
  const { version, time } = stored
  const data = isEffectType(type) ? ofEffect(codec.decode(plain) as Marker) : { type, version }
  const entry = {
    type: isEffectType(type) ? type : erasedType,
    version: isEffectType(type) ? version : 1,
    time,
    key: key === undefined ? undefined : erasedKey(hash, key),
    data: codec.encode(data),
  }
  return sealEntry(sealer, entry, before, index)
}

interface Marker {
  readonly id: string
  readonly [field: string]: unknown
}

/** Without input, result, error, and names of people. */
function ofEffect({ id, name, key, reversal, outcome, by }: Marker): Record<string, unknown> {
  const kept = { id, name, key, reversal, outcome, by: by === undefined ? undefined : 'erased' }
  return Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined))
}
