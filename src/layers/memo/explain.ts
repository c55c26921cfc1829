// Explains a hit or a miss: the entry under this key, or the difference between the key and that of the most recently used
// result, preferably one with the same arguments.

import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import { usedAttribute } from '../../engine/tools/cache/uses.ts'
import { type Envelope, entryId, readEntry } from './entry.ts'
import { changesBetween, type Key, type KeyChange, type KeyParts } from './key.ts'

export interface Explanation {
  readonly isHit: boolean
  readonly key: string
  /** The explanation as text. */
  readonly why: string
  /** Changes relative to `comparedWith`. */
  readonly changes: readonly KeyChange[]
  /** The entry that is a hit, or the most recently used one that the key was compared with; null: there is none. */
  readonly comparedWith: {
    readonly timeline: string
    readonly computedAt: Date
    readonly tookMs: number
    readonly by: string
    /** The run and the step that requested the result, if any. */
    readonly for: string | null
    /** Time of the last hit or of the computation; null: unknown. */
    readonly usedAt: Date | null
  } | null
}

/** Number of most recently used entries to try: one may be damaged. */
const triedMax = 3
/** Number of entries to try that may be newer than the miss. */
const missedTriedMax = 20
const shownMax = 5
const nothingYet = 'no result is stored yet'

export async function explain(
  host: Host,
  name: string,
  scopes: readonly string[],
  key: Key,
  judge: (envelope: Envelope) => 'fresh' | 'stale' | 'over',
): Promise<Explanation> {
  for (const scope of scopes) {
    const found = await readEntry(host.kernel, entryId(name, scope, key.hex))
    if (!found) continue
    const judged = judge(found.envelope)
    const words = {
      fresh: 'remembered',
      stale: 'stored, but stale: it is returned, and computed again in the background',
      over: overWords(found.envelope),
    }
    return {
      isHit: judged !== 'over',
      key: key.hex,
      why: words[judged],
      changes: [],
      comparedWith: comparisonOf(found),
    }
  }
  const attributes = { args: key.args().slice(0, 16) }
  // Prefers an entry with the same arguments.
  const before = (await lastUsed(host, name, scopes, { attributes })) ?? (await lastUsed(host, name, scopes))
  if (!before) return { isHit: false, key: key.hex, why: nothingYet, changes: [], comparedWith: null }
  const changes = changesBetween(before.envelope.parts, await key.parts())
  return { isHit: false, key: key.hex, why: inWords(changes), changes, comparedWith: comparisonOf(before) }
}

/** Data for explaining an earlier miss, whose entry may exist meanwhile. Keeps only digests in memory. */
export interface Missed {
  readonly key: string
  readonly args: string
  readonly parts: KeyParts
  readonly at: number
}

export async function explainMissed(
  host: Host,
  name: string,
  scopes: readonly string[],
  { key, args, parts, at }: Missed,
): Promise<string> {
  const other = ({ timeline }: Head) => !timeline.endsWith(`/${key}`)
  const wasThere = ({ envelope }: Seen) => envelope.computedAt <= at
  const same = await lastUsed(host, name, scopes, { attributes: { args: args.slice(0, 16) }, other, wasThere })
  if (same) return inWords(changesBetween(same.envelope.parts, parts))
  // With new arguments, other changes are of little interest: a few entries are enough.
  let tried = 0
  for (const scope of scopes) {
    for await (const head of host.each({ prefix: `memo/${name}/${scope}/` })) {
      if (!other(head)) continue
      const found = await readEntry(host.kernel, head.timeline, { unverified: true })
      if (found && wasThere(found)) return 'other arguments'
      if (++tried === missedTriedMax) return nothingYet
    }
  }
  return nothingYet
}

interface Seen {
  readonly timeline: string
  readonly envelope: Envelope
  readonly usedAt?: number
}

export function overWords({ outcome }: Envelope): string {
  return outcome.kind === 'error' ? 'a stored error exists, but has expired' : 'too old'
}

export function comparisonOf({ timeline, envelope, usedAt }: Seen): NonNullable<Explanation['comparedWith']> {
  const { computedAt, tookMs, by, for: asker } = envelope
  return {
    timeline,
    computedAt: new Date(computedAt),
    tookMs,
    by,
    for: asker,
    usedAt: usedAt ? new Date(usedAt) : null,
  }
}

const nouns = { env: 'variable', file: 'file', tool: 'tool' } as const

function howWords(how: KeyChange['how']): string {
  if (how === 'declared') return 'is now declared, but missing'
  if (how === 'undeclared') return 'is no longer declared; it was missing'
  return how === 'changed' ? how : `was ${how}`
}

function inWords(changes: readonly KeyChange[]): string {
  // Only a damaged or removed entry has equal parts.
  if (changes.length === 0) return 'it was stored, but is damaged or was forgotten'
  const words = changes.slice(0, shownMax).map(({ part, name, how }) => {
    if (part === 'args') return 'other arguments'
    if (part === 'version') return 'another version'
    return `${nouns[part]} ${name} ${howWords(how)}`
  })
  const rest = changes.length - words.length
  return words.join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}

/** Scans the heads of all matching entries, and reads the most recently used ones. */
async function lastUsed(
  host: Host,
  name: string,
  scopes: readonly string[],
  { attributes = {}, other = () => true, wasThere }: Wanted = {},
): Promise<Seen | null> {
  const most = wasThere ? missedTriedMax : triedMax
  let newest: Head[] = []
  for (const scope of scopes) {
    for await (const head of host.each({ prefix: `memo/${name}/${scope}/`, attributes })) {
      if (other(head)) newest = [...newest, head].sort((a, b) => usedAt(b) - usedAt(a)).slice(0, most)
    }
  }
  for (const head of newest) {
    const found = await readEntry(host.kernel, head.timeline)
    if (found && (wasThere?.(found) ?? true)) return { ...found, usedAt: usedAt(head) }
  }
  return null
}

interface Wanted {
  readonly attributes?: Head['attributes']
  readonly other?: (head: Head) => boolean
  readonly wasThere?: (seen: Seen) => boolean
}

function usedAt({ attributes }: Head): number {
  return Number(attributes[usedAttribute] ?? 0)
}
