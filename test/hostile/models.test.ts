// Imported entries and mail of any shape, for every model (workflows: test/workflow/malformed.test.ts). A real history is cut at
// an entry of each of its types, and an entry with data of another shape takes its place. Work with it is refused with a code,
// or the entry does no harm; the process and the other timelines work on.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isReprise } from '../../src/core/errors.ts'
import { originDigest, packEntries } from '../../src/core/history/entry-run.ts'
import type { Head } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/engine/api/timeline-definition.ts'
import type { Entry } from '../../src/engine/history/history.ts'
import { rowOf } from '../../src/engine/model/journal-row.ts'
import { sealEntry } from '../../src/engine/storage/seal/entries.ts'
import { agent, sendDecision, tool } from '../../src/layers/agent/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { aggregate, commandTo, processManager, projection, sendCommand } from '../../src/layers/events/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { migrations, type StepContext } from '../../src/layers/migrate/index.ts'
import { collectSink, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { controller, informer, resource } from '../../src/layers/resource/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, table } from '../../src/layers/table/index.ts'
import { upload } from '../../src/layers/upload/index.ts'
import { describeTimeline } from '../../src/operations/describe.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { newGate } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { until } from '../support/until.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

/** Works with the thing of this name as its users do. Each starts and continues where it was. */
type Play = (rp: Reprise, name: string, patienceMs?: number) => Promise<unknown>

/** How long work in the background is waited for: that of a malformed thing may never be done. */
const patience = { sound: 20_000, malformed: 300 }

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})
const sums = projection('sums', {
  from: [account],
  initial: () => ({ sum: 0 }),
  on: { deposited: (s, e) => ({ sum: s.sum + e.amount }) },
  poison: 'quarantine',
})

const plays: Record<string, Play> = {
  async job(rp, name) {
    const papers = job(name, { source: ['a', 'b', 'c'], each: () => undefined, retry: { attempts: 1 } })
    await (await rp.run(papers)).result()
  },
  async aggregate(rp, name) {
    const one = await rp.open(account, name)
    await one.do('deposit', { amount: 5 })
    await one.close()
  },
  async projection(rp, name) {
    const one = await rp.open(account, name)
    await one.do('deposit', { amount: 5 })
    await one.close()
    const handle = await rp.open(sums)
    try {
      await handle.catchUp()
    } finally {
      await handle.close()
    }
  },
  async consumer(rp, name) {
    await plays.aggregate!(rp, name)
    await (await rp.run(consumer(`reads-${name}`, { from: [account], follow: false, each: () => undefined }))).result()
  },
  async 'process manager'(rp, name) {
    await plays.aggregate!(rp, name)
    const manager = processManager(`after-${name}`, {
      from: [account],
      on: { deposited: (e) => (e.amount > 3 ? [commandTo(account, `${name}-fee`, 'deposit', { amount: 1 })] : []) },
      poison: 'quarantine',
    })
    await (await rp.open(manager)).catchUp()
  },
  async informer(rp, name) {
    await plays.resource!(rp, name)
    const { opened: first, open: handled } = newGate()
    const of = resource<{ n: number }>(name)
    const opened = await rp.open(informer(`sees-${name}`, { of, handle: async () => handled() }))
    await Promise.race([first, new Promise((resolve) => setTimeout(resolve, 50))])
    await opened.close()
  },
  async controller(rp, name, timeout = patience.sound) {
    await plays.resource!(rp, name)
    const objects = await rp.open(resource<{ n: number }, { seen: number }>(name))
    if (!(await objects.get('poison'))) await objects.create({ name: 'poison', spec: { n: 0 } })
    const opened = await rp.open(
      controller<{ n: number }, { seen: number }>(`makes-${name}`, {
        watch: [resource<{ n: number }, { seen: number }>(name)],
        retry: { attempts: 1 },
        reconcile: async (context) => {
          if (!context.object) return
          if (context.object.spec.n === 0) throw new Error('poison')
          await context.event('Seen', `n is ${context.object.spec.n}`)
          await context.effect('note', () => 1)
          await context.report({ status: { seen: context.object.spec.n } })
        },
      }),
    )
    try {
      await opened.settled({ timeout })
    } finally {
      await opened.close()
      await objects.close()
    }
  },
  async rollout(rp, name, timeout = patience.sound) {
    const definition = config<number>(name)
    const push = await rp.open(definition)
    await push.set(1)
    const client = await push.client('edge')
    const answering = (async () => {
      for await (const { nonce } of client) await client.ack(nonce)
    })().catch(() => undefined)
    try {
      rp.work([definition])
      await push.reached(await push.set(2), { timeout })
      const version = await push.rollout(3, { stages: [0.5], hold: 1 })
      await push.ended(version, { timeout })
    } finally {
      client.detach()
      await answering
      await push.close()
    }
  },
  async timeline(rp, name) {
    const log = timeline<number, { type: 'added'; n: number }>(name, { initial: () => 0, apply: (sum, e) => sum + e.n })
    const opened = await rp.open(log, 'one')
    await opened.append({ type: 'added', n: 1 })
    await opened.close()
  },
  async 'paged table'(rp, name) {
    const rows = await rp.open(pagedTable<number>(name))
    await rows.set('a', 1)
    await rows.delete('a')
    await rows.set('b', 2)
    await rows.close()
  },
  async migrations(rp, name) {
    const steps = [
      { id: '001-first', run: async (step: StepContext) => void (await step.save({ next: 1 })) },
      { id: '002-second', run: async () => undefined },
    ]
    await rp.run(migrations(name, { steps })).result()
  },
  async memo(rp, name) {
    const square = await rp.open(memo(name, { version: 1, run: (n: number) => n * n }))
    for (const n of [3, 4, 3]) await square.call(n)
    await square.forget(4)
    await square.close()
  },
  async table(rp, name) {
    const rows = await rp.open(table<number>(name))
    await rows.set('a', 1)
    await rows.transaction((tx) => tx.set('b', 2))
    await rows.delete('a')
    await rows.close()
  },
  async 'state store'(rp, name) {
    const rows = await rp.open(stateStore<number>(name, { partitions: 2 }))
    for (let n = 0; n < 4; n++) await rows.set(`k${n}`, n)
    await rows.close()
  },
  async pipeline(rp, name) {
    const items: Source<number> = {
      async open(from) {
        let at = Number(from?.get('0') ?? 0)
        return {
          partitions: () => ['0'],
          close: async () => undefined,
          read: async () => (at < 5 ? { partition: '0', values: [++at], position: at } : null),
        }
      },
    }
    const flow = pipeline(name, (p) => void p.from('items', items).to('out', collectSink<number>()))
    await (await rp.run(flow)).result()
  },
  async agent(rp, name) {
    const add = tool({ kind: 'read-only', approve: true, run: () => 3 })
    let asked = 0
    const helper = agent('helper', {
      tools: { add },
      model: () => (asked++ === 0 ? { content: '', requests: [{ tool: 'add', args: 1 }] } : { content: 'yes' }),
    })
    const session = await rp.open(helper, name)
    await session.turn('hello')
    // The call waits for a person, whose decision arrives by mail.
    await sendDecision(rp, `agent/helper/${name}`, { verdict: 'approve', by: 'ann' })
    await session.resume()
    await session.close()
  },
  async resource(rp, name) {
    const objects = await rp.open(resource<{ n: number }>(name))
    if (!(await objects.get(name))) await objects.create({ name, spec: { n: 1 } })
    await objects.update({ name, spec: { n: 2 }, revision: 'any' })
    await objects.close()
  },
  async config(rp, name) {
    const push = await rp.open(config<number>(name))
    await push.set(1)
    const client = await push.client('edge')
    const { nonce } = (await client.next())!
    await client.ack(nonce)
    client.detach()
    await push.set(2)
    await push.close()
  },
  async save(rp, name) {
    const saves = await rp.open(save<number[]>(name))
    await saves.put([1, 2, 3])
    await saves.latest()
    await saves.close()
  },
  async upload(rp, name) {
    const files = upload(name)
    const handler = files.handler(rp, { path: '/f', authorize: () => true })
    const ask = (method: string, path: string, headers: Record<string, string>, body?: string) =>
      handler(
        new Request(`http://localhost${path}`, {
          method,
          headers: { 'tus-resumable': '1.0.0', ...headers },
          ...(body && { body }),
        }),
      )
    for (const head of await rp.list({ prefix: `upload/${name}/` })) {
      const path = `/f/${head.timeline.slice(`upload/${name}/`.length)}`
      const answer = await ask('HEAD', path, {})
      if (answer.status >= 500)
        expect(((await answer.json().catch(() => ({ code: 'none' }))) as { code: string }).code).not.toBe('INTERNAL')
    }
    const made = await ask('POST', '/f', { 'upload-length': '5' })
    const path = made.headers.get('location')!
    const type = { 'content-type': 'application/offset+octet-stream' }
    await ask('PATCH', path, { ...type, 'upload-offset': '0' }, 'hello')
  },
}

const shapes: readonly unknown[] = [
  ...[null, undefined, 0, -1, 'x', true, [], [null], {}, new Uint8Array(3), new Map(), 12n],
  ...[{ id: null }, { id: {} }, { name: 5 }, { keys: 5 }, { key: null }, { at: 'x' }, { value: null }, { seq: 'x' }],
]

interface History {
  readonly head: Head
  readonly entries: readonly Entry[]
}

async function historiesOf(rp: Reprise): Promise<History[]> {
  const found: History[] = []
  for (const head of await rp.list()) {
    if (head.timeline.startsWith('reprise/') || head.seq === head.floor) continue
    const entries: Entry[] = []
    for await (const entry of entriesAfter(rp, head, head.floor)) entries.push(entry)
    found.push({ head, entries })
  }
  return found
}

/** As after an import: arbitrary entries, never read by a model. */
async function store(rp: Reprise, { head, entries }: History): Promise<void> {
  const { timeline, status, queue, wakeup, attributes } = head
  const { kernel } = hostOf(rp)
  const digest = originDigest(kernel.hash, timeline)
  const packed = entries.map(({ type, version, data, time }, i) =>
    sealEntry(kernel.sealer, { type, version, time, data: kernel.codec.encode(data) }, digest, i),
  )
  const [outcome] = await kernel.store.commit([
    {
      operation: `import ${timeline}` as never,
      guard: { timeline, epoch: 0, seq: 0, digest },
      take: { worker: await kernel.worker.register(), from: 'free', create: { digest } },
      run: packEntries(kernel.hash, { before: digest, first: 1, epoch: 1 }, packed),
      ...{ status, queue, wakeup, attributes, release: true },
    },
  ])
  expect(outcome).toMatchObject({ ok: true })
}

/** The data of a real entry with one field of another shape, or without it; of a list, its first element. */
function* bent(data: unknown): Generator<unknown> {
  if (Array.isArray(data)) {
    for (const first of bent(data[0])) yield [first, ...data.slice(1)]
    return
  }
  if (typeof data !== 'object' || data === null || Object.getPrototypeOf(data) !== Object.prototype) return
  for (const [name, value] of Object.entries(data)) {
    const { [name]: _, ...others } = data as Record<string, unknown>
    yield others
    for (const other of [null, 'x', {}]) if (typeof other !== typeof value) yield { ...others, [name]: other }
  }
}

/** CI takes every fifth shape, beginning with another one for each type; REPRISE_SWEEP=all takes every shape. */
const shapeStep = process.env.REPRISE_SWEEP === 'all' ? 1 : 5

/** Each type that the history has, and one that it has not, with data of another shape. */
function* malformed(histories: readonly History[]): Generator<{ what: string; histories: readonly History[] }> {
  for (const one of histories) {
    const types = new Set(one.entries.map(({ type }) => type))
    for (const [typeNumber, type] of [...types, 'no-such-type'].entries()) {
      const at = one.entries.findIndex((entry) => entry.type === type)
      const before = at < 0 ? one.entries : one.entries.slice(0, at)
      const like = one.entries[Math.max(at, 0)]
      if (!like) continue
      for (const [n, data] of [...shapes, ...bent(at < 0 ? null : like.data)].entries()) {
        if ((n + typeNumber) % shapeStep !== 0) continue
        const bad = { ...one, entries: [...before, { ...like, type, data }] }
        const others = histories.filter((each) => each !== one)
        yield { what: `${one.head.timeline} ${type} shape ${n}`, histories: [...others, bad as History] }
      }
    }
  }
}

/** The views that tools show for every timeline: the journal, its summary and its status. */
async function shown(rp: Reprise, histories: readonly History[]): Promise<void> {
  const { models } = hostOf(rp)
  for (const { head, entries } of histories) {
    const tells = models.find(head.timeline)?.entryRow
    for (const entry of entries) {
      const { about, title, note = '' } = rowOf(entry, tells)
      expect([typeof about, typeof title, typeof note]).toEqual(['string', 'string', 'string'])
    }
    const stored = await rp.head(head.timeline)
    await describeTimeline(rp, stored!).catch((error) => {
      if (!isReprise(error)) throw error
    })
  }
}

async function settled(work: Promise<unknown>): Promise<unknown> {
  const late = new Promise((resolve) => setTimeout(resolve, 20_000, 'it never ended').unref())
  return await Promise.race([
    work.then(
      () => null,
      (error) => error,
    ),
    late,
  ])
}

const uncaught: unknown[] = []
const hear = (error: unknown) => void uncaught.push(error)
beforeAll(() => void process.on('uncaughtException', hear).on('unhandledRejection', hear))
afterAll(() => void process.off('uncaughtException', hear).off('unhandledRejection', hear))

const kinds = [
  ...['agent-message', 'decision', 'command', 'rollout', 'no such kind', 'job.redrive', 'job.discard', 'job.stop'],
  ...['pipeline.stop', 'pipeline.redrive', 'pipeline.discard', 'follower.redrive', 'follower.discard'],
  ...['enter', 'leave', 'admit', 'child'],
]

/** Waits until the mail of a timeline is read. */
async function untilRead(rp: Reprise, timeline: string): Promise<void> {
  await until(async () => (await rp.head(timeline))?.mail === 0)
}

/** Where playing does not read mail: it is read by a process that works for the kind, and while a pipeline runs. */
const mailPlays: Record<string, Play> = {
  async aggregate(rp, name) {
    rp.work([account])
    await plays.aggregate!(rp, name)
    // The first command enters the aggregate in the queue of its kind.
    await sendCommand(rp, commandTo(account, name, 'deposit', { amount: 1 }))
    await untilRead(rp, `events/account/${name}`)
  },
  async 'process manager'(rp, name) {
    rp.work([account])
    await plays['process manager']!(rp, name)
    await untilRead(rp, `events/account/${name}-fee`)
  },
  async pipeline(rp, name) {
    const endless: Source<number> = {
      async open(from) {
        let at = Number(from?.get('0') ?? 0)
        return {
          partitions: () => ['0'],
          close: async () => undefined,
          async read() {
            await new Promise((resolve) => setTimeout(resolve, 5))
            return { partition: '0', values: [++at], position: at }
          },
        }
      },
    }
    const run = await rp.run(pipeline(name, (p) => void p.from('items', endless).to('out', collectSink<number>())))
    await run.started()
    await until(async () => (await rp.head(`pipeline/${name}`))?.mail === 0, run.result())
    await run.stop()
  },
}

/** Mail of every kind and shape waits for the thing when it is worked with; another one has none. */
async function flood(world: World, play: Play): Promise<void> {
  const first = await world.engine({ namespace: 'first' })
  await play(first, 'a')
  const ids = (await historiesOf(first)).map(({ head }) => head.timeline)
  await first.close()
  const wrong: string[] = []
  for (const kind of kinds) {
    const rp = await world.engine({ namespace: `mail-${kind}` })
    await play(rp, 'a')
    for (const id of ids) {
      for (const data of shapes) {
        await rp.send(id, kind, data).catch((error) => expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' }))
      }
    }
    const error = await settled(play(rp, 'a'))
    if (error !== null && !isReprise(error)) wrong.push(`${kind}: ${(error as Error).stack?.slice(0, 300) ?? error}`)
    const other = await settled(play(rp, 'b'))
    if (other !== null) wrong.push(`${kind}: the other: ${(other as Error).stack?.slice(0, 300) ?? other}`)
    const closed = await settled(rp.close())
    if (closed !== null) wrong.push(`${kind}: close: ${String(closed)}`)
    for (const each of uncaught.splice(0)) wrong.push(`${kind}: uncaught ${(each as Error).stack?.slice(0, 300)}`)
  }
  expect(wrong).toEqual([])
}

async function fuzz(world: World, play: Play): Promise<{ cases: number; refused: number }> {
  const first = await world.engine({ namespace: 'first' })
  await play(first, 'a')
  const histories = await historiesOf(first)
  await first.close()
  const wrong: string[] = []
  let [cases, refused] = [0, 0]
  for (const { what, histories: all } of malformed(histories)) {
    const namespace = `case-${cases++}`
    const writer = await world.engine({ namespace })
    for (const each of all) await store(writer, each)
    await writer.close()
    const rp = await world.engine({ namespace })
    const error = await settled(play(rp, 'a', patience.malformed))
    if (error !== null) refused += 1
    // Playing made the model known.
    const unshown = await settled(shown(rp, all))
    if (unshown !== null) wrong.push(`${what}: shown: ${(unshown as Error).stack?.slice(0, 300) ?? unshown}`)
    if (error !== null && !isReprise(error)) wrong.push(`${what}: ${(error as Error).stack?.slice(0, 300) ?? error}`)
    const other = await settled(play(rp, 'b'))
    if (other !== null) wrong.push(`${what}: the other: ${(other as Error).stack?.slice(0, 300) ?? other}`)
    const closed = await settled(rp.close())
    if (closed !== null) wrong.push(`${what}: close: ${String(closed)}`)
    for (const each of uncaught.splice(0)) wrong.push(`${what}: uncaught ${(each as Error).stack?.slice(0, 300)}`)
  }
  expect(wrong).toEqual([])
  return { cases, refused }
}

describe('malformed entries and mail', () => {
  for (const [model, play] of Object.entries(plays)) {
    onEveryStore(
      `of a ${model}`,
      (world) => {
        it('belong to their timeline', { timeout: 300_000 }, async () => {
          const { cases } = await fuzz(await world(), play)
          expect(cases).toBeGreaterThan(shapes.length / shapeStep)
        })

        it('do not come by mail either', { timeout: 300_000 }, async () =>
          flood(await world(), mailPlays[model] ?? play),
        )
      },
      ['memory'],
    )
  }
})
