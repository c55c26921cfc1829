// The feed over real sockets: clients that are cut off anywhere and come back with the id of the last event they saw whole have
// every entry, and none twice, while many write.

import { request } from 'node:http'
import { afterEach, expect, it } from 'vitest'
import { defaultServerLimits } from '../../src/server/limits.ts'
import { type Listening, listen } from '../../src/server/listen.ts'
import { onEveryStore } from '../support/worlds.ts'
import { at, secret, startServer, type TestServer } from './support.ts'

interface Seen {
  readonly id: string | null
  readonly name: string
  // biome-ignore lint/suspicious/noExplicitAny: what the server sent, looked at by the test.
  readonly data: any
}

let listening: Listening | null = null
afterEach(async () => {
  await listening?.close()
  listening = null
})

/** Reads whole events until `enough` returns true, or for a number of events; the rest is discarded, as by a lost connection. */
function follow(
  query: string,
  options: { readonly as?: string; readonly last?: string | null; readonly eventsMax?: number },
  enough: (seen: readonly Seen[]) => boolean,
): Promise<Seen[]> {
  const { as = 'owner', last = null, eventsMax = Number.POSITIVE_INFINITY } = options
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${secret(as)}`, ...(last !== null && { 'last-event-id': last }) }
    const asked = request(`${listening!.url}/v1/feed/stream${query}`, { headers, agent: false }, (response) => {
      let text = ''
      const seen: Seen[] = []
      response.setEncoding('latin1')
      response.on('data', (piece: string) => {
        text += piece
        for (let end = text.indexOf('\n\n'); end >= 0 && seen.length < eventsMax; end = text.indexOf('\n\n')) {
          const lines = text.slice(0, end).split('\n')
          text = text.slice(end + 2)
          const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
          const data = field('data')
          if (data !== undefined) seen.push({ id: field('id') ?? null, name: field('event')!, data: JSON.parse(data) })
        }
        if (enough(seen) || seen.length >= eventsMax) {
          asked.destroy()
          resolve(seen)
        }
      })
      response.on('end', () => resolve(seen))
      response.on('error', () => resolve(seen))
    })
    asked.on('error', reject)
    asked.end()
  })
}

const entriesIn = (seen: readonly Seen[]): string[] =>
  seen
    .filter(({ name }) => name === 'entries')
    .flatMap(({ data }) => data.map(({ timeline, seq }: { timeline: string; seq: number }) => `${timeline}@${seq}`))

onEveryStore(
  'the feed',
  (world) => {
    async function start(): Promise<TestServer> {
      const here = await startServer({ rp: await (await world()).engine() })
      listening = await listen(here.server, { port: 0, limits: defaultServerLimits })
      return here
    }
    const append = (here: TestServer, timeline: string, n: number, as = 'owner') =>
      here.ask(`${at(timeline)}/entries`, { as, body: { entries: [{ type: 'added', data: { n } }] } })

    it('has no gap and no repetition for a client that is cut off again and again', async () => {
      const here = await start()
      const timelines = ['a/1', 'a/2', 'a/3', 'b/1']
      const rounds = 12
      const writing = (async () => {
        // All at once: several timelines become durable in one commit, and share a position.
        for (let n = 1; n <= rounds; n++) await Promise.all(timelines.map((timeline) => append(here, timeline, n)))
        await append(here, 'a/end', 1)
      })()
      const wanted = ['a/1', 'a/2', 'a/3'].flatMap((id) => [...Array(rounds).keys()].map((n) => `${id}@${n + 1}`))
      const got: string[] = []
      let last: string | null = null
      for (let turn = 0; !got.includes('a/end@1'); turn++) {
        const isWhole = (seen: readonly Seen[]) => entriesIn(seen).includes('a/end@1')
        const seen: Seen[] = await follow('?prefix=a&from=start', { last, eventsMax: 2 + (turn % 4) }, isWhole)
        got.push(...entriesIn(seen))
        last = seen.at(-1)?.id ?? last
      }
      await writing
      expect([...got].sort()).toEqual([...wanted, 'a/end@1'].sort())
      for (const id of timelines) {
        const own = got.filter((each) => each.startsWith(`${id}@`)).map((each) => Number(each.split('@')[1]))
        expect(own).toEqual([...own].sort((x, y) => x - y))
      }
    })

    it('starts now by default, returns that position at once, and shows a tenant its own', async () => {
      const here = await start()
      await append(here, 'bob/1', 1)
      await append(here, 'ann/1', 1)
      const [first] = await follow('', {}, (seen) => seen.length > 0)
      expect([first!.name, first!.data]).toEqual(['position', {}])
      await append(here, 'ann/1', 2)
      await append(here, 'bob/1', 2)
      const after = await follow('', { last: first!.id }, (seen) => entriesIn(seen).length >= 2)
      expect(entriesIn(after)).toEqual(['ann/1@2', 'bob/1@2'])
      const own = await follow('?from=start', { as: 'bob' }, (seen) => entriesIn(seen).length >= 2)
      expect(entriesIn(own)).toEqual(['bob/1@1', 'bob/1@2'])
      expect(JSON.stringify(own)).not.toContain('ann/')
    })

    it('drops a disconnected client, and bounds the number of clients', async () => {
      const here = await startServer({ rp: await (await world()).engine(), limits: { streams: 1 } })
      listening = await listen(here.server, { port: 0, limits: defaultServerLimits })
      const held = new Promise<() => void>((resolve) => {
        const asked = request(
          `${listening!.url}/v1/feed/stream`,
          { headers: { authorization: `Bearer ${secret('owner')}` }, agent: false },
          (response) => response.once('data', () => resolve(() => asked.destroy())),
        )
        asked.on('error', () => undefined)
        asked.end()
      })
      const end = await held
      expect((await here.ask('/v1/feed/stream')).value.code).toBe('OVERLOADED')
      end()
      await expect.poll(async () => (await here.ask('/metrics')).value).toMatch(/^reprise_http_streams 0$/m)
    })
  },
  ['sqlite', 'postgres'],
)

it('a position that the store does not have is refused', async () => {
  const here = await startServer()
  const { status, value } = await here.ask('/v1/feed?after=%0a')
  expect([status, value.code]).toEqual([400, 'INVALID_ARGUMENT'])
  const beyond = await here.ask('/v1/feed?after=zzzzzzzzzzzzzzzz')
  expect(beyond.status).toBeGreaterThanOrEqual(400)
  expect(beyond.status).toBeLessThan(500)
  await here.close()
})
