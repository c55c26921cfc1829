// Invariant 6 beside a live owner: the answer of the owner's commit is lost, and before the retry another process writes a note,
// a mark or a trim to the same head. The retry succeeds as a duplicate: it is neither refused nor applied a second time.

import { expect, it } from 'vitest'
import type { Commit, Store } from '../../src/core/store/ports.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { RepriseError, timeline } from '../../src/index.ts'
import { hostOf } from '../support/host.ts'
import { newSchemaName } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
  checkpoint: { every: 2 },
  retain: { checkpoints: 1, history: 'needed' },
})

/** Loses the answer of the commit that `isLost` chooses, once, and does something else before the commit is repeated. */
function losing(store: Store, isLost: (commit: Commit) => boolean, between: () => Promise<unknown>): Store {
  let isOver = false
  return forwardStore(store, {
    async commit(commits) {
      const outcomes = await store.commit(commits)
      if (isOver || !commits.some(isLost)) return outcomes
      isOver = true
      await between()
      throw new RepriseError('STORE_IO', 'the answer was lost', {})
    },
  })
}

onEveryStore(
  'a note beside the owner',
  (world) => {
    const others = ['a failure note', 'a mark', 'a collection'] as const

    it.each(others)("%s after a lost answer: the owner's SQL is done once", async (what) => {
      const at = await world()
      const other = await at.engine()
      let count = 0
      const table = `${newSchemaName()}_done`
      const between = async () => {
        if (what === 'a failure note') await hostOf(other).kernel.failures.failed('counter/a', new Error('no'))
        else if (what === 'a collection') await other.collect()
        else await other.savepoint({ timeline: 'counter/a', seq: 6 })
        count += 1
      }
      // The floor follows the newest checkpoint, so only the head's own sequence is sure to be there for the mark.
      const open = await hostOf(await at.engine()).openTimeline('counter/a' as never, counter.fold)
      await open.write([], { userSql: (sql) => sql.run(`CREATE TABLE ${table} (n integer)`) })
      for (let n = 0; n < 6; n++) await open.write([{ type: 'added', data: { type: 'added', by: 1 } }])
      await open.checkpoint()
      hostOf(other).register('counter/', counter.fold)
      const store = losing(await at.store(), ({ userSql }) => userSql !== undefined, between)
      const next = await at.engine({ ports: { store } })
      const handle = await hostOf(next).openTimeline('counter/a' as never, counter.fold, { takeover: true })
      await handle.write([], { userSql: (sql) => sql.run(`INSERT INTO ${table} VALUES (1)`) })
      expect(count).toBe(1)
      const [row] = (await next.sql(`SELECT count(*) AS n FROM ${table}`)) as [{ n: number | string }]
      expect(Number(row.n)).toBe(1)
      await handle.write([], { userSql: (sql) => sql.run(`DROP TABLE ${table}`) })
      // The owner still is the owner.
      await handle.write([{ type: 'added', data: { type: 'added', by: 1 } }])
      expect(handle.state.total).toBe(7)
    })
  },
  ['sqlite', 'postgres'],
)
