// Runs the examples of docs/api, each on a store of its own that is gone afterwards.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'reprise'
import { it } from 'vitest'
import type { Example } from '../../examples/api/example.ts'

export function runExamples(entry: string, examples: readonly Example[]): void {
  const runnable = examples.filter(({ on }) => on !== 'compiled')
  it.each(runnable.map((each) => ({ name: each.shows.join(', '), each })))(
    `${entry}: the example of $name runs`,
    async ({ each }) => {
      const folder = mkdtempSync(join(tmpdir(), 'reprise-example-'))
      const rp = await open(each.on === 'memory' ? 'memory:' : `sqlite:${join(folder, 'store.db')}`)
      try {
        await each.run(rp, folder)
      } finally {
        await rp.close()
        rmSync(folder, { recursive: true, force: true })
      }
    },
  )
}
