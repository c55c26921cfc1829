// Events over the years: versions, upcasters, changed folds, corrections, and data that must go.

import { expect, it } from 'vitest'
import { aggregate, checkEvents, type Personal, personal, projection, rewrite } from '../../src/layers/events/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

/** The first release. */
const stock1 = aggregate('stock', {
  initial: () => ({ pieces: 0 }),
  evolve: { added: (s, e: { n: number }) => ({ pieces: s.pieces + e.n }) },
  decide: { add: (_s, c: { n: number }) => ({ type: 'added', n: c.n }) },
  checkpoint: { every: 4 },
})

/** The second: the field has another name, the event another type. */
const stock2 = aggregate('stock', {
  initial: () => ({ pieces: 0 }),
  version: 2,
  evolve: { arrived: (s, e: { pieces: number; where: string }) => ({ pieces: s.pieces + e.pieces }) },
  decide: { arrive: (_s, c: { pieces: number }) => ({ type: 'arrived', pieces: c.pieces, where: 'here' }) },
  upcasters: {
    added: { version: 2, from: { 1: (d) => ({ pieces: (d as { n: number }).n }), 2: { type: 'arrived', version: 1 } } },
    arrived: { version: 2, from: { 1: (d) => ({ where: 'unknown', ...(d as object) }) } },
  },
  checkpoint: { every: 4 },
})

onEveryStore('evolution', (world) => {
  it('A5.4: old events are upgraded in chains, also across a rename, for state, history and projections', async () => {
    const w = await world()
    const rp = await w.engine()
    const a = await rp.open(stock1, 'x')
    for (let n = 1; n <= 6; n++) await a.do('add', { n }, { meta: { actor: 'ann' } })
    await rp.close()
    const next = await w.engine()
    const b = await next.open(stock2, 'x')
    expect(b.state).toEqual({ pieces: 21 })
    await b.do('arrive', { pieces: 4 })
    const happened = []
    for await (const each of b.history()) happened.push(each)
    expect(happened[0]).toMatchObject({
      event: { type: 'arrived', pieces: 1, where: 'unknown' },
      meta: { actor: 'ann' },
    })
    expect(happened.at(-1)).toMatchObject({ event: { type: 'arrived', pieces: 4, where: 'here' }, version: 2 })
    const sums = projection('sums', {
      from: [stock2],
      initial: () => ({ sum: 0 }),
      on: { arrived: (s, e) => ({ sum: s.sum + e.pieces }) },
    })
    expect(await (await next.open(sums)).catchUp()).toEqual({ sum: 25 })
  })

  it('a check before a deploy reports whether every stored event has a path to the current version', async () => {
    const rp = await (await world()).engine()
    const a = await rp.open(stock1, 'x')
    await a.do('add', { n: 1 })
    expect(await checkEvents(rp, stock1)).toMatchObject({ ok: true, stored: [{ type: 'added', version: 1, count: 1 }] })
    expect(await checkEvents(rp, stock2)).toMatchObject({ ok: true, missing: [], unknown: [] })
    const gap = aggregate('stock', {
      initial: () => 0,
      evolve: { added: (s) => s },
      decide: {},
      upcasters: { added: { version: 3, from: { 2: (d) => d } } },
    })
    expect(await checkEvents(rp, gap)).toMatchObject({
      ok: false,
      missing: [{ type: 'added', code: 'UPCAST_MISSING' }],
    })
    const forgot = aggregate('stock', { initial: () => 0, evolve: { other: (s) => s }, decide: {} })
    expect(await checkEvents(rp, forgot)).toMatchObject({ ok: false, unknown: ['added'] })
    await a.close()
    await expect(rp.open(forgot, 'x')).rejects.toEqual(code('FOLD_FAILED'))
  })

  it('a changed evolve ignores old checkpoints, rebuilds them in the background, and never reads one blindly', async () => {
    const w = await world()
    const rp = await w.engine()
    const a = await rp.open(stock1, 'x')
    for (let n = 1; n <= 9; n++) await a.do('add', { n })
    await a.checkpoint()
    await rp.close()
    const next = await w.engine()
    const b = await next.open(stock2, 'x')
    expect(b.recovery).toMatchObject({ checkpoint: null, entriesReplayed: 9 })
    expect(b.recovery.skipped[0]!.why).toContain('this code is version 2')
    await expect
      .poll(async () => (await next.checkpoints('events/stock/x')).some((each) => each.foldVersion === '2'))
      .toBe(true)
    await next.close()
    const c = await (await w.engine()).open(stock2, 'x')
    expect(c.recovery.checkpoint).not.toBeNull()
    expect(c.state).toEqual({ pieces: 45 })
  })

  it('B6: replay semantics drift: a fold that changed without a new version is found by the drill', async () => {
    const w = await world()
    const rp = await w.engine()
    const a = await rp.open(stock1, 'x')
    for (let n = 1; n <= 4; n++) await a.do('add', { n })
    await a.checkpoint()
    expect((await rp.drill()).ok).toBe(true)
    await rp.close()
    const drifted = aggregate('stock', {
      initial: () => ({ pieces: 0 }),
      evolve: { added: (s, e: { n: number }) => ({ pieces: s.pieces + 2 * e.n }) },
      decide: {},
    })
    const next = await w.engine()
    hostOf(next).register(drifted.prefix, drifted.fold)
    const report = await next.drill({ timelines: ['events/stock/x'] })
    expect(report.ok).toBe(false)
    expect(report.results[0]!.note).toContain('differs from that of full replay')
  })

  it('B6: bad event kept forever: it stays in history, and a compensating event names the correction and its reason', async () => {
    const rp = await (await world()).engine()
    const a = await rp.open(stock1, 'x')
    await a.do('add', { n: 1000 })
    await a.correct(1, { type: 'added', n: -990 }, 'typing error')
    expect(a.state).toEqual({ pieces: 10 })
    const happened = []
    for await (const each of a.history()) happened.push(each)
    expect(happened).toMatchObject([
      { seq: 1, meta: {} },
      { seq: 2, meta: { corrects: 1, reason: 'typing error' } },
    ])
    await expect(a.correct(7, { type: 'added', n: 1 }, 'no')).rejects.toEqual(code('OUT_OF_RANGE'))
  })

  it('B6: painful corrections: a history is rewritten into a new one, and the old one is kept', async () => {
    const rp = await (await world()).engine()
    const a = await rp.open(stock1, 'x')
    for (const n of [1, -5, 3]) await a.do('add', { n }, { key: `c${n}` })
    await a.close()
    const done = await rewrite(
      rp,
      stock1,
      'x',
      'x2',
      ({ event }) => (event.n < 0 ? null : event.n === 3 ? { ...event, n: 30 } : event),
      'negative',
    )
    expect(done).toMatchObject({ kept: 1, changed: 1, dropped: 1 })
    const b = await rp.open(stock1, 'x2')
    expect(b.state).toEqual({ pieces: 31 })
    expect((await b.do('add', { n: 1 }, { key: 'c1' })).isDuplicate).toBe(true)
    expect((await rp.at(stock1, 'x', { seq: 3 })).state).toEqual({ pieces: -1 })
    expect(await rp.head('events/stock/x')).toMatchObject({
      status: 'superseded',
      attributes: { supersededBy: 'events/stock/x2' },
    })
    await expect(rewrite(rp, stock1, 'x', 'x2', ({ event }) => event, 'again')).rejects.toEqual(code('EXISTS'))
  })

  it('personal data is gone everywhere once its key is shredded, and history stays whole', async () => {
    const w = await world()
    const rp = await w.engine()
    const person = aggregate('person', {
      initial: () => ({ email: null as Personal<string> | null, visits: 0 }),
      evolve: {
        registered: (s, e: { email: Personal<string> }) => ({ ...s, email: e.email }),
        visited: (s) => ({ ...s, visits: s.visits + 1 }),
      },
      decide: {
        register: (_s, c: { email: string }) => ({ type: 'registered', email: personal(c.email) }),
        visit: () => ({ type: 'visited' }),
      },
    })
    const a = await rp.open(person, 'p1')
    await a.do('register', { email: 'ann@example.org' })
    await a.do('visit')
    await a.checkpoint()
    expect(await a.reveal(a.state.email)).toBe('ann@example.org')
    // Neither history nor checkpoint holds it in the clear.
    const stored = [
      ...(await hostOf(rp).kernel.store.read('events/person/p1' as never, 0, 1e6)).map((run) => run.bytes),
      ...(await rp.checkpoints('events/person/p1')).map((record) => record.body),
    ]
    for (const bytes of stored) expect(Buffer.from(bytes).includes('ann@example.org')).toBe(false)
    await a.shred()
    expect(await a.reveal(a.state.email)).toBeNull()
    await rp.close()
    const next = await w.engine()
    const b = await next.open(person, 'p1')
    expect(b.state.visits).toBe(1)
    expect(await b.reveal(b.state.email)).toBeNull()
    expect((await next.verify()).faults).toEqual([])
  })
})

onEveryStore(
  'inline projection',
  (world) => {
    it('rows and events are written together or not at all', async () => {
      const w = await world()
      const rp = await w.engine()
      const name = `inline_${Date.now()}_${Math.floor(Math.random() * 1e6)}`
      const mark = (sql: { dialect: string }) => (sql.dialect === 'postgres' ? '$1' : '?')
      const counted = aggregate('counted', {
        initial: () => ({ n: 0 }),
        evolve: { added: (s, e: { n: number }) => ({ n: s.n + e.n }) },
        decide: { add: (_s, c: { n: number }) => ({ type: 'added', n: c.n }) },
        inline: (sql, event) => sql.run(`INSERT INTO ${name} VALUES (${mark(sql)})`, event.n),
      })
      const probe = await hostOf(rp).openTimeline('probe/x' as never, {
        version: '1',
        initial: () => 0,
        apply: (s) => s,
      })
      await probe.write([], { userSql: (sql) => sql.run(`CREATE TABLE ${name} (n INTEGER PRIMARY KEY)`) })
      const a = await rp.open(counted, 'x')
      await a.do('add', { n: 1 })
      await a.do('add', { n: 2 })
      // The row exists: its SQL fails, so the event did not happen.
      await expect(a.do('add', { n: 2 })).rejects.toEqual(code('RIDER_FAILED'))
      expect(a.state).toEqual({ n: 3 })
      await a.do('add', { n: 3 })
      const { sqlResult } = await probe.write([], { userSql: (sql) => sql.all(`SELECT n FROM ${name} ORDER BY n`) })
      expect((sqlResult as { n: number }[]).map((row) => Number(row.n))).toEqual([1, 2, 3])
      expect(a.seq).toBe(3)
    })
  },
  ['sqlite', 'postgres'],
)
