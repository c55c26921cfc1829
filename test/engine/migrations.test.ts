// State has versions too: where there is no history to rebuild it from, a migration makes old state into today's.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { Keyed, timeline } from '../../src/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
type Added = { type: 'added'; by: number }

const first = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (s, e: Added) => ({ total: s.total + e.by }),
})
interface Today {
  readonly sum: number
  readonly last: number | null
  readonly seen: Keyed<number>
}
const today = (migrations?: Record<string, (old: never) => Today>) =>
  timeline('counter', {
    version: 2,
    initial: (): Today => ({ sum: 0, last: null, seen: new Keyed() }),
    apply(s, e: Added) {
      s.seen.set(String(e.by), e.by)
      return { ...s, sum: s.sum + e.by, last: e.by }
    },
    ...(migrations && { migrations }),
  })
const migrate = { '1': (old: { total: number }) => ({ sum: old.total, last: null, seen: new Keyed<number>() }) }

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

onEveryStore('migrations of state', (world) => {
  it('A5.4 A9.3: a savepoint of the state alone is opened by new code with a migration, and continues', async () => {
    const folder = temporaryFolder('state')
    folders.push(folder)
    const path = join(folder, 'counter.savepoint')
    const rp = await (await world()).engine()
    const c = await rp.open(first, 'x')
    for (const by of [1, 2, 3]) await c.append({ type: 'added', by }, { key: `k${by}` })
    await c.checkpoint()
    await rp.export(c.coordinate, path, { stateOnly: true })
    const there = await world()
    const other = await there.engine()
    await other.import(path)
    await expect(other.open(today(), 'x')).rejects.toEqual(code('MIGRATION_MISSING'))
    const broken = today({
      '1': () => {
        throw new Error('half done')
      },
    })
    await expect(other.open(broken, 'x')).rejects.toEqual(code('FOLD_FAILED'))
    const handle = await other.open(today(migrate), 'x')
    expect([handle.state.sum, handle.state.last, handle.coordinate.seq]).toEqual([6, null, 3])
    // Keys are the engine's own and survive.
    expect((await handle.append({ type: 'added', by: 1 }, { key: 'k1' })).isDuplicate).toBe(true)
    await handle.append({ type: 'added', by: 10 })
    expect((await handle.checkpoint()).kind).toBe('full')
    await other.close()
    const again = await (await there.engine()).open(today(), 'x')
    expect([again.state.sum, again.state.last, again.state.seen.get('10')]).toEqual([16, 10, 10])
    expect(again.recovery.entriesReplayed).toBe(0)
  })

  it('an aggregate whose history was trimmed', async () => {
    const w = await world()
    const rp = await w.engine()
    const define = (version: number, initial: () => object, migrations: object = {}) =>
      aggregate('thing', {
        version,
        initial: initial as () => { n?: number; count?: number },
        evolve: { grown: (s, e: { by: number }) => ('n' in s ? { n: s.n! + e.by } : { count: s.count! + e.by }) },
        decide: { grow: (_s, c: { by: number }) => ({ type: 'grown', by: c.by }) },
        retain: { checkpoints: 1, history: 'needed' },
        migrations: migrations as Record<string, (old: never) => { count: number }>,
      })
    const a = await rp.open(
      define(1, () => ({ n: 0 })),
      'x',
    )
    for (let n = 0; n < 4; n++) {
      await a.do('grow', { by: 1 })
      await a.checkpoint()
    }
    await rp.close()
    expect((await (await w.engine()).head('events/thing/x'))!.floor).toBeGreaterThan(0)
    const next = define(2, () => ({ count: 0 }), { '1': (old: { n: number }) => ({ count: old.n }) })
    const b = await (await w.engine()).open(next, 'x')
    expect((await b.do('grow', { by: 2 })).state).toEqual({ count: 6 })
  })
})
