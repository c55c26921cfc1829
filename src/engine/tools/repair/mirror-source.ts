// The store's mirror as a source for repairs, and the check that the mirror is complete.

import { isReprise, orElse } from '../../../core/errors.ts'
import { lastSeq } from '../../../core/history/entry-run.ts'
import type { Head } from '../../../core/store/ports.ts'
import { type MirrorContent, readMirror } from '../../feed/mirror/folder.ts'
import { mirrorSign } from '../../feed/mirror/mirror.ts'
import { mirrorOf } from '../../feed/mirror/policy.ts'
import { headsIn } from '../../storage/heads.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { type RepairSource, unwrapped } from './source.ts'

export interface MirrorSource extends RepairSource {
  readonly path: string
  readonly content: MirrorContent
}

const pageBytes = 1024 * 1024

/** Null: there is no mirror. Text: the reason why it cannot be read here. */
export async function mirrorFor(kernel: Kernel): Promise<MirrorSource | string | null> {
  const path = await mirrorOf(kernel)
  if (path === null) return null
  try {
    return await mirrorSource(kernel, path)
  } catch (error) {
    if (isReprise(error)) throw error
    return `this store has a mirror of its history at ${path}, which cannot be read here: ${(error as Error).message}`
  }
}

async function mirrorSource(kernel: Kernel, path: string): Promise<MirrorSource> {
  const content = await readMirror(kernel.hash, path)
  const isCurrent = content.sign === (await mirrorSign(kernel))
  return {
    name: `the mirror at ${path}`,
    path,
    content,
    chunk: async () => null,
    lines: async () => [],
    runsAfter: async (timeline, seq) => unwrapped(kernel, await content.runsAfter(timeline, seq)),
    isAfterErasures: () => isCurrent,
    close: async () => undefined,
  }
}

/**
 * Null: its files are whole, and contain every run of each timeline up to its last mirrored one; later runs are still being
 * mirrored.
 */
export async function faultOfMirror(kernel: Kernel, { content }: MirrorSource): Promise<string | null> {
  const { lostBytes, files } = content
  let missing = 0
  for await (const head of headsIn(kernel.store)) missing += await missingOf(kernel, head, content)
  if (lostBytes === 0 && missing === 0) return null
  return `${lostBytes} bytes in its ${files.length} files are damaged, and ${missing} runs are missing`
}

async function missingOf(kernel: Kernel, head: Head, content: MirrorContent): Promise<number> {
  let missing = 0
  let sinceLast = 0
  for (let at = Math.max(head.floor, head.base?.seq ?? 0); at < head.seq; ) {
    // Verify reports it as a separate fault.
    const runs = await kernel.store
      .read(head.timeline, at, pageBytes)
      .catch(orElse([], 'HISTORY_DAMAGED', 'STORE_DAMAGED'))
    for (const run of runs) {
      at = lastSeq(run)
      sinceLast += 1
      if (!content.has(head.timeline, run.first)) continue
      missing += sinceLast - 1
      sinceLast = 0
    }
    if (runs.length === 0) break
  }
  return missing
}
