// Recorded histories of every version, replayed against the current code (G13, A5.4). REPRISE_RECORD=1 records missing ones; an
// existing recording is never overwritten.

import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { checkDefinitions, loadHistory, saveHistory, type WorkflowRun } from '../../src/layers/workflow/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'
import { branches, child, family, programs, saga, sequence } from './golden-programs.ts'

const folder = fileURLToPath(new URL('../golden/workflow-1/', import.meta.url))

async function recordMissing(): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const kit = new WorkflowKit()
  kit.work(child)
  const runs: WorkflowRun<unknown>[] = [
    await kit.run<{ n: number }, unknown>(sequence, { n: 1 }, { id: 's' }),
    await kit.run(branches, { id: 'b' }),
    await kit.run(saga, { id: 'g' }),
    await kit.run(family, { id: 'f' }),
  ]
  await kit.survive(() => kit.handle(runs[0]!).signal('b', 2))
  for (const run of runs) await kit.result(run).catch(() => undefined)
  for (const timeline of [...runs.map((run) => run.timeline), 'workflow/golden-child/f.golden-child']) {
    const path = `${folder}${timeline.replaceAll('/', '.')}.json`
    if (!existsSync(path)) await saveHistory(kit.rp, timeline, path)
  }
  await kit.close()
}

if (process.env.REPRISE_RECORD === '1') it('records what is missing', recordMissing)

it('replays every recorded history of version 1 with today’s code (G13)', async () => {
  const kit = new WorkflowKit()
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'))
  expect(files).toHaveLength(5)
  const histories = await Promise.all(files.map((name) => loadHistory(folder + name)))
  const report = await checkDefinitions(kit.rp, programs, { histories })
  expect(report).toEqual({ ok: true, checked: 5, diverging: [], unknown: [] })
  await kit.close()
})
