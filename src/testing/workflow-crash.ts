// Crash tests: runs a program once undisturbed, then once for each point at which its process can die; each time it must end
// the same way. The program returns the value to compare.

import type { CrashPoint, KitOptions } from './test-kit.ts'
import { WorkflowKit } from './workflow.ts'

export interface CrashSweep<Outcome> {
  readonly undisturbed: Outcome
  readonly crashes: readonly { readonly at: CrashPoint; readonly outcome: Outcome }[]
}

/**
 * @example
 * const { undisturbed, crashes } = await crashEverywhere(async (kit) => {
 *   return await kit.result(await kit.run(checkout, order, { id: '1' }))
 * })
 */
export async function crashEverywhere<Outcome>(
  program: (kit: WorkflowKit) => Promise<Outcome>,
  options: Omit<KitOptions, 'crashAt'> & {
    /** Only every nth crash point, for programs with many. */
    readonly every?: number
    /** Only these kinds of crash points. */
    readonly at?: readonly ('commit' | 'effect')[]
  } = {},
): Promise<CrashSweep<Outcome>> {
  const { every = 1, at: kinds = ['commit', 'effect'], ...kitOptions } = options
  const first = await runOnce(program, kitOptions, [])
  const points: CrashPoint[] = []
  for (const when of ['before', 'after'] as const) {
    if (kinds.includes('commit')) for (let n = 1; n <= first.commits; n += every) points.push({ commit: n, when })
    if (kinds.includes('effect')) for (let n = 1; n <= first.effects; n += every) points.push({ effect: n, when })
  }
  const crashes: { at: CrashPoint; outcome: Outcome }[] = []
  for (const at of points) crashes.push({ at, outcome: (await runOnce(program, kitOptions, [at])).outcome })
  return { undisturbed: first.outcome, crashes }
}

async function runOnce<Outcome>(
  program: (kit: WorkflowKit) => Promise<Outcome>,
  options: KitOptions,
  crashAt: readonly CrashPoint[],
): Promise<{ outcome: Outcome; commits: number; effects: number }> {
  const kit = new WorkflowKit({ ...options, crashAt })
  try {
    const outcome = await program(kit).catch((error) => {
      throw new Error(`with a crash at ${JSON.stringify(crashAt)}: ${error instanceof Error ? error.message : error}`, {
        cause: error,
      })
    })
    return { outcome, commits: kit.commits, effects: kit.effects }
  } finally {
    await kit.close()
  }
}
