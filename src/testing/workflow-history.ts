// Replays recorded histories with the current code, for any test runner: throws with the run and the step that diverge.

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { AnyWorkflow } from '../layers/workflow/context.ts'
import { checkDefinitions } from '../layers/workflow/tools/check.ts'
import { loadHistory } from '../layers/workflow/tools/export.ts'
import { WorkflowKit } from './workflow.ts'

/** @example await checkHistories([checkout], './histories') // how many were replayed */
export async function checkHistories(definitions: readonly AnyWorkflow[], folder: string): Promise<number> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort()
  const histories = await Promise.all(names.map((name) => loadHistory(join(folder, name))))
  const kit = new WorkflowKit()
  try {
    const { diverging, unknown, checked } = await checkDefinitions(kit.rp, definitions, { histories })
    if (diverging.length > 0) throw new Error(diverging.map(({ problem }) => problem).join('\n'))
    if (unknown.length > 0) throw new Error(`no definition was given for ${unknown.join(', ')}`)
    return checked
  } finally {
    await kit.close()
  }
}
