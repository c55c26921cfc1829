// Watches, informers and clients of a pushed configuration whose store becomes another history: a restore of a backup into a
// fresh store, and a kind or a configuration that is deleted and created again. Their positions are refused or ignored, and
// they start over. The clients run the version that they last applied: the store must never count them as having another value.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/index.ts'
import { agent, readTurn } from '../../src/layers/agent/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { informer, resource } from '../../src/layers/resource/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

async function backup(rp: Reprise): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-histories-'))
  folders.push(folder)
  const file = join(folder, 'store.rpb')
  await rp.backup(file)
  return file
}

async function restored(world: () => Promise<World>, file: string): Promise<Reprise> {
  const rp = await (await world()).engine()
  await rp.restore(file)
  return rp
}

const routes = config<string>('routes')
const sites = resource<{ colour: string }>('sites')
/** Answers with this word: the same turn of another history has another answer. */
const speaker = (word: string) =>
  agent('speaker', {
    model: async function* () {
      yield { text: `${word} and more` }
    },
  })

async function readTurnOf(rp: Reprise, after?: string) {
  let text = ''
  let position = ''
  const from = after === undefined ? {} : { after }
  for await (const event of readTurn(rp, speaker(''), 's', { turn: 1, ...from })) {
    if (event.kind === 'text') text += event.text
    if (event.kind !== 'end') position = event.position
  }
  return { text, position }
}

const gone = (code: string) => expect.objectContaining({ code })

onEveryStore(
  'a restored store',
  (world) => {
    it("never takes a client's version for another value: it is offered the current version, and that is reported", async () => {
      const before = await (await world()).engine()
      const push = await before.open(routes)
      const stream = await push.client('edge')
      await push.set('blue')
      const blue = await stream.next()
      await stream.ack(blue!.nonce)
      const file = await backup(before)
      await push.set('green')
      const green = await stream.next()
      await stream.ack(green!.nonce)

      const after = await restored(world, file)
      const reports: string[] = []
      after.events.on('report', ({ kind }) => reports.push(kind))
      const other = await after.open(routes)
      // The backup contains that it had accepted blue. It runs green.
      expect(await other.status()).toMatchObject({ latest: 1, inForce: [{ version: null, clients: 1 }] })
      await other.set('red')
      await expect(other.reached(2, { timeout: 1 })).rejects.toEqual(gone('TIMEOUT'))
      // Its stream, its late answer and its version belong to another history.
      await expect(other.client('edge', { stream: stream.stream })).rejects.toEqual(gone('POSITION_GONE'))
      expect(await other.ack('edge', green!.nonce)).toMatchObject({ isTaken: false })
      for (const has of [2, green!.held, blue!.held]) {
        const again = await other.client('edge', { has })
        expect(await other.clients()).toMatchObject([{ client: 'edge', inForce: null }])
        expect(await again.next()).toMatchObject({ version: 2, value: 'red' })
        expect(await again.next({ wait: 1 })).toBeNull()
      }
      expect(reports.filter((kind) => kind === 'resync')).toHaveLength(3)
      const red = await (await other.client('edge')).next()
      await other.ack('edge', red!.nonce)
      expect(await other.reached(2)).toMatchObject({ acked: 1 })
      // Its position in this history is accepted.
      const known = await other.client('edge', { has: red!.held })
      expect(await known.next({ wait: 1 })).toBeNull()
      expect(await other.clients()).toMatchObject([{ inForce: 2 }])
    })

    it('refuses the position that a client has of a streamed turn, and gives the turn of now from its start', async () => {
      const before = await (await world()).engine()
      await (await before.open(speaker('none'), 's')).close()
      const file = await backup(before)
      await (await before.open(speaker('green'), 's')).turn('go')
      const held = await readTurnOf(before)
      expect(held.text).toBe('green and more')
      expect((await readTurnOf(before, held.position)).text).toBe('')

      const after = await restored(world, file)
      await (await after.open(speaker('a longer red'), 's')).turn('go')
      await expect(readTurnOf(after, held.position)).rejects.toEqual(gone('POSITION_GONE'))
      expect((await readTurnOf(after)).text).toBe('a longer red and more')
    })

    it('refuses revisions of before, and an informer handles every object anew', async () => {
      const before = await (await world()).engine()
      const seen: string[] = []
      const watching = informer('mirror', { of: sites, handle: ({ object }) => void seen.push(object!.spec.colour) })
      const kind = await before.open(sites)
      await kind.create({ name: 'web', spec: { colour: 'blue' } })
      const cache = await before.open(watching)
      await until(() => seen.length === 1)
      await cache.close()
      const file = await backup(before)
      const green = await kind.change('web', () => ({ spec: { colour: 'green' } }))
      const held = await kind.list()

      const after = await restored(world, file)
      const other = await after.open(sites)
      const web = await other.get('web')
      for (let n = 0; n < 3; n++) await other.create({ name: `site-${n}`, spec: { colour: 'red' } })
      await expect(other.watch({ from: held.revision }).next()).rejects.toEqual(gone('REVISION_GONE'))
      await expect(other.list({ revision: held.revision })).rejects.toEqual(gone('REVISION_GONE'))
      const stale = { name: 'web', revision: green.revision, spec: { colour: 'stale' } }
      await expect(other.update(stale)).rejects.toMatchObject({
        code: 'CONFLICT',
        message: expect.stringContaining(`it is at revision ${web!.revision}, not ${green.revision}`),
        data: { revision: web!.revision },
      })
      // After a new start, it continues from there.
      const list = await other.list({ limit: 2 })
      expect((await other.list({ continue: list.continue! })).items).toHaveLength(2)
      const events = other.watch({ from: list.revision })
      await other.update({ name: 'web', revision: web!.revision, spec: { colour: 'purple' } })
      expect(await events.next()).toMatchObject({ type: 'modified', object: { spec: { colour: 'purple' } } })
      // Outside, it had handled green: the handler is called although nothing has changed since blue.
      seen.length = 0
      const mirror = await after.open(watching)
      await until(() => seen.length === 4)
      expect(seen.sort()).toEqual(['purple', 'red', 'red', 'red'])
      await mirror.close()
    })
  },
  ['sqlite', 'postgres'],
)

onEveryStore(
  'a name that is used again',
  (world) => {
    it('is another configuration: streams and versions of the one before are not its own', async () => {
      const w = await world()
      const rp = await w.engine()
      const push = await rp.open(routes)
      const stream = await push.client('edge')
      await push.set('blue')
      const blue = await stream.next()
      await stream.ack(blue!.nonce)
      await rp.close()
      const next = await w.engine()
      for (const id of ['config/routes/clients', 'config/routes']) await next.delete(id)
      const other = await next.open(routes)
      await other.set('red')
      await expect(other.client('edge', { stream: stream.stream })).rejects.toEqual(gone('POSITION_GONE'))
      for (const has of [1, blue!.held]) {
        expect(await (await other.client('edge', { has })).next()).toMatchObject({ version: 1, value: 'red' })
      }
    })

    it('is another session, as one that was rolled back is: a position in its stream is refused', async () => {
      const w = await world()
      const rp = await w.engine()
      const session = await rp.open(speaker('green'), 's')
      await session.turn('go')
      const held = await readTurnOf(rp)
      // The turn was read: its reader is a consumer.
      await session.rollback({ to: 0, consumed: 'force' })
      await session.close()
      await (await rp.open(speaker('a longer blue'), 's')).turn('go')
      await expect(readTurnOf(rp, held.position)).rejects.toEqual(gone('POSITION_GONE'))
      const second = await readTurnOf(rp)
      await rp.close()
      const next = await w.engine()
      await next.delete('agent/speaker/s')
      await (await next.open(speaker('a much longer red'), 's')).turn('go')
      await expect(readTurnOf(next, second.position)).rejects.toEqual(gone('POSITION_GONE'))
      expect((await readTurnOf(next)).text).toBe('a much longer red and more')
    })

    it('is another kind: a watch of the previous one gets an error, in the process that had it open and in others', async () => {
      const w = await world()
      const rp = await w.engine()
      const kind = await rp.open(sites)
      await kind.create({ name: 'web', spec: { colour: 'blue' } })
      const { revision } = await kind.list()
      await kind.close()
      await rp.delete('resource/sites')
      const other = await (await w.engine()).open(sites)
      for (let n = 0; n < 3; n++) await other.create({ name: `site-${n}`, spec: { colour: 'red' } })
      await expect(other.watch({ from: revision }).next()).rejects.toEqual(gone('REVISION_GONE'))
      const again = await rp.open(sites)
      await expect(again.watch({ from: revision }).next()).rejects.toEqual(gone('REVISION_GONE'))
      expect((await again.list()).items).toHaveLength(3)
    })
  },
  ['sqlite', 'postgres'],
)
