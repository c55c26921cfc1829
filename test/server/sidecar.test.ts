// The sidecar: a program that speaks only HTTP appends, reads, owns and captures, on every store, beside a second server.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { onEveryStore, type World } from '../support/worlds.ts'
import { at, startServer, type TestServer } from './support.ts'

onEveryStore(
  'the sidecar',
  (world) => {
    async function twoServers(): Promise<[TestServer, TestServer, World]> {
      const one = await world()
      return [await startServer({ rp: await one.engine() }), await startServer({ rp: await one.engine() }), one]
    }
    const notes = at('notes/ann')
    const entries = (...types: string[]) => ({ entries: types.map((type) => ({ type, data: { n: 1 } })) })

    it('D3: appends once per key, together or not at all, and only where it is expected', async () => {
      const [here, there] = await twoServers()
      const first = await here.ask(`${notes}/entries`, { body: entries('a', 'b'), key: 'k1' })
      expect(first.value).toEqual({ first: 1, seq: 2, isDuplicate: false })
      for (const server of [here, there, here]) {
        const again = await server.ask(`${notes}/entries`, { body: entries('a', 'b'), key: 'k1' })
        expect(again.value).toEqual({ first: 1, seq: 2, isDuplicate: true })
      }
      for (const other of [entries('a', 'c'), entries('a', 'b', 'c')]) {
        const reused = await there.ask(`${notes}/entries`, { body: other, key: 'k1' })
        expect([reused.status, reused.value.code]).toEqual([422, 'KEY_REUSED'])
      }
      const third = { ...entries('c'), expect: 2 }
      expect((await there.ask(`${notes}/entries`, { body: third, key: 'k2' })).value.seq).toBe(3)
      // The answer was lost: the expected sequence has passed, and it is still the same append.
      expect((await here.ask(`${notes}/entries`, { body: third, key: 'k2' })).value).toEqual({
        first: 3,
        seq: 3,
        isDuplicate: true,
      })
      const stale = await here.ask(`${notes}/entries`, { body: third, key: 'k3' })
      expect([stale.status, stale.value.code, stale.value.data.seq]).toEqual([409, 'CONFLICT', 3])
      const { value } = await there.ask(`${notes}/history`)
      expect(value.entries.map((entry: { type: string }) => entry.type)).toEqual(['a', 'b', 'c'])
      for (const wrong of [{ type: '$x' }, { type: 'a b' }, { type: 'a', data: { type: 'b' } }]) {
        const refused = await here.ask(`${notes}/entries`, { body: { entries: [{ type: 'ok' }, wrong] } })
        expect([JSON.stringify(wrong), refused.value.code]).toEqual([JSON.stringify(wrong), 'INVALID_ARGUMENT'])
      }
      expect((await here.ask(`${notes}/history`)).value.coordinate.seq).toBe(3)
    })

    it('lets one of many who expect the same sequence in', async () => {
      const [here, there] = await twoServers()
      await here.ask(`${notes}/entries`, { body: entries('start') })
      const tries = [here, there, here, there, here].map((server) =>
        server.ask(`${notes}/entries`, { body: { ...entries('next'), expect: 1 } }),
      )
      const told = await Promise.all(tries)
      expect(told.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409])
      expect((await there.ask(`${notes}/history`)).value.coordinate.seq).toBe(2)
    })

    it('edits a fork in two calls: a repetition completes it, and one of two editors gets a conflict', async () => {
      const [here, there] = await twoServers()
      await here.ask(`${notes}/entries`, { body: entries('a', 'b', 'c') })
      const edited = async (server: TestServer, key: string) => {
        const fork = await server.ask(`${notes}/fork`, { body: { to: 'edited', seq: 2 }, key: 'fork' })
        expect([fork.status, fork.value.timeline, fork.value.seq]).toEqual([200, 'notes/edited', 2])
        const edit = { ...entries('other'), expect: fork.value.seq }
        return await server.ask(`${at('notes/edited')}/entries`, { body: edit, key })
      }
      // The fork was made, and its client died.
      await here.ask(`${notes}/fork`, { body: { to: 'edited', seq: 2 }, key: 'fork' })
      expect((await edited(there, 'edit')).value).toEqual({ first: 3, seq: 3, isDuplicate: false })
      expect((await edited(here, 'edit')).value).toEqual({ first: 3, seq: 3, isDuplicate: true })
      expect((await edited(here, 'late')).value.code).toBe('CONFLICT')
      const typesOf = async (id: string) =>
        (await here.ask(`${at(id)}/history`)).value.entries.map(({ type }: { type: string }) => type)
      expect(await typesOf('notes/edited')).toEqual(['a', 'b', 'other'])
      expect(await typesOf('notes/ann')).toEqual(['a', 'b', 'c'])
    })

    it('refuses whatever comes under the epoch of a lease that is over', async () => {
      const [here, there] = await twoServers()
      const { value: mine } = await here.ask(`${notes}/lease`, { body: { holder: 'one' } })
      const write = (server: TestServer, epoch?: number) =>
        server.ask(`${notes}/entries`, { body: { ...entries('a'), ...(epoch !== undefined && { epoch }) } })
      expect((await write(here, mine.epoch)).status).toBe(200)
      expect((await write(here)).value.code).toBe('OWNED')
      expect((await write(there)).value.code).toBe('OWNED')
      expect((await here.ask(`${notes}/lease`, { body: { holder: 'two' } })).value.code).toBe('OWNED')
      expect((await there.ask(`${notes}/lease`, { body: { holder: 'two' } })).value.code).toBe('OWNED')
      const { value: theirs } = await there.ask(`${notes}/lease`, { body: { holder: 'two', takeover: true } })
      expect(theirs.epoch).toBeGreaterThan(mine.epoch)
      // The first holder does not know it yet: the store refuses it.
      expect((await write(here, mine.epoch)).value.code).toBe('FENCED')
      const put = { method: 'PUT', body: { total: 1 } }
      expect((await here.ask(`${notes}/checkpoint?seq=1&epoch=${mine.epoch}`, put)).value.code).toBe('FENCED')
      expect((await here.ask(`${notes}/lease/renew`, { body: { epoch: mine.epoch } })).value.code).toBe('FENCED')
      expect((await write(there, theirs.epoch)).value).toMatchObject({ seq: 2 })
      await there.ask(`${notes}/lease?epoch=${theirs.epoch}`, { method: 'DELETE' })
      expect((await write(there, theirs.epoch)).value.code).toBe('FENCED')
      expect((await write(here)).value).toMatchObject({ seq: 3 })
    })

    it('continues a lease at any server, also after the first one is gone, and refuses its token once it is over', async () => {
      const [here, there] = await twoServers()
      const { value: mine } = await here.ask(`${notes}/lease`, { body: { holder: 'one' } })
      const write = (server: TestServer, epoch: number, key: string) =>
        server.ask(`${notes}/entries`, { body: { ...entries('a'), epoch }, key })
      // In turns, as a proxy distributes them: appends, a repeated one, renewals and checkpoints.
      for (const [n, server] of [there, here, there, there, here].entries()) {
        expect((await write(server, mine.epoch, `k${n}`)).value).toMatchObject({ seq: n + 1, isDuplicate: false })
      }
      expect((await write(there, mine.epoch, 'k4')).value).toMatchObject({ seq: 5, isDuplicate: true })
      for (const server of [here, there, here]) {
        const { value } = await server.ask(`${notes}/lease/renew`, { body: { epoch: mine.epoch } })
        expect(value).toMatchObject({ holder: 'one', epoch: mine.epoch, seq: 5 })
        const put = await server.ask(`${notes}/checkpoint?seq=5&epoch=${mine.epoch}`, { method: 'PUT', body: {} })
        expect(put.status).toBe(200)
      }
      const both = await Promise.all([here, there, here, there].map((server, n) => write(server, mine.epoch, `b${n}`)))
      expect(both.map(({ status }) => status)).toEqual([200, 200, 200, 200])
      // Others are refused by both, whichever has the lease now.
      for (const server of [here, there]) {
        expect((await server.ask(`${notes}/entries`, { body: entries('x') })).value.code).toBe('OWNED')
        expect((await server.ask(`${notes}/lease`, { body: { holder: 'two' } })).value.code).toBe('OWNED')
      }
      await here.server.close()
      expect((await write(there, mine.epoch, 'after')).value.seq).toBe(10)
      const { value: theirs } = await there.ask(`${notes}/lease`, { body: { holder: 'two', takeover: true } })
      expect((await write(there, mine.epoch, 'late')).value.code).toBe('FENCED')
      expect((await write(there, theirs.epoch, 'theirs')).value.seq).toBe(11)
      const released = await there.ask(`${notes}/lease?epoch=${theirs.epoch}`, { method: 'DELETE' })
      expect(released.value).toEqual({ released: true })
      const fresh = await startServer({ rp: here.rp })
      expect((await write(fresh, theirs.epoch, 'late')).value.code).toBe('FENCED')
      expect((await fresh.ask(`${notes}/history`)).value.coordinate.seq).toBe(11)
    })

    it('gives a checkpoint back with the coordinate that it was put with', async () => {
      const [here, there] = await twoServers()
      await here.ask(`${notes}/entries`, { body: entries('a', 'b', 'c'), key: 'k1' })
      expect((await here.ask(`${notes}/checkpoint`)).value.code).toBe('NOT_FOUND')
      const { value: history } = await here.ask(`${notes}/history`)
      const put = await here.ask(`${notes}/checkpoint?seq=3&digest=${history.coordinate.digest}`, {
        method: 'PUT',
        body: { total: 3, list: [1, null, 'x'] },
        key: 'p1',
      })
      expect(put.value.coordinate).toMatchObject({ seq: 3, digest: history.coordinate.digest })
      const state = { total: 3, list: [1, null, 'x'] }
      const again = await there.ask(`${notes}/checkpoint?seq=3`, { method: 'PUT', body: state, key: 'p1' })
      expect(again.value.id).toBe(put.value.id)
      await there.ask(`${notes}/entries`, { body: entries('d'), key: 'k2' })
      const bytes = new Uint8Array([0, 255, 1, 2])
      const binary = { 'content-type': 'application/x-pickle' }
      await there.ask(`${notes}/checkpoint?seq=4`, { method: 'PUT', body: bytes, headers: binary })
      const newest = await there.server(
        new Request(`http://localhost${notes}/checkpoint`, {
          headers: { authorization: `Bearer owner-${'x'.repeat(40)}` },
        }),
      )
      expect(new Uint8Array(await newest.arrayBuffer())).toEqual(bytes)
      expect([newest.headers.get('reprise-seq'), newest.headers.get('reprise-type')]).toEqual([
        '4',
        'application/x-pickle',
      ])
      expect(newest.headers.get('content-type')).toBe('application/octet-stream')
      const older = await here.ask(`${notes}/checkpoint?seq=3`)
      expect(older.value).toMatchObject({ coordinate: { seq: 3 }, value: { total: 3, list: [1, null, 'x'] } })
      for (const [query, code] of [
        ['', 'INVALID_ARGUMENT'],
        ['?seq=9', 'OUT_OF_RANGE'],
        [`?seq=3&digest=${'0'.repeat(64)}`, 'NOT_ON_BRANCH'],
      ]) {
        const refused = await here.ask(`${notes}/checkpoint${query}`, { method: 'PUT', body: {} })
        expect([query, refused.value.code]).toEqual([query, code])
      }
      // The keys were moved along: an earlier append is still recognised after it.
      const fresh = await startServer({ rp: here.rp })
      expect((await fresh.ask(`${notes}/entries`, { body: entries('a', 'b', 'c'), key: 'k1' })).value.isDuplicate).toBe(
        true,
      )
    })

    it('gives one answer to concurrent repeats of a checkpoint under one key, and refuses another state under it', async () => {
      const servers = await twoServers()
      await servers[0].ask(`${notes}/entries`, { body: entries('a') })
      const put = (n: number, body: object) =>
        servers[n % 2 === 0 ? 0 : 1].ask(`${notes}/checkpoint?seq=1`, { method: 'PUT', body, key: 'p' })
      const told = await Promise.all([...Array(8).keys()].map((n) => put(n, { total: 1 })))
      expect(told.map(({ status, value }) => [status, value.id])).toEqual(Array(8).fill([200, told[0]!.value.id]))
      expect(told.filter(({ value }) => !value.isDuplicate)).toHaveLength(1)
      expect((await servers[0].ask(`${notes}/checkpoints`)).value.checkpoints).toHaveLength(1)
      expect((await put(1, { total: 2 })).value.code).toBe('KEY_REUSED')
    })

    it('keeps the configured number of checkpoints, and its timelines pass verify', async () => {
      const [here] = await twoServers()
      for (let seq = 1; seq <= 5; seq++) {
        await here.ask(`${notes}/entries`, { body: entries('a') })
        await here.ask(`${notes}/checkpoint?seq=${seq}&keep=2`, { method: 'PUT', body: { seq } })
      }
      const { value } = await here.ask(`${notes}/checkpoints`)
      expect(value.checkpoints.map((each: { seq: number }) => each.seq)).toEqual([5, 4])
      expect((await here.ask('/v1/verify', { body: {} })).value).toMatchObject({ ok: true, faults: [] })
      expect((await here.ask('/v1/drill', { body: {} })).value).toMatchObject({ ok: true, unknown: ['notes/ann'] })
    })
  },
  ['sqlite', 'postgres'],
)

it('timelines of a model are not written entry by entry, and a folded state is not put', async () => {
  const here = await startServer({
    definitions: [timeline('counter', { initial: () => 0, apply: (state, _entry: { type: string }) => state + 1 })],
  })
  for (const id of ['workflow/a/b', 'job/x', 'reprise/log', 'table/rows']) {
    const told = await here.ask(`${at(id)}/entries`, { body: { entries: [{ type: 'a' }] } })
    expect([id, told.value.code]).toEqual([id, 'INVALID_ARGUMENT'])
    expect((await here.ask(`${at(id)}/lease`, { body: { holder: 'x' } })).value.code).toBe('INVALID_ARGUMENT')
  }
  const path = at('counter/visits')
  expect((await here.ask(`${path}/entries`, { body: { entries: [{ type: 'a' }, { type: 'b' }] } })).value.seq).toBe(2)
  expect((await here.ask(`${path}/state`)).value.state).toBe(2)
  const put = await here.ask(`${path}/checkpoint?seq=2`, { method: 'PUT', body: 7 as never })
  expect(put.value.code).toBe('INVALID_ARGUMENT')
  await here.close()
})

it('any order of appends, repeated appends, leases and takeovers leaves each append that was acknowledged once', async () => {
  const here = await startServer({ limits: { openTimelines: 2 } })
  let round = 0
  const step = fc.record({
    what: fc.constantFrom('append', 'append', 'append', 'again', 'lease', 'takeover', 'release'),
    client: fc.nat(2),
    timeline: fc.nat(3),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      round += 1
      const ids = [0, 1, 2, 3].map((n) => `p${round}/t${n}`)
      const acknowledged = new Map(ids.map((id) => [id, [] as string[]]))
      const epochs = new Map<string, number>()
      const last = new Map<string, { key: string; body: object }>()
      await Promise.all(
        steps.map(async ({ what, client, timeline: n }, i) => {
          const id = ids[n]!
          const own = `${id} ${client}`
          if (what === 'lease' || what === 'takeover') {
            const body = { holder: `c${client}`, takeover: what === 'takeover' }
            const { status, value } = await here.ask(`${at(id)}/lease`, { body })
            if (status === 200) epochs.set(own, value.epoch)
          } else if (what === 'release') {
            await here.ask(`${at(id)}/lease?epoch=${epochs.get(own) ?? 1}`, { method: 'DELETE' })
          } else {
            const epoch = epochs.get(own)
            const fresh = {
              key: `k${i}`,
              body: { entries: [{ type: `e${i}` }], ...(epoch !== undefined && { epoch }) },
            }
            const { key, body } = what === 'again' ? (last.get(own) ?? fresh) : fresh
            last.set(own, { key, body })
            const { status, value } = await here.ask(`${at(id)}/entries`, { body, key })
            if (status === 200) acknowledged.get(id)!.push(key)
            else expect(['FENCED', 'OWNED', 'CONTENDED', 'CONFLICT']).toContain(value.code)
          }
        }),
      )
      for (const id of ids) {
        const wanted = new Set(acknowledged.get(id))
        if (wanted.size === 0) continue
        const { value } = await here.ask(`${at(id)}/history?limit=1000`)
        const keys = value.entries.map((entry: { key: string }) => entry.key)
        expect(new Set(keys).size).toBe(keys.length)
        for (const key of wanted) expect(keys).toContain(key)
      }
    }),
    { numRuns: 15, seed: 7 },
  )
  await here.close()
})
