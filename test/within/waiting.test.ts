// Requests that a process cannot carry out now, since it lacks their key: other processes take them, and they hold back no other.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { within } from '../../src/within.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { type Application, application } from './database.ts'

const note = workflow('note', async (_ctx, text: string) => text)
const ring = { a: new Uint8Array(32).fill(7), b: new Uint8Array(32).fill(8) }
const withKeys = { keys: { current: 'b', keys: ring } } as const

describe.each(Object.keys(storeUrls))('requests that wait for a key (%s)', (kind) => {
  let store: StoreUrl
  let sender: Reprise
  let app: Application
  const others: Reprise[] = []
  beforeEach(async () => {
    store = storeUrls[kind]!()
    others.push(await open(store.url, { keys: { current: 'a', keys: { a: ring.a } } }))
    sender = await open(store.url, withKeys)
    app = await application(store.url)
  })
  afterEach(async () => {
    await app.close()
    await Promise.all([sender, ...others.splice(0)].map((rp) => rp.close()))
    await store.remove()
  })
  const requests = () => hostOf(sender).kernel.store.requests!.list({ limit: 1000 })
  const resultOf = async (id: string) => {
    await until(async () => (await hostOf(sender).head(`workflow/note/${id}`)) !== null)
    return await workflows(sender).of(note).get(id).result()
  }
  const commit = async (count: number) => {
    await app.run('BEGIN')
    for (let n = 0; n < count; n++) await within(sender, app.tx).run(note, 'sealed', { id: `sealed-${n}`, here: false })
    await app.run('COMMIT')
  }
  /** A worker without the key `b`, which has tried all requests. */
  const keyless = async () => {
    const [worker] = others
    const missing: unknown[] = []
    worker!.events.on('problem', ({ error }) => missing.push(error))
    worker!.work([note])
    await until(() => missing.length > 0)
    await until(() => !hostOf(worker!).requests.isDraining)
    expect(missing[0]).toMatchObject({ code: 'KEY_MISSING' })
    return worker!
  }

  it('E3: a worker without the key of a request leaves it to one that has the key', async () => {
    await commit(201)
    await keyless()
    expect(await requests()).toHaveLength(201)
    sender.work([note])
    expect([await resultOf('sealed-0'), await resultOf('sealed-200')]).toEqual(['sealed', 'sealed'])
    await until(async () => (await requests()).length === 0)
  })

  // A row of SQLite does not name its transaction: to keep the order, the others wait for the key as well.
  if (kind !== 'postgres') return

  it('E3: more of them than a worker takes at once hold back no other', async () => {
    await commit(201)
    await app.start('note', 'plain', 'text')
    await keyless()
    expect(await resultOf('plain')).toBe('text')
    expect(await requests()).toHaveLength(201)
  })
})
