// Keys of records that leave a pipeline, at random and before one receiver that honours them (G5, SPEC A6.5): two namespaces and
// two stores run the same pipeline with several inputs and partitions that grow in number, with checkpoints between the sends and
// another parallelism each time; they are stopped anywhere, restored from backups, deleted and run again. The test names each
// record in its own words: an equal key must stand for the same record, and a record must keep its key.

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { httpSink, pipeline, type Source, sendSink } from '../../src/layers/pipeline/index.ts'
import { hostOf } from '../support/host.ts'
import { Outside } from '../support/outside.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const perPartition = 12

interface Op {
  readonly what: 'run' | 'backup' | 'restore' | 'delete'
  readonly place: number
  readonly parallelism: number
  /** New partitions of the second source since the run before. */
  readonly growth: number
  /** The run is stopped after this many calls to the outside. */
  readonly stopAfter: number
  /** The order in which batches of partitions arrive. */
  readonly order: number
}

const op: fc.Arbitrary<Op> = fc.record({
  what: fc.constantFrom(...(['run', 'run', 'run', 'run', 'backup', 'restore', 'delete'] as const)),
  place: fc.constantFrom(0, 0, 0, 1, 2),
  parallelism: fc.integer({ min: 1, max: 3 }),
  growth: fc.constantFrom(0, 0, 1),
  stopAfter: fc.integer({ min: 5, max: 150 }),
  order: fc.integer({ min: 1, max: 1e9 }),
})
const endless: Op = {
  what: 'run',
  place: 0,
  parallelism: 1,
  growth: 0,
  stopAfter: Number.POSITIVE_INFINITY,
  order: 7,
}
const scripts = fc.array(op, { minLength: 8, maxLength: 14 })

let folder = ''
let files = 0
let server: Server
let outside = new Outside()
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'reprise-keys-'))
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece) => {
      body += piece
    })
    request.on('end', () => {
      outside.receive(String(request.headers['idempotency-key']), JSON.parse(body))
      response.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(() => {
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

interface Given {
  readonly record: string
  readonly n: number
}

/** Partitions between which chance decides, in batches of one to three records. */
function jumbled(name: string, partitions: number, order: number): Source<Given> {
  const names = Array.from({ length: partitions }, (_, i) => `p${i}`)
  let random = order
  const chance = (below: number) => {
    random = (random * 48271) % 2147483647
    return random % below
  }
  return {
    partitions: async () => names,
    open: async (from, context) => {
      const own = context.partitions ?? names
      const next = new Map(own.map((each) => [each, Number(from?.get(each) ?? 0)]))
      return {
        partitions: () => own,
        async read(max) {
          await new Promise((resolve) => setImmediate(resolve))
          const left = own.filter((each) => next.get(each)! < perPartition)
          if (left.length === 0) return null
          const partition = left[chance(left.length)]!
          const first = next.get(partition)!
          const size = Math.min(1 + chance(3), max, perPartition - first)
          next.set(partition, first + size)
          const values = Array.from({ length: size }, (_, i) => {
            const n = first + i
            return { record: `${name}/${partition}/${n}`, n }
          })
          return { partition, values, position: first + size }
        },
        close: async () => undefined,
      }
    },
  }
}

/** `where`: the place and life that the records are of, as the test names it. */
function drawn(where: string, partitions: number, order: number) {
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/`
  return pipeline('out', (p) => {
    const all = p
      .from('left', jumbled('left', 2, order))
      .filter(({ n }) => n % 5 !== 3)
      .union(p.from('right', jumbled('right', partitions, order + 1)))
    all
      .call('look', async (value, { key }) => {
        outside.receive(key, `${where} look ${value.record}`)
        return value
      })
      .flatMap(({ record }) => [`${record} a`, `${record} b`])
      .to(
        'send',
        sendSink(async (value, { key }) => {
          outside.receive(key, `${where} send ${value}`)
        }),
      )
    all
      .filter(({ n }) => n % 3 === 0)
      .map(({ record }) => record)
      .to('post', httpSink<string>({ url, body: (record) => JSON.stringify(`${where} post ${record}`) }))
  })
}

/** The expected state of the pipeline of a place. One that has read its sources to their end reads no new partitions. */
interface Known {
  readonly life: number
  readonly partitions: number
  readonly status: 'none' | 'stopped' | 'done'
}

class Place {
  readonly #name: string
  readonly #namespace: string
  readonly #planted: ReadonlySet<string>
  #world: World
  #known: Known = { life: 1, partitions: 1, status: 'none' }
  #backup: { readonly file: string; readonly known: Known } | null = null
  rp!: Reprise

  constructor(name: string, world: World, namespace: string, planted: ReadonlySet<string>) {
    this.#name = name
    this.#world = world
    this.#namespace = namespace
    this.#planted = planted
  }

  async start(): Promise<void> {
    const store = await this.#world.store(this.#namespace)
    this.rp = createEngine({ store, namespace: this.#namespace, planted: this.#planted }, { worker: 'test' })
    await hostOf(this.rp).kernel.identity.load()
  }

  /** To its end, or until a number of outside calls. Returns whether it ended. */
  async run({ parallelism, growth, stopAfter, order }: Op): Promise<boolean> {
    const { life, status: before } = this.#known
    const partitions = before === 'done' ? this.#known.partitions : Math.min(4, this.#known.partitions + growth)
    const definition = drawn(`${this.#name} life ${life}`, partitions, order)
    const run = this.rp.run(definition, { checkpoint: { every: 7 }, parallelism })
    const calls = outside.ledger.calls.length
    let status = ''
    const ended = run.result().then((report) => {
      status = report.status
    })
    while (status === '' && outside.ledger.calls.length < calls + stopAfter) {
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 1))])
    }
    // No more checkpoints: the work after the last one is repeated.
    if (status === '') await run.cancel()
    await ended
    this.#known = { life, partitions, status: status === 'completed' ? 'done' : 'stopped' }
    return status === 'completed'
  }

  /** Runs to the end: then every record of this life was done, each by all three ways out. */
  async finish(): Promise<void> {
    expect(await this.run({ ...endless, parallelism: 2 })).toBe(true)
    const { life, partitions } = this.#known
    const where = `${this.#name} life ${life}`
    const done = outside.ledger.done.filter((each) => String(each).startsWith(`${where} `))
    const records = ['left', 'right'].flatMap((source) =>
      Array.from({ length: source === 'left' ? 2 : partitions }, (_, i) => `${source}/p${i}`).flatMap((partition) =>
        Array.from({ length: perPartition }, (_, n) => ({ record: `${partition}/${n}`, n })),
      ),
    )
    const expected = records
      .filter(({ record, n }) => record.startsWith('right') || n % 5 !== 3)
      .flatMap(({ record, n }) => [
        `${where} look ${record}`,
        `${where} send ${record} a`,
        `${where} send ${record} b`,
        ...(n % 3 === 0 ? [`${where} post ${record}`] : []),
      ])
    const [missing] = expected.filter((each) => !done.includes(each))
    if (missing !== undefined) outside.wrong ??= `"${missing}" was never done`
    if (done.length !== expected.length) outside.wrong ??= `${done.length} were done of ${expected.length}`
  }

  async backup(): Promise<void> {
    const file = join(folder, `${++files}.rpb`)
    await this.rp.backup(file)
    this.#backup = { file, known: this.#known }
  }

  async restore(world: () => Promise<World>): Promise<void> {
    if (!this.#backup) return
    await this.rp.close()
    this.#world = await world()
    await this.start()
    await this.rp.restore(this.#backup.file)
    const { known } = this.#backup
    // A topic does not lose partitions.
    this.#known = known.status === 'done' ? known : { ...known, partitions: this.#known.partitions }
  }

  async delete(): Promise<void> {
    const { life, partitions, status } = this.#known
    if (status === 'none') return
    await this.rp.delete('pipeline/out', { unfinished: true })
    this.#known = { life: life + 1, partitions, status: 'none' }
  }
}

/** The faults, if any. */
async function play(world: () => Promise<World>, script: readonly Op[], ...planted: string[]): Promise<string | null> {
  outside = new Outside()
  const [one, two] = [await world(), await world()]
  const bugs = new Set(planted)
  const places = [
    new Place('red', one, 'red', bugs),
    new Place('blue', one, 'blue', bugs),
    new Place('other', two, 'red', bugs),
  ]
  for (const place of places) await place.start()
  // As a namespace that was restored from the backup of another one.
  const { id } = await hostOf(places[0]!.rp).kernel.identity.load()
  await hostOf(places[1]!.rp).kernel.identity.reincarnate({ id })
  for (const each of script) {
    const place = places[each.place]!
    if (each.what === 'run') await place.run(each)
    else if (each.what === 'backup') await place.backup()
    else if (each.what === 'restore') await place.restore(world)
    else await place.delete()
    if (outside.wrong) break
  }
  if (!outside.wrong) for (const place of places) await place.finish()
  for (const { rp } of places) await rp.close()
  return outside.wrong
}

const runs: Record<string, number> = { memory: 15, sqlite: 6, postgres: 2 }

onEveryStore('keys of pipelines at random', (world) => {
  it('G5: a key identifies one record, and a record keeps its key', async () => {
    const { kind } = await world()
    await fc.assert(
      fc.asyncProperty(scripts, async (script) => {
        expect(await play(world, script)).toBeNull()
      }),
      { numRuns: runs[kind]!, endOnFailure: true },
    )
  }, 300_000)
})

onEveryStore(
  'planted bugs in keys of pipelines',
  (world) => {
    const bugs = [
      'namespace-left-out',
      'life-left-out',
      'incarnation-in-key',
      'checkpoint-in-key',
      'record-counter-in-key',
    ]
    it.each(bugs)(
      '%s is found',
      async (bug) => {
        let found: string | null = null
        for (const script of fc.sample(scripts, { numRuns: 60, seed: 1 })) found ??= await play(world, script, bug)
        expect(found).not.toBeNull()
      },
      300_000,
    )
  },
  ['memory'],
)
