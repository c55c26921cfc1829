// Values that leave the store and come back: each kind of value is made in one place and used in another. The other place has
// the same names, and as many entries, objects and requests: only the identity of a history distinguishes them. A value of
// another history is refused with a stable code, or its use is harmless, for the reason that its row states.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { feedStart, type Reprise } from '../../src/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import { actOnRequests, strandedRequests } from '../../src/operations/requests.ts'
import { type Ask, at, startServer, type TestServer } from '../server/support.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const cases = ['another namespace', 'another store', 'made again', 'restored'] as const
type Case = (typeof cases)[number]

interface Place {
  readonly rp: Reprise
  readonly server: TestServer
}

interface Row {
  readonly value: string
  /** The timelines that are deleted, so that they are made again. */
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
const id = 'counter/x'

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
    hold: async ({ rp }) => (await rp.feed(feedStart)).next,
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
        for (const timeline of row.timelines) await other.rp.delete(timeline)
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
