// The costs of the advised checkpoint policy and of its alternatives, measured on this machine: the same timeline under each
// policy, in a SQLite store in a temporary folder, and a real recovery of it.

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CheckpointPolicy } from '../core/checkpoint/checkpoint-policy.ts'
import { keyed } from '../core/keyed-state/keyed.ts'
import { open } from '../engine/api/open.ts'
import { timeline } from '../engine/api/timeline-definition.ts'

/** A checkpoint policy and what it costs. */
export interface MeasuredPolicy {
  readonly name: string
  readonly checkpoint: CheckpointPolicy
  /** Time and stored bytes of one entry of 100 bytes, checkpoints included. */
  readonly msPerEntry: number
  readonly bytesPerEntry: number
  readonly checkpoints: number
  readonly recoveryMs: number
}

const entries = 2_000
const keys = 500

export async function measurePolicies(advised: CheckpointPolicy): Promise<readonly MeasuredPolicy[]> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-advise-'))
  try {
    const policies: readonly (readonly [string, CheckpointPolicy])[] = [
      ['advised', advised],
      ['none: replay everything', { every: 1_000_000_000 }],
      ['every 1,000 entries', { every: 1_000 }],
      ['every 100 entries', { every: 100 }],
    ]
    const measured: MeasuredPolicy[] = []
    for (const [name, checkpoint] of policies) {
      const file = join(folder, `${measured.length}.db`)
      measured.push({ name, checkpoint, ...(await measure(file, checkpoint)) })
    }
    return measured
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function measure(file: string, checkpoint: CheckpointPolicy) {
  const measured = timeline('measured', {
    initial: () => ({ values: keyed<string>() }),
    apply(state, { key, value }: { type: 'set'; key: string; value: string }) {
      state.values.set(key, value)
    },
    checkpoint,
  })
  const value = 'x'.repeat(80)
  const rp = await open(`sqlite:${file}`, { housekeeping: false })
  const began = performance.now()
  const handle = await rp.open(measured, 'a')
  for (let n = 0; n < entries; n += 50) {
    const some = Array.from({ length: 50 }, (_, i) =>
      handle.append({ type: 'set', key: `key ${(n + i) % keys}`, value }),
    )
    await Promise.all(some)
  }
  await handle.close()
  const msPerEntry = (performance.now() - began) / entries
  const checkpoints = (await rp.checkpoints(handle.timeline)).length
  await rp.close()
  const bytesPerEntry = Math.round(statSync(file).size / entries)
  const again = await open(`sqlite:${file}`, { housekeeping: false })
  const recovered = await again.open(measured, 'a')
  const recoveryMs = recovered.recovery.totalMs
  await recovered.close()
  await again.close()
  return { msPerEntry, bytesPerEntry, checkpoints, recoveryMs }
}
