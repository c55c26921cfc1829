// Readers outside of the store, which keep a position, a revision, a version or a stream while the store becomes another
// history: a restore from a backup, a failover to an older copy, an id that is deleted and created again. None of them takes
// the other history for its own; each gets an error, and starts over.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { incarnate } from '../../src/engine/tools/identity/incarnate.ts'
import { feedStart, open, type Reprise } from '../../src/index.ts'
import { agent, readTurn } from '../../src/layers/agent/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { informer, resource } from '../../src/layers/resource/index.ts'
import { added, counter } from '../support/definitions.ts'
import { until } from '../support/fixture.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'

const routes = config<string>('routes')
const sites = resource<{ colour: string }>('sites')

const gone = expect.objectContaining({ code: 'POSITION_GONE' })

/** Reads to the end of the feed, without the store's own log: problems are noted there at any time. */
async function readAll(rp: Reprise, after = feedStart) {
  const ids: string[] = []
  for (let at = after; ; ) {
    const page = await rp.feed(at)
    ids.push(...page.items.map(({ timeline }) => timeline).filter((id) => !id.startsWith('reprise/')))
    at = page.next
    if (page.isEnd) return { ids, at }
  }
}

async function write(rp: Reprise, id: string, times: number): Promise<void> {
  const handle = await rp.open(counter, id)
  for (let n = 0; n < times; n++) await handle.append(added(1))
  await handle.close()
}

describe('a SQLite file that was replaced by a copy while it was closed', () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-put-back-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.each([2, 4, 9])('refuses a lost position, with %i entries in its place', async (again) => {
    const [file, copy] = [join(folder, `${again}.db`), join(folder, `${again}.copy.db`)]
    const during = async <T>(work: (rp: Reprise) => Promise<T>): Promise<T> => {
      const rp = await open(`sqlite:${file}`, { housekeeping: false })
      return await work(rp).finally(() => rp.close())
    }
    await during((rp) => write(rp, 'x', 3))
    copyFileSync(file, copy)
    await during((rp) => write(rp, 'x', 4))
    const { at } = await during((rp) => readAll(rp))
    for (const suffix of ['', '-wal', '-shm', '-ack']) rmSync(file + suffix, { force: true })
    copyFileSync(copy, file)
    await during((rp) => write(rp, 'x', again))
    await during((rp) => expect(rp.feed(at)).rejects.toEqual(gone))
    const { at: now } = await during((rp) => readAll(rp))
    expect((await during((rp) => rp.feed(now))).items).toEqual([])
  })

  it('keeps the position of a reader over a rollback, a deletion and an id that is used again', async () => {
    const rp = await open(`sqlite:${join(folder, 'kept.db')}`, { housekeeping: false })
    await write(rp, 'x', 4)
    const { at } = await readAll(rp)
    await rp.rollback({ to: { timeline: 'counter/x', seq: 2 } })
    await rp.feed(at)
    await rp.delete('counter/x')
    await rp.feed(at)
    await write(rp, 'x', 9)
    expect((await readAll(rp, at)).ids).toContain('counter/x')
    await rp.close()
  })
})

describe('a failover of PostgreSQL to an older copy', () => {
  let server: TestPostgres
  const engines: Reprise[] = []
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(async () => {
    await Promise.allSettled(engines.splice(0).map((engine) => engine.close()))
    await server.stop()
  })

  async function engine(namespace: string): Promise<Reprise> {
    const opened = await open(server.url, { namespace, lease: 60_000, housekeeping: false })
    engines.push(opened)
    return opened
  }

  it('a lost position is refused although the feed has grown past it, and the reader starts over', async () => {
    const rp = await engine('feed')
    await write(rp, 'red', 2)
    const failover = await server.copy()
    await write(rp, 'green', 3)
    const { at } = await readAll(rp)
    await failover()
    const reports: string[] = []
    rp.events.on('report', ({ kind }) => reports.push(kind))
    const other = await engine('feed')
    await write(other, 'blue', 20)
    await expect(rp.feed(at)).rejects.toEqual(gone)
    expect(reports).toContain('incarnation')
    // The process that has lost nothing refuses it too: the incarnation is that of the store.
    await expect(other.feed(at)).rejects.toEqual(gone)
    const anew = await readAll(rp)
    expect(new Set(anew.ids)).toEqual(new Set(['counter/red', 'counter/blue']))
    expect((await readAll(other, anew.at)).ids).toEqual([])
  })

  it('a process that has only read notices it, too', async () => {
    const writer = await engine('reading')
    const reader = await engine('reading')
    await write(writer, 'red', 1)
    const failover = await server.copy()
    await write(writer, 'green', 3)
    const { at } = await readAll(reader)
    await writer.close()
    await failover()
    await write(await engine('reading'), 'blue', 20)
    await expect(reader.feed(at)).rejects.toEqual(gone)
  })

  it('a process notices it although its own commits after it were acknowledged', async () => {
    const rp = await engine('overwritten')
    await write(rp, 'red', 1)
    const failover = await server.copy()
    await write(rp, 'red', 3)
    await failover()
    const reports: string[] = []
    rp.events.on('report', ({ kind }) => reports.push(kind))
    // Opened anew, the timeline is that of the copy: the process appends to it, and to others.
    await write(rp, 'red', 9)
    await write(rp, 'green', 20)
    await write(rp, 'blue', 20)
    await expect(rp.feed(feedStart)).rejects.toEqual(gone)
    expect(reports).toContain('incarnation')
  })

  it('a client, a watch and an informer of a running process get an error, and start over', async () => {
    const rp = await engine('others')
    const seen: string[] = []
    const push = await rp.open(routes)
    const kind = await rp.open(sites)
    await kind.create({ name: 'web', spec: { colour: 'blue' } })
    const cache = await rp.open(
      informer('mirror', { of: sites, handle: ({ object }) => void seen.push(object?.spec.colour ?? 'gone') }),
    )
    const stream = await push.client('edge')
    await push.set('blue')
    await stream.ack((await stream.next())!.nonce)
    await until(() => seen.length === 1)
    const failover = await server.copy()
    await push.set('green')
    const green = await stream.next()
    await stream.ack(green!.nonce)
    await kind.change('web', () => ({ spec: { colour: 'green' } }))
    await until(() => seen.at(-1) === 'green')
    const { revision } = await kind.list()
    await failover()
    // Another process continues: as many versions and revisions as before.
    const other = await engine('others')
    const otherPush = await other.open(routes)
    await otherPush.set('red')
    const otherKind = await other.open(sites)
    for (let n = 0; n < 3; n++) await otherKind.create({ name: `site-${n}`, spec: { colour: 'red' } })
    // The stream of the process that lost something joins anew, and is offered red: it runs green.
    // A look before red was written may have found the loss: then blue, the version of the copy, is offered first.
    let red = await stream.next()
    if (red?.value === 'blue') red = await stream.next()
    expect(red).toMatchObject({ version: 2, value: 'red' })
    expect((await push.clients())[0]).toMatchObject({ client: 'edge', inForce: null })
    expect(await stream.ack(green!.nonce)).toMatchObject({ isTaken: false })
    await stream.ack(red!.nonce)
    expect(await otherPush.reached(2)).toMatchObject({ acked: 1 })
    for (const each of [kind, otherKind]) {
      await expect(each.watch({ from: revision }).next()).rejects.toMatchObject({ code: 'REVISION_GONE' })
    }
    // Outside it had handled green; the store has blue.
    await until(() => seen.includes('red') && seen.lastIndexOf('blue') > seen.indexOf('green'))
    await cache.close()
  })

  it('a position in the stream of a turn that is gone is refused, and the turn of now is read from its start', async () => {
    const speaker = (word: string) =>
      agent('speaker', {
        model: async function* () {
          yield { text: `${word} and more` }
        },
      })
    const read = async (at: Reprise, after?: string) => {
      let [text, position] = ['', '']
      for await (const event of readTurn(at, speaker(''), 's', { turn: 1, ...(after !== undefined && { after }) })) {
        if (event.kind === 'text') text += event.text
        if (event.kind !== 'end') position = event.position
      }
      return { text, position }
    }
    const rp = await engine('streams')
    await (await rp.open(speaker('none'), 's')).close()
    const failover = await server.copy()
    const session = await rp.open(speaker('green'), 's')
    await session.turn('go')
    await session.close()
    const held = await read(rp)
    expect(held.text).toBe('green and more')
    expect((await read(rp, held.position)).text).toBe('')
    await failover()
    const reports: string[] = []
    rp.events.on('report', ({ kind }) => reports.push(kind))
    // Another process continues on the copy, where the same turn has another answer.
    const other = await engine('streams')
    const next = await other.open(speaker('a longer red'), 's', { takeover: true })
    await next.turn('go')
    await next.close()
    for (const each of [rp, other]) {
      await expect(read(each, held.position)).rejects.toEqual(gone)
      expect((await read(each)).text).toBe('a longer red and more')
    }
    expect(reports).toContain('incarnation')
  })

  it('that no process has seen is declared: then positions of every namespace are refused', async () => {
    const [one, two] = [await engine('seen-1'), await engine('seen-2')]
    for (const rp of [one, two]) await write(rp, 'red', 1)
    const failover = await server.copy()
    for (const rp of [one, two]) await write(rp, 'green', 3)
    const held = [(await readAll(one)).at, (await readAll(two)).at]
    for (const rp of [one, two]) await rp.close()
    await failover()
    const fresh = [await engine('seen-1'), await engine('seen-2')]
    for (const rp of fresh) await write(rp, 'blue', 20)
    const names = (await incarnate(server.url)).map(({ namespace }) => namespace)
    expect(names).toEqual(expect.arrayContaining(['seen-1', 'seen-2']))
    for (const [i, rp] of fresh.entries()) await expect(rp.feed(held[i]!)).rejects.toEqual(gone)
  })
})

describe('a file of SQLite', () => {
  it('that was put back is declared: every namespace begins a new incarnation, and keeps its id', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-readers-'))
    try {
      const url = `sqlite:${join(folder, 'store.db')}`
      for (const namespace of ['default', 'blue']) {
        const rp = await open(url, { namespace, housekeeping: false })
        await write(rp, 'a', 1)
        await rp.close()
      }
      const [first, second] = [await incarnate(url), await incarnate(url)]
      expect(first.map(({ namespace }) => namespace).sort()).toEqual(['blue', 'default'])
      expect(second.map(({ store }) => store)).toEqual(first.map(({ store }) => store))
      for (const [i, { incarnation, era }] of second.entries()) {
        expect(incarnation).not.toBe(first[i]!.incarnation)
        expect(era).toBeGreaterThan(first[i]!.era)
      }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
