// Processes that share a pipeline by its partitions, killed with SIGKILL one after the other: the remaining ones take over
// their tasks. In the end plain SQL counts the user's table.

import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { expect, it } from 'vitest'
import { amount, Child, newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'

const kills = amount('REPRISE_PIPELINE_KILLS', 2)
const seed = amount('REPRISE_CRASH_SEED', 7)
const partitions = 4
const records = 200 + 100 * kills

it('B7: tasks of killed processes are taken over, and every record counts exactly once', async () => {
  const folder = newFolder()
  try {
    const file = join(folder, 'shared.db')
    const given = { url: `sqlite:${file}`, records, partitions }
    const random = randomFrom(seed)
    const start = () => new Child('pipeline-shared', given)
    let [staying, dying] = [start(), start()]
    for (let kill = 0; kill < kills; kill++) {
      await dying.until(() => dying.lines.includes('READY'))
      await new Promise((resolve) => setTimeout(resolve, random.below(250)))
      await dying.kill()
      expect(dying.errors).toBe('')
      // The one that stayed dies next, so that every task changes hands.
      ;[dying, staying] = [staying, start()]
    }
    await Promise.all([staying.ended, dying.ended])
    expect([staying.errors, dying.errors]).toEqual(['', ''])
    expect([staying.lines.at(-1), dying.lines.at(-1)]).toEqual(['DONE', 'DONE'])
    const db = new DatabaseSync(file, { readOnly: true })
    const found = db.prepare('SELECT n, part, nth FROM seen ORDER BY part, n').all()
    db.close()
    const wanted = Array.from({ length: partitions * records }, (_, i) => {
      const n = i % records
      return { n, part: Math.floor(i / records), nth: Math.floor(n / 5) + 1 }
    })
    expect(found.map((row) => ({ ...row }))).toEqual(wanted)
  } finally {
    removeFolder(folder)
  }
}, 3_600_000)
