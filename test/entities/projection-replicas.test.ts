// Projections in several processes: the promise of catchUp about partitions of another process, the remains of a killed
// rebuild, the generation that each reader gets, and its number of partitions.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import {
  aggregate,
  commandTo,
  partitionedProjection,
  projection,
  rewrite,
  sendCommand,
  sqlProjection,
} from '../../src/layers/events/index.ts'
import { consumer } from '../../src/layers/job/index.ts'
import { hostOf } from '../support/host.ts'
import { programPath } from '../support/programs.ts'
import { onEveryStore } from '../support/worlds.ts'
import { until } from './support.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

const program = new URL('../programs/projection-member.mjs', import.meta.url)
const built = new URL('../../dist/index.js', import.meta.url)

const ids = ['ann', 'bob', 'cid', 'dora', 'eve', 'fay']

async function depositAll(rp: Reprise, amount: number) {
  for (const id of ids) {
    const a = await rp.open(account, id)
    await a.do('deposit', { amount })
    await a.close()
  }
}

const totals = (partitions: number) =>
  partitionedProjection('totals', {
    partitions,
    from: [account],
    initial: () => new Map<string, number>(),
    on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
  })
const sumOf = (...states: readonly ReadonlyMap<number, ReadonlyMap<string, number>>[]) =>
  states.flatMap((state) => [...state.values()].flatMap((part) => [...part.values()])).reduce((a, b) => a + b, 0)

const tableName = () => `t_${randomBytes(6).toString('hex')}`

function ledger(name: string, partitions: number, calls: string[] = []) {
  return sqlProjection('ledger', {
    from: [account],
    partitions,
    setup: async (sql, generation) => {
      calls.push(`setup ${generation}`)
      await sql.run(`CREATE TABLE ${name}_${generation} (id TEXT, amount INTEGER)`)
    },
    teardown: async (sql, generation) => {
      calls.push(`teardown ${generation}`)
      await sql.run(`DROP TABLE ${name}_${generation}`)
    },
    on: {
      deposited: (sql, e, at) => {
        if (e.amount === 13) return sql.run('INSERT INTO nowhere_at_all (x) VALUES (1)')
        return sql.run(`INSERT INTO ${name}_${at.generation} VALUES (?, ?)`, at.id, e.amount)
      },
    },
  })
}

async function sqlOf(rp: Reprise, text: string): Promise<Record<string, unknown>[]> {
  const t = await hostOf(rp).openTimeline(
    'probe/x' as never,
    { version: '1', initial: () => 0, apply: (s) => s },
    { takeover: true },
  )
  const { sqlResult } = await t.write([], { userSql: (sql) => sql.all(text) })
  await t.close()
  return sqlResult as Record<string, unknown>[]
}

onEveryStore('projections in several processes', (world) => {
  it('C6: catchUp waits for the partitions of another process, and until it is stopped', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const p = await one.open(totals(2))
    await p.catchUp()
    const q = await two.open(totals(2))
    await until(() => p.owned === 1 && q.owned === 1)
    await depositAll(two, 1)
    await q.catchUp()
    // All events are applied, also in the memory of the other process.
    expect(sumOf(p.state, q.state)).toBe(6)
    const stopped = new AbortController()
    stopped.abort(new Error('enough'))
    await expect(q.catchUp({ signal: stopped.signal })).rejects.toEqual(code('ABORTED'))
  })

  it('refuses another number of partitions, and is rescaled beside the live one', async () => {
    const w = await world()
    const rp = await w.engine()
    await depositAll(rp, 1)
    const p = await rp.open(totals(2))
    await p.catchUp()
    expect(sumOf(p.state)).toBe(6)
    await expect((await w.engine()).open(totals(3))).rejects.toThrow(/has 2 partitions, not 3/)
    // Interrupted in the middle: the live generation continues, and so does the next attempt.
    const other = await w.engine()
    const cut = new AbortController()
    cut.abort()
    await expect(totals(3).rescale(other, { signal: cut.signal })).rejects.toEqual(code('ABORTED'))
    await depositAll(rp, 1)
    await p.catchUp()
    expect(sumOf(p.state)).toBe(12)
    expect(await totals(2).generation(rp)).toBe(1)
    await totals(3).rescale(other)
    expect(await totals(3).generation(rp)).toBe(2)
    const q = await other.open(totals(3))
    await depositAll(other, 1)
    await q.catchUp()
    expect([q.owned, sumOf(q.state)]).toEqual([3, 18])
    await expect((await w.engine()).open(totals(2))).rejects.toThrow(/has 3 partitions, not 2/)
    // Once more is nothing.
    await totals(3).rescale(other)
    expect(await totals(3).generation(rp)).toBe(2)
  })

  it('a consumer gets the events of an aggregate typed and upgraded, and entries of a prefix unchanged', async () => {
    const w = await world()
    const rp = await w.engine()
    const old = aggregate('stock', {
      initial: () => ({ n: 0 }),
      evolve: { added: (s, e: { n: number }) => ({ n: s.n + e.n }) },
      decide: { add: (_s, c: { n: number }) => ({ type: 'added', n: c.n }) },
    })
    await (await rp.open(old, 'x')).do('add', { n: 2 }, { key: 'a', meta: { actor: 'ann' } })
    const stock = aggregate('stock', {
      initial: () => ({ n: 0 }),
      evolve: { put: (s, e: { pieces: number }) => ({ n: s.n + e.pieces }) },
      decide: { add: (_s, c: { n: number }) => ({ type: 'put', pieces: c.n }) },
      upcasters: {
        added: {
          version: 2,
          from: { 1: { type: 'put', version: 1, data: (d) => ({ pieces: (d as { n: number }).n }) } },
        },
        put: { version: 1 },
      },
    })
    const seen: unknown[] = []
    const typed = consumer('typed', {
      from: [stock],
      follow: false,
      each: ({ event, id, meta, seq }) => void seen.push([id, seq, event.type, event.pieces, meta.actor]),
    })
    await (await rp.run(typed)).result()
    expect(seen).toEqual([['x', 1, 'put', 2, 'ann']])
    const raw: unknown[] = []
    const plain = consumer('plain', {
      from: ['events/stock/'],
      follow: false,
      each: ({ type, data }) => void raw.push([type, data]),
    })
    await (await rp.run(plain)).result()
    expect(raw).toEqual([['added', [{ n: 2 }, { actor: 'ann' }]]])
  })

  it('a rewritten aggregate takes no more commands, and loses none that came while it was rewritten', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const a = await one.open(account, 'x')
    await a.do('deposit', { amount: 1 })
    let late: Promise<string> | null = null
    await rewrite(
      two,
      account,
      'x',
      'y',
      ({ event, seq }) => {
        // Written while the copy is in progress; its rejection may come before the rewrite is done.
        if (seq === 1)
          late ??= a.do('deposit', { amount: 5 }).then(
            () => 'done',
            (error) => error.code,
          )
        return event
      },
      'a test',
    ).finally(() => late)
    const told = await late!
    expect((await two.open(account, 'y')).state.balance).toBe(told === 'done' ? 6 : 1)
    const failure = await a.do('deposit', { amount: 1 }).catch((error) => error)
    expect(failure).toMatchObject({ code: 'SUPERSEDED', data: { supersededBy: 'events/account/y' } })
    await expect((await (await w.engine()).open(account, 'x')).do('deposit', { amount: 1 })).rejects.toEqual(
      code('SUPERSEDED'),
    )
    await sendCommand(one, commandTo(account, 'x', 'deposit', { amount: 1 }), { key: 'letter' })
    await a.receive()
    expect((await one.head('events/account/x'))!.mail).toBe(0)
    expect((await a.refresh()).balance).toBe(told === 'done' ? 6 : 1)
  })

  it('a follower continues the checkpoints when their writer is gone', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const sums = projection('sums', {
      from: [account],
      initial: () => ({ sum: 0 }),
      on: { deposited: (s, e) => ({ sum: s.sum + e.amount }) },
      checkpoint: { every: 1, each: '1d' },
    })
    const newest = async () => (await two.checkpoints('projection/sums@1-1'))[0]!.seq
    const cursor = async () =>
      (await hostOf(two).kernel.store.cursors()).find(({ name }) => name === 'projection/sums@1-1')
    const p = await one.open(sums)
    const q = await two.open(sums)
    for (const amount of [1, 2, 3]) {
      await depositAll(one, amount)
      await p.catchUp()
    }
    await q.catchUp()
    await p.close()
    const [seq, before] = [await newest(), await cursor()]
    // Twice: the cursor follows one checkpoint behind.
    for (const more of [1, 2]) {
      await depositAll(two, 1)
      await until(async () => (await newest()) >= seq + more)
    }
    expect((await cursor())!.position > before!.position).toBe(true)
    expect((await q.catchUp()).sum).toBe(6 * 8)
    expect((await two.checkpoints('projection/sums@1-1')).every(({ invalid }) => invalid === null)).toBe(true)
  })

  it('its own history goes with its checkpoints', async () => {
    const rp = await (await world()).engine()
    const sums = projection('sums', {
      from: [account],
      initial: () => ({ sum: 0 }),
      on: { deposited: (s, e) => ({ sum: s.sum + e.amount }) },
      checkpoint: { every: 1, each: '1d' },
    })
    const p = await rp.open(sums)
    for (let n = 0; n < 8; n++) {
      await depositAll(rp, 1)
      await p.catchUp()
    }
    const { seq, floor } = (await rp.head('projection/sums@1-1'))!
    expect(seq).toBeGreaterThan(8)
    expect(seq - floor).toBeLessThan(12)
  })

  it('checkpoints of a projection follow its policy, also by event and by budget', async () => {
    const w = await world()
    const rp = await w.engine()
    const build = (name: string, checkpoint: object) =>
      projection(name, {
        from: [account],
        initial: () => ({ n: 0 }),
        on: { deposited: (s) => ({ n: s.n + 1 }) },
        checkpoint,
      })
    await depositAll(rp, 1)
    const checkpointsOf = async (name: string) => (await rp.checkpoints(`projection/${name}@1-1`)).length
    const never = await rp.open(build('never', { every: 1e6, each: '1d' }))
    await never.catchUp()
    expect(await checkpointsOf('never')).toBe(0)
    const byEvent = await rp.open(build('by-event', { every: 1e6, each: '1d', on: ['deposited'] }))
    await byEvent.catchUp()
    expect(await checkpointsOf('by-event')).toBeGreaterThan(0)
    const byBudget = await rp.open(build('by-budget', { every: 1e6, each: '1d', recoverWithin: '1ms' }))
    for (let n = 0; n < 40 && (await checkpointsOf('by-budget')) === 0; n++) {
      await depositAll(rp, 1)
      await byBudget.catchUp()
    }
    expect(await checkpointsOf('by-budget')).toBeGreaterThan(0)
  })
})

onEveryStore(
  'projections into SQL in several processes',
  (world) => {
    it('C6: setup runs once for all partitions, teardown once, and a rebuild that was cut off is gone on with', async () => {
      const w = await world()
      const [one, two] = [await w.engine(), await w.engine()]
      const name = tableName()
      const calls: string[] = []
      await depositAll(one, 1)
      const p = await one.open(ledger(name, 3, calls))
      await p.catchUp()
      expect(calls).toEqual(['setup 1'])
      const count = async (generation: number) =>
        Number((await sqlOf(one, `SELECT count(*) AS n FROM ${name}_${generation}`))[0]!.n)
      expect(await count(1)).toBe(6)
      // Begun, and cut off when it has done something: as a kill leaves it.
      const cut = new AbortController()
      const cutting = p.rebuild({ signal: cut.signal, onProgress: () => cut.abort() })
      await expect(cutting).rejects.toEqual(code('ABORTED'))
      expect(await ledger(name, 3).generation(two)).toBe(1)
      await p.rebuild()
      expect(await ledger(name, 3).generation(two)).toBe(2)
      expect(await count(2)).toBe(6)
      expect(calls).toEqual(['setup 1', 'setup 2', 'teardown 1'])
      await expect(count(1)).rejects.toThrow()
    })

    it('read your writes: catchUp waits for the process that has it, and an error names the statement', async () => {
      const w = await world()
      const [one, two] = [await w.engine(), await w.engine()]
      const name = tableName()
      await depositAll(one, 1)
      const p = await one.open(ledger(name, 1))
      await p.catchUp()
      const q = await two.open(ledger(name, 1))
      for (let n = 0; n < 5; n++) {
        await depositAll(two, 1)
        await q.catchUp()
        expect(Number((await sqlOf(two, `SELECT count(*) AS n FROM ${name}_1`))[0]!.n)).toBe(6 * (n + 2))
      }
      expect([p.owned, q.owned]).toEqual([1, 0])
      await (await two.open(account, 'ann')).do('deposit', { amount: 13 })
      await expect(p.catchUp()).rejects.toThrow(/INSERT INTO nowhere_at_all/)
      await expect(q.catchUp({ timeout: 200 })).rejects.toEqual(code('TIMEOUT'))
    })

    it('inline SQL does not cost a commit per command', async () => {
      const rp = await (await world()).engine()
      const name = tableName()
      let isMade = false
      const noted = aggregate('noted', {
        initial: () => ({ n: 0 }),
        evolve: { noted: (s, e: { n: number }) => ({ n: s.n + e.n }) },
        decide: { note: (_s, c: { n: number }) => ({ type: 'noted', n: c.n }) },
        inline: async (sql, event, at) => {
          if (!isMade) await sql.run(`CREATE TABLE ${name} (seq INTEGER, n INTEGER)`)
          isMade = true
          if (event.n === 13) throw new Error('unlucky')
          await sql.run(`INSERT INTO ${name} VALUES (?, ?)`, at.seq, event.n)
        },
      })
      const a = await rp.open(noted, 'x')
      await a.do('note', { n: 1 })
      const before = (await hostOf(rp).kernel.store.read('events/noted/x' as never, 0, 1e6)).length
      await Promise.all(Array.from({ length: 40 }, () => a.do('note', { n: 1 })))
      const runs = (await hostOf(rp).kernel.store.read('events/noted/x' as never, 0, 1e6)).length - before
      expect(runs).toBeLessThan(8)
      // One that fails takes no other with it.
      const results = await Promise.allSettled([1, 13, 1].map((n) => a.do('note', { n })))
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      const rows = await sqlOf(rp, `SELECT seq FROM ${name} ORDER BY seq`)
      expect(rows.map(({ seq }) => Number(seq))).toEqual(Array.from({ length: 43 }, (_, i) => i + 1))
    })
  },
  ['sqlite', 'postgres'],
)

describe('projections of processes that were killed', () => {
  const folder = () => {
    const made = mkdtempSync(join(tmpdir(), 'reprise-members-'))
    folders.push(made)
    return `sqlite:${join(made, 'x.db')}`
  }
  const folders: string[] = []
  afterEach(() => {
    for (const each of folders.splice(0)) rmSync(each, { recursive: true, force: true })
  })

  /** Started, and killed when it has printed this. */
  async function killedAfter(word: string, url: string, ...args: string[]) {
    const child = spawn(process.execPath, [programPath('projection-member'), url, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = new Promise((resolve) => child.on('close', resolve))
    for await (const line of createInterface(child.stdout)) if (line === word) break
    return async () => {
      child.kill('SIGKILL')
      await ended
    }
  }

  it('their partitions move at once on the same host, however long the lease', async () => {
    const { totals: shared } = await import(program.href)
    const { open } = await import(built.href)
    const url = folder()
    // The other one runs first, so that it has something to lose.
    const kill = await killedAfter('owns', url, 'member')
    const rp = await open(url, { lease: '10m' })
    const p = await rp.open(shared())
    await kill()
    await until(() => p.owned === 4)
    await rp.close()
  })

  it('a rebuild that was killed is gone on with: its tables are used, and none is left over', async () => {
    const { account: accounts, ledger: view } = await import(program.href)
    const { open } = await import(built.href)
    const url = folder()
    const name = tableName()
    const rp = await open(url)
    await (await rp.open(accounts, 'ann')).do('deposit', { amount: 5 })
    const p = await rp.open(view(name))
    await p.catchUp()
    await p.close()
    const kill = await killedAfter('building', url, 'rebuild', name)
    await kill()
    const again = await rp.open(view(name))
    await again.rebuild()
    expect(again.generation).toBe(2)
    const tables = await sqlOf(rp, `SELECT name FROM sqlite_master WHERE name LIKE '${name}%'`)
    expect(tables.map((row) => row.name)).toEqual([`${name}_2`])
    expect(await sqlOf(rp, `SELECT amount FROM ${name}_2`)).toEqual([{ amount: 5 }])
    await rp.close()
  })

  it.each(['sums', 'ledger'] as const)(
    'a rebuild of %s that was killed goes on from its last commit, not from the start of what it had read',
    async (kind) => {
      const member = await import(program.href)
      const { open } = await import(built.href)
      const url = folder()
      const name = tableName()
      const rp = await open(url)
      // Few entry runs with many events each, so that all of them are read at once.
      for (let i = 0; i < 60; i++) {
        const account = await rp.open(member.account, `a${i % 10}`)
        await Promise.all(Array.from({ length: 50 }, () => account.do('deposit', { amount: 1 })))
      }
      const kill = spawn(process.execPath, [program.pathname, url, `kill-${kind}`, name, '2500'], { stdio: 'inherit' })
      expect(await new Promise((resolve) => kill.on('close', (_, signal) => resolve(signal)))).toBe('SIGKILL')
      let calls = 0
      const count = () => {
        calls++
      }
      const again = await rp.open(kind === 'sums' ? member.sums(count) : member.ledger(name, count))
      await again.catchUp()
      calls = 0
      await again.rebuild()
      expect(calls).toBeGreaterThanOrEqual(500)
      expect(calls).toBeLessThan(1200)
      const total =
        kind === 'sums'
          ? [...again.state.values()].reduce((sum, amount) => sum + amount, 0)
          : Number((await sqlOf(rp, `SELECT sum(amount) AS total FROM ${name}_2`))[0]!.total)
      expect(total).toBe(3000)
      await rp.close()
    },
  )
})
