// Values that leave the store and come back: each kind of value is made in one place and used in another. The other place has
// the same names, and as many entries, objects and requests: only the identity of a history distinguishes them. A value of
// another history is refused with a stable code, or its use is harmless, for the reason that its row states.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { type Coordinate, timelineId, toHex } from '../../src/core/coordinate.ts'
import { ledgerOnly } from '../../src/engine/model/definition.ts'
import { feedStart, type Reprise } from '../../src/index.ts'
import { agent, readTurn, tool } from '../../src/layers/agent/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import { actOnRequests, strandedRequests } from '../../src/operations/requests.ts'
import { act } from '../../src/operations/run-verb.ts'
import { type Ask, at, startServer, type TestServer } from '../server/support.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { until } from '../support/until.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const cases = ['another namespace', 'another store', 'made again', 'restored'] as const
type Case = (typeof cases)[number]

interface Place {
  readonly rp: Reprise
  readonly server: TestServer
}

interface Row {
  readonly value: string
  /** The timelines that are deleted and then created again. */
  readonly timelines: readonly string[]
  /** Called twice in each place; a restore loses the second time. */
  make(place: Place, word: string): Promise<unknown>
  hold(place: Place): Promise<unknown>
  /** Resolves where the value was made. */
  use(place: Place, held: never): Promise<unknown>
  /** The error code. */
  readonly refused: string
  /** The cases in which the value is accepted, with the reason why that is harmless. */
  readonly harmless?: Partial<Record<Case, string>>
}

const sites = resource<{ word: string }>('sites')
const routes = config<string>('routes')
const id = 'counter/x'
/** Waits for an approval of each payment, and requests another one after a refusal. */
const payer = agent('payer', {
  tools: { pay: tool({ kind: 'irreversible', approve: true, run: async () => 'paid' }) },
  model: async () => ({ content: '', requests: [{ tool: 'pay', args: {} }] }),
})
/** Answers with this word: the same turn of another history has another answer. */
const speaker = (word: string) =>
  agent('speaker', {
    model: async function* () {
      yield { text: `${word} and more` }
    },
  })
/** The value has no effect: the store treats it as that of a stranger. */
const notBelieved = Object.assign(new Error('the value is not believed'), { code: 'not believed' })

const standsForToken = 'for ten minutes it stands for a token, at a server that has the token'

function inEveryCase(why: string): Partial<Record<Case, string>> {
  return Object.fromEntries(cases.map((each) => [each, why]))
}

async function about({ rp }: Place, timeline = id): Promise<object> {
  const { seq, digest } = (await rp.head(timeline))!
  return { seq, digest: toHex(digest) }
}

async function push({ rp }: Place, word: string): Promise<void> {
  await (await rp.open(routes)).set(word)
}

async function write({ rp }: Place): Promise<void> {
  const handle = await rp.open(counter, 'x')
  for (let n = 0; n < 3; n++) await handle.append(added(1))
  await handle.close()
}

async function change({ rp }: Place, word: string): Promise<void> {
  const handle = await rp.open(sites)
  for (const name of ['api', 'web']) {
    if (await handle.get(name)) await handle.change(name, () => ({ spec: { word } }))
    else await handle.create({ name, spec: { word } })
  }
  await handle.close()
}

async function withSites<T>({ rp }: Place, work: (handle: Awaited<ReturnType<typeof openSites>>) => Promise<T>) {
  const handle = await openSites(rp)
  return await work(handle).finally(() => handle.close())
}

function openSites(rp: Reprise) {
  return rp.open(sites)
}

/** The answer of the server. Rejects with its problem. */
// biome-ignore lint/suspicious/noExplicitAny: each row reads the fields of its own answer.
async function ask({ server }: Place, path: string, request?: Ask): Promise<any> {
  const { status, value } = await server.ask(path, request)
  if (status < 400) return value
  throw Object.assign(new Error(value.detail), { code: value.code, status })
}

const rows: readonly Row[] = [
  {
    value: 'a position in the feed',
    timelines: [id],
    make: write,
    // PostgreSQL shows an entry in the feed once no older transaction of the server is open; other tests have some.
    hold: async ({ rp }) => {
      const next = async () => (await rp.feed(feedStart)).next
      await until(async () => (await next()) !== feedStart)
      return await next()
    },
    use: ({ rp }, held: string) => rp.feed(held),
    refused: 'POSITION_GONE',
    harmless: { 'made again': 'the feed of the store continues, and the position is still a place in it' },
  },
  {
    value: 'the revision of an object, in an update',
    timelines: ['resource/sites'],
    make: change,
    hold: (place) => withSites(place, async (handle) => (await handle.get('web'))!.revision),
    use: (place, revision: number) =>
      withSites(place, (handle) => handle.update({ name: 'web', revision, spec: { word: 'mine' } })),
    refused: 'CONFLICT',
  },
  {
    value: 'the revision of a watch',
    timelines: ['resource/sites'],
    make: change,
    hold: (place) => withSites(place, async (handle) => (await handle.get('api'))!.revision),
    use: (place, from: number) => withSites(place, (handle) => handle.watch({ from }).next()),
    refused: 'REVISION_GONE',
  },
  {
    value: 'the next page of a list of objects',
    timelines: ['resource/sites'],
    make: change,
    hold: (place) => withSites(place, async (handle) => (await handle.list({ limit: 1 })).continue),
    use: (place, held: string) => withSites(place, (handle) => handle.list({ continue: held })),
    refused: 'REVISION_GONE',
  },
  {
    value: 'the next page of a history, oldest first',
    timelines: [id],
    make: write,
    hold: async (place) => (await ask(place, `${at(id)}/history?limit=5`)).next,
    use: (place, next: string) => ask(place, `${at(id)}/history?after=${next}`),
    refused: 'POSITION_GONE',
  },
  {
    value: 'the next page of a history, newest first',
    timelines: [id],
    make: write,
    hold: async (place) => (await ask(place, `${at(id)}/history?before=1000&limit=1`)).next,
    use: (place, next: string) => ask(place, `${at(id)}/history?before=${next}`),
    refused: 'POSITION_GONE',
  },
  {
    value: 'the plan of a rollback',
    timelines: [id],
    make: write,
    hold: async (place) => {
      const { to, from, about } = await ask(place, `${at(id)}/rollback/plan`, { body: { seq: 2 } })
      return { to, from, about }
    },
    use: (place, body: object) => ask(place, `${at(id)}/rollback`, { body }),
    refused: 'CONFLICT',
  },
  {
    value: 'the id of a savepoint that was made with a key',
    timelines: [id],
    make: write,
    async hold(place) {
      const { id: savepoint } = await ask(place, `${at(id)}/savepoints`, { body: {}, key: 'same' })
      return savepoint
    },
    async use(place, savepoint: string) {
      await ask(place, `${at(id)}/savepoints`, { body: {}, key: 'same' })
      return await ask(place, `${at(id)}/savepoints/${savepoint}`, { method: 'DELETE' })
    },
    refused: 'NOT_FOUND',
  },
  {
    value: 'a position of the feed over HTTP',
    timelines: [id],
    make: write,
    hold: async (place) => (await ask(place, '/v1/feed')).next,
    use: (place, next: string) => ask(place, `/v1/feed?after=${encodeURIComponent(next)}`),
    refused: 'POSITION_GONE',
    harmless: { 'made again': 'the feed of the store continues, and the position is still a place in it' },
  },
  {
    value: 'a coordinate',
    timelines: [id],
    make: write,
    async hold({ rp }) {
      const { seq, epoch, digest } = (await rp.head(id))!
      return { timeline: id, seq, epoch, digest: toHex(digest) }
    },
    use: ({ rp }, coordinate: Coordinate) => rp.savepoint(coordinate),
    refused: 'NOT_ON_BRANCH',
  },
  {
    value: 'the id of a savepoint',
    timelines: [id],
    make: write,
    hold: async (place) => (await ask(place, `${at(id)}/savepoints`, { body: { label: 'before' } })).id,
    async use(place, savepoint: string) {
      await ask(place, `${at(id)}/savepoints`, { body: { label: 'before' } })
      return await ask(place, `${at(id)}/savepoints/${savepoint}`, { method: 'DELETE' })
    },
    refused: 'NOT_FOUND',
  },
  {
    value: 'a decision about an effect in doubt',
    timelines: [id],
    async make(place) {
      await write(place)
      const open = await hostOf(place.rp).openTimeline(timelineId(id), ledgerOnly)
      const data = { id: 'charge', name: 'charge', key: 'charge-1', reversal: 'none' }
      if (open.effects.list().length === 0) await open.write([{ type: '$effect.intended', data }])
      await open.close()
    },
    hold: about,
    use: (place, seen: object) =>
      ask(place, `${at(id)}/effects/charge/settle`, { body: { outcome: 'done', about: seen } }),
    refused: 'CONFLICT',
  },
  {
    value: 'a decision that an agent waits for',
    timelines: ['agent/payer/s'],
    async make({ rp }) {
      const waiting = await rp.head('agent/payer/s')
      const session = await rp.open(payer, 's')
      if (waiting) await act(rp, waiting, 'decide', { verdict: 'refuse', by: 'ann' })
      const { status } = waiting ? await session.resume() : await session.turn('pay')
      expect(status).toBe('waiting')
      await session.close()
    },
    hold: (place) => about(place, 'agent/payer/s'),
    use: (place, seen: object) =>
      ask(place, `${at('agent/payer/s')}/decide`, { body: { verdict: 'approve', about: seen } }),
    refused: 'CONFLICT',
  },
  {
    value: 'a position in the stream of a turn',
    timelines: ['agent/speaker/s'],
    async make({ rp }, word) {
      const session = await rp.open(speaker(word), 's')
      await session.turn('go')
      await session.close()
    },
    async hold({ rp }) {
      let position = ''
      for await (const event of readTurn(rp, speaker(''), 's', { turn: 2 })) {
        if (event.kind !== 'end') position = event.position
      }
      return position
    },
    async use({ rp }, after: string) {
      for await (const _ of readTurn(rp, speaker(''), 's', { turn: 2, after }));
    },
    refused: 'POSITION_GONE',
  },
  {
    value: 'the stream of a client of a configuration',
    timelines: ['config/routes/clients', 'config/routes'],
    make: push,
    async hold({ rp }) {
      const handle = await rp.open(routes)
      const { stream } = await handle.client('edge')
      return stream
    },
    async use({ rp }, stream: string) {
      await (await rp.open(routes)).client('edge', { stream })
    },
    refused: 'POSITION_GONE',
  },
  {
    value: 'the version that a client of a configuration has',
    timelines: ['config/routes/clients', 'config/routes'],
    make: push,
    async hold({ rp }) {
      const stream = await (await rp.open(routes)).client('edge')
      return (await stream.next())!.held
    },
    async use({ rp }, has: string) {
      const offer = await (await (await rp.open(routes)).client('edge', { has })).next({ wait: 1 })
      if (offer) throw notBelieved
    },
    refused: notBelieved.code,
  },
  {
    value: 'the key of a message',
    timelines: [id],
    make: write,
    hold: ({ rp }) => rp.send(id, 'noted', {}, { key: 'note-1' }),
    async use({ rp }) {
      const unread = async () => (await hostOf(rp).kernel.store.inbox(timelineId(id), 10)).messages.length
      const before = await unread()
      await rp.send(id, 'noted', {}, { key: 'note-1' })
      if ((await unread()) > before) throw notBelieved
    },
    refused: notBelieved.code,
  },
  {
    value: 'the next page of timelines',
    timelines: [id],
    make: write,
    hold: async (place) => {
      await ask(place, `${at('counter/y')}/entries`, { body: { entries: [{ type: 'noted' }] } })
      return (await ask(place, '/v1/timelines?limit=1')).next
    },
    use: (place, next: string) => ask(place, `/v1/timelines?after=${encodeURIComponent(next)}`),
    refused: '',
    harmless: inEveryCase('it is an id: the list continues after it in the order of ids, and names no history'),
  },
  {
    value: 'the next page of a search',
    timelines: [id],
    make: write,
    hold: async (place) => {
      await ask(place, `${at('counter/y')}/entries`, { body: { entries: [{ type: 'noted' }] } })
      return (await ask(place, '/v1/search?limit=1')).next
    },
    use: (place, next: string) => ask(place, `/v1/search?after=${encodeURIComponent(next)}`),
    refused: '',
    harmless: inEveryCase('it is a time and an id: the list continues after both, and names no history'),
  },
  {
    value: 'a link to the dashboard',
    timelines: [id],
    make: write,
    hold: async (place) => (await ask(place, '/v1/links', { method: 'POST' })).path.split('/login/')[1],
    use: (place, code: string) => ask(place, '/v1/sessions', { body: { code } }),
    refused: 'UNAUTHENTICATED',
    harmless: {
      'another namespace': standsForToken,
      'another store': standsForToken,
      restored: standsForToken,
    },
  },
  {
    value: 'the epoch of a lease',
    timelines: ['counter/leased'],
    make: ({ rp }) => rp.send('counter/leased', 'noted', {}).then(() => undefined),
    async hold(place) {
      const lease = await ask(place, `${at('counter/leased')}/lease`, { body: { holder: 'one', ttlMs: 60_000 } })
      return lease.epoch
    },
    async use(place, epoch: number) {
      await ask(place, `${at('counter/leased')}/entries`, { body: { entries: [{ type: 'noted' }], epoch } })
    },
    refused: 'FENCED',
  },
  {
    value: 'the name of a request of an application',
    timelines: [],
    async make({ rp }, word) {
      const request = { group: '', verb: 'start', target: 'workflow/order', topic: null, data: null, options: null }
      const box = hostOf(rp).kernel.store.requests!
      const number = (await box.list({ limit: 10 })).length + 1
      await box.fill([{ ...request, number, id: `order-${number}`, key: word, sentAt: 0, problem: 'no such order' }])
    },
    hold: async ({ rp }) => (await strandedRequests(rp)).at(-1)!.name,
    use: ({ rp }, name: string) => actOnRequests(rp, 'discard', [name]),
    refused: 'NOT_FOUND',
  },
]

const folders: string[] = []
const servers: TestServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.server.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

onEveryStore(
  'values that return',
  (world) => {
    async function place(of: World, namespace = 'red'): Promise<Place> {
      const rp = await of.engine({ namespace })
      const server = await startServer({ rp })
      servers.push(server)
      return { rp, server }
    }

    /** Two places: the value is made in the first, and used in the second. */
    async function places(row: Row, which: Case): Promise<{ held: unknown; other: Place }> {
      const here = await world()
      const first = await place(here)
      await row.make(first, 'blue')
      const folder = mkdtempSync(join(tmpdir(), 'reprise-returning-'))
      folders.push(folder)
      const file = join(folder, 'store.rpb')
      if (which === 'restored') await first.rp.backup(file)
      await row.make(first, 'green')
      const held = await row.hold(first)
      // Where the value was made, it is accepted: a refusal elsewhere is about the history.
      await row.use(first, held as never)
      const other = await place(
        which === 'another store' || which === 'restored' ? await world() : here,
        which === 'another namespace' ? 'blue' : 'red',
      )
      if (which === 'made again') {
        await first.server.close()
        const all = { savepoints: true, unfinished: true }
        for (const timeline of row.timelines) await other.rp.delete(timeline, all)
      }
      if (which === 'restored') await other.rp.restore(file)
      else await row.make(other, 'red')
      await row.make(other, 'purple')
      return { held, other }
    }

    for (const row of rows) {
      for (const which of cases) {
        if (which === 'made again' && row.timelines.length === 0) continue
        const harmless = row.harmless?.[which]
        it(`${row.value} of ${which} is ${harmless ? `harmless: ${harmless}` : `refused: ${row.refused}`}`, async () => {
          const { held, other } = await places(row, which)
          const use = row.use(other, held as never)
          if (harmless) await use
          else await expect(use).rejects.toMatchObject({ code: row.refused })
        })
      }
    }
  },
  ['sqlite', 'postgres'],
)
