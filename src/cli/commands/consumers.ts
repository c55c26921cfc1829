// reprise consumers: who reads the feed, where each stands, and how far it is behind.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

const countedMax = 10_000

const consumers: Command = async ({ engine, output }) => {
  const now = engine.kernel.worker.now()
  const rows: { name: string; owner: string; movedAt: number; position: string; behind: number; isMore: boolean }[] = []
  for (const { name, owner, position, movedAt } of await engine.kernel.store.cursors()) {
    rows.push({ name, owner, movedAt, position, ...(await behind(position)) })
  }
  output.result(rows, () => {
    if (rows.length === 0) return output.note('nobody reads the feed')
    output.table(
      ['CURSOR', 'OWNER', 'MOVED', 'BEHIND'],
      rows.map((row) => [
        row.name,
        row.owner,
        relative(row.movedAt, now),
        row.behind === 0 ? 'nothing' : `${row.behind}${row.isMore ? ' or more' : ''} runs of entries`,
      ]),
    )
    output.note(
      'behind counts the whole feed, also what a consumer does not read; history that one has not passed is kept for it',
    )
    return undefined
  })
  return exit.ok

  async function behind(position: string): Promise<{ behind: number; isMore: boolean }> {
    let runs = 0
    for (let at = position; runs < countedMax; ) {
      const page = await engine.feed(at, { limit: 1000 })
      runs += page.items.length
      at = page.next
      if (page.isEnd) return { behind: runs, isMore: false }
    }
    return { behind: countedMax, isMore: true }
  }
}

export default consumers
