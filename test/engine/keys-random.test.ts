// Keys of effects, steps, items, tools, controllers and process managers at random, before one receiver that honours them
// (G5, SPEC A6.5): two namespaces and two stores share it; stores are restored from backups; timelines are forked, rolled back,
// deleted, erased and used again; processes die once the outside has done it. The test names each intent in its own words,
// without a key: an equal key must stand for an equal intent, and an intent must keep its key. Bugs that are planted in the
// derivation are found.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { isReprise } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { aggregate, commandTo, processManager } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { controller, type ReconcileContext, resource } from '../../src/layers/resource/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { Outside } from '../support/outside.ts'
import { until } from '../support/until.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const models = ['effect', 'workflow', 'job', 'tool', 'controller', 'manager'] as const
type Model = (typeof models)[number]

interface Op {
  readonly what: 'act' | 'fork' | 'rollback' | 'delete' | 'erase' | 'backup' | 'restore'
  readonly place: number
  readonly model: Model
  /** The name of the effect, run or item. */
  readonly n: number
  readonly amount: number
  /** The process dies when the outside has done it. */
  readonly dies: boolean
}

const opOf = (of: readonly Model[]): fc.Arbitrary<Op> =>
  fc.record({
    what: fc.constantFrom(
      ...(['act', 'act', 'act', 'act', 'fork', 'rollback', 'delete', 'erase', 'backup', 'restore', 'restore'] as const),
    ),
    place: fc.constantFrom(0, 0, 0, 1, 2),
    model: fc.constantFrom(...of),
    n: fc.nat(1),
    amount: fc.constantFrom(500, 900),
    dies: fc.boolean(),
  })
const scriptsOf = (of: readonly Model[]) => fc.array(opOf(of), { minLength: 12, maxLength: 24 })
const scripts = scriptsOf(models)
/** Scripts of four models repeat an intent after a restore more often: bugs in the derivation that all share are found sooner. */
const narrowScripts = scriptsOf(['effect', 'workflow', 'job', 'tool'])

/** One timeline as the test expects it; a restore resets the expectation. */
interface Known {
  readonly life: number
  readonly generation: number
  /** Calls of tools so far: the place of the next one. */
  readonly calls: number
  /** The intents in its history: none of them is called again. */
  readonly there: ReadonlyMap<string, number>
}
/** A plan, or an event, is another one each time it is made. */
let made = 0
const fresh: Known = { life: 1, generation: 0, calls: 0, there: new Map() }

let folder = ''
let files = 0
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'reprise-keys-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const dead = new Set<string>()
let processes = 0
let forks = 0

/** A namespace of a store, with the process that is at work there. */
class Place {
  readonly #name: string
  readonly #namespace: string
  readonly #planted: ReadonlySet<string>
  readonly #outside: Outside
  #world: World
  #process = ''
  #kill = () => {}
  #known = new Map<string, Known>()
  #backup: { readonly file: string; readonly known: Map<string, Known> } | null = null
  /** The current behaviour of steps and tools. */
  #call: (key: string) => unknown = () => undefined
  readonly #pay = payWith((key) => this.#call(key))
  readonly #clerk = clerkWith((key) => this.#call(key))
  rp!: Reprise

  constructor(name: string, world: World, namespace: string, outside: Outside, planted: ReadonlySet<string>) {
    this.#name = name
    this.#world = world
    this.#namespace = namespace
    this.#outside = outside
    this.#planted = planted
  }

  async start(): Promise<void> {
    this.#process = `p${++processes}`
    const { store, kill } = mortal(await this.#world.store(this.#namespace))
    this.#kill = kill
    const ports = {
      store,
      namespace: this.#namespace,
      identity: { host: 'host', process: this.#process },
      isGone: (other: { process: string }) => dead.has(other.process),
      planted: this.#planted,
    }
    this.rp = createEngine(ports, { worker: this.#process, patience: 1 })
    await hostOf(this.rp).kernel.identity.load()
  }

  async backup(): Promise<void> {
    const file = join(folder, `${++files}.rpb`)
    await this.rp.backup(file)
    this.#backup = { file, known: new Map(this.#known) }
  }

  /** Into an empty store; the one before is gone. */
  async restore(world: () => Promise<World>): Promise<void> {
    if (!this.#backup) return
    await this.rp.close()
    this.#world = await world()
    await this.start()
    await this.rp.restore(this.#backup.file)
    this.#known = new Map(this.#backup.known)
  }

  /** The intent in words; `dies`: the process, once the outside has done it. */
  async act(
    { model, n, amount, dies }: Op,
    id = model === 'workflow' ? `x${n}` : 'x',
    isFinished = true,
  ): Promise<void> {
    if (model === 'controller') return await this.#plan(`x${n}`, amount, dies)
    if (model === 'manager') return await this.#pass(amount, dies)
    const known = this.#of(model, id)
    const what = model === 'tool' ? `call ${known.calls}` : model === 'workflow' ? 'charge' : `pay${n}`
    // An effect of this id, and a run, keep the input that they began with; a job does an item anew for each version.
    const isOnce = model === 'effect' || model === 'workflow'
    const wanted = isOnce ? (known.there.get(what) ?? amount) : amount
    const place = `${this.#name} ${model}/${id} life ${known.life} generation ${known.generation}`
    const intent = `${place}: ${what} ${wanted}`
    const there = new Map(known.there).set(isOnce || model === 'tool' ? what : `${what} ${wanted}`, wanted)
    this.#know(model, id, { ...known, there, calls: known.calls + 1 })
    const run = (call: (key: string) => unknown) => this.#run(model, id, n, wanted, call)
    if (dies && model !== 'tool') await this.#die(run, (key) => this.#outside.receive(key, intent))
    if (isFinished) await run((key) => this.#outside.receive(key, intent))
  }

  async #die(
    run: (call: (key: string, intent?: string) => unknown) => Promise<void>,
    call: (key: string, intent?: string) => unknown,
  ): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const die = (key: string, intent?: string) => {
        call(key, intent)
        dead.add(this.#process)
        this.#kill()
        resolve()
        throw new Error('killed')
      }
      // Done before: then nothing is called.
      run(die).then(resolve, (error) => (dead.has(this.#process) ? resolve() : reject(error)))
    })
    if (dead.has(this.#process)) await this.#restart()
  }

  /** The process is killed, if it is not dead already, and another one starts. */
  async #restart(): Promise<void> {
    dead.add(this.#process)
    this.#kill()
    // Its work is undone some time later.
    void this.rp.close().catch(() => undefined)
    await this.start()
  }

  /** Creates or changes a plan, for which a controller charges; an `amount` of null removes the plan. */
  async #plan(name: string, amount: number | null, dies: boolean): Promise<void> {
    const known = this.#of('controller', name)
    const { life, generation } = known
    const isSame = amount === null ? generation === 0 : known.there.get(name) === amount
    if (isSame) return
    const next = generation === 0 ? { life: ++made, generation: 1 } : { life, generation: generation + 1 }
    const there = new Map(amount === null ? [] : [[name, amount]])
    this.#know('controller', name, amount === null ? fresh : { ...known, ...next, there })
    // The controller names the intent by the plan that it charges for: a backup leaves its timeline out, so after a restore it
    // charges for every plan again, under the same keys.
    const charge = (key: string, intent = '') => this.#outside.receive(key, `${this.#name} ${intent}`)
    const run = async (call: (key: string, intent?: string) => unknown) => {
      const handle = await this.rp.open(plans)
      const object = await handle.get(name)
      if (amount === null && object) await handle.delete(name)
      else if (amount !== null && !object) await handle.create({ name, spec: { amount, made: next.life } })
      else if (amount !== null) await handle.change(name, () => ({ spec: { amount, made: next.life } }))
      const working = await this.rp.open(chargesWith(call))
      await working.settled()
      await working.close()
    }
    if (dies) await this.#die(run, charge)
    await run(charge)
  }

  /**
   * An event, and the command that a process manager sends for it. The id of the command is its key. It never leaves the store,
   * so it is bound to one intent within the store only.
   */
  async #pass(amount: number, dies: boolean): Promise<void> {
    const known = this.#of('manager', 'x')
    const id = `event-${++made}`
    const writer = await this.rp.open(till, 'x', { takeover: true })
    await writer.do('pay', { amount, id })
    if (!dies) await writer.close()
    else {
      await this.#restart()
      await (await this.rp.open(till, 'x', { takeover: true })).close()
    }
    const manager = await this.rp.open(doubles)
    // PostgreSQL shows an entry to readers once every older transaction of the server has ended.
    await until(async () => {
      await manager.catchUp()
      const { mail = 0 } = (await this.rp.head('events/copies/x')) ?? {}
      return mail > 0 || [...((await copies.read(this.rp, 'x').catch(() => null))?.state ?? [])].includes(id)
    })
    await manager.close()
    const host = hostOf(this.rp)
    for (const message of (await host.kernel.store.inbox(timelineId('events/copies/x'), 100)).messages) {
      const { input } = host.openMessage(message) as { readonly input: { readonly id: string } }
      this.#outside.receive(`${this.#name} ${message.id}`, `${this.#name}: copy ${input.id}`)
    }
    this.rp.work([copies])
    await until(async () => (await this.rp.head('events/copies/x'))?.mail === 0)
    const there = new Map(known.there).set(id, amount)
    const copy = await this.rp.open(copies, 'x')
    expect([...copy.state].sort()).toEqual([...there.keys()].sort())
    await copy.close()
    this.#know('manager', 'x', { ...known, there, calls: known.calls + 1 })
  }

  async #run(model: Model, id: string, n: number, amount: number, call: (key: string) => unknown): Promise<void> {
    this.#call = call
    if (model === 'effect') {
      const c = await this.rp.open(counter, id, { takeover: true })
      await c.effects.run('pay', ({ key }) => call(key), { id: `pay${n}`, input: { amount } })
      await c.close()
    } else if (model === 'workflow') {
      await (await this.rp.run(this.#pay, { amount }, { id })).result()
    } else if (model === 'job') {
      await (await this.rp.run(itemsWith([{ n, amount }], call))).result()
    } else {
      const session = await this.rp.open(this.#clerk, id, { takeover: true })
      await session.use('pay', { amount })
      await session.close()
    }
  }

  /** The fork acts at once. What its original has in doubt is the original's: the fork makes a call of its own. */
  async fork(one: Op): Promise<void> {
    const { model, amount, n } = one
    const id = model === 'workflow' ? `x${n}` : 'x'
    const isInDoubt = one.dies && model === 'effect'
    if (isInDoubt) await this.act(one, id, false)
    const known = this.#of(model, id)
    if (known.there.size === 0 || model === 'job' || model === 'controller' || model === 'manager') return
    const name = `f${++forks}`
    if (model === 'effect') {
      await this.rp.fork({ timeline: 'counter/x', seq: (await this.rp.head('counter/x'))!.seq }, name)
    } else if (model === 'tool') {
      const session = await this.rp.open(this.#clerk, id, { takeover: true })
      await session.fork(name)
      await session.close()
    } else {
      const intent = `${this.#name} workflow/${name} of ${id} life ${known.life} generation ${known.generation}`
      this.#call = (key) => this.#outside.receive(key, `${intent}: charge ${known.there.get('charge')}`)
      const run = await this.rp.run(this.#pay, undefined as never, { id })
      await (await run.fork('charge', { id: name } as never)).result()
      return
    }
    this.#know(model, name, { ...fresh, calls: known.calls, there: known.there })
    await this.act({ ...one, n: isInDoubt ? n : 1 - n, amount, dies: false }, name)
  }

  async rollback({ model, n }: Op): Promise<void> {
    const id = model === 'workflow' ? `x${n}` : 'x'
    const known = this.#of(model, id)
    if (known.there.size === 0 || model === 'controller') return
    // The commands that were sent for undone events stay: the next event has their sequence, and a command of its own.
    if (model === 'manager') return await this.#undoEvents()
    const after = { ...known, generation: known.generation + 1, calls: 0, there: new Map() }
    if (model === 'workflow') {
      const wanted = known.there.get('charge')
      const place = `${this.#name} workflow/${id} life ${known.life} generation ${after.generation}`
      this.#call = (key) => this.#outside.receive(key, `${place}: charge ${wanted}`)
      const run = await this.rp.run(this.#pay, undefined as never, { id })
      await run.rollback({ to: 'charge', consumed: 'force' })
      await run.result()
      this.#know(model, id, { ...after, there: known.there })
      return
    }
    if (model === 'tool') {
      const session = await this.rp.open(this.#clerk, id, { takeover: true })
      await session.rollback({ to: { seq: 0 }, consumed: 'force' })
      await session.close()
    } else {
      // A process learns of the definition where it uses it.
      if (model === 'job') await (await this.rp.run(itemsWith([], () => undefined))).result()
      else await (await this.rp.open(counter, id, { takeover: true })).close()
      const to = { timeline: timelineOf(model, id), seq: model === 'job' ? 1 : 0 }
      await this.rp.rollback({ to: to, takeover: true, consumed: 'force' })
    }
    this.#know(model, id, after)
  }

  async delete({ model, n, what, dies }: Op): Promise<void> {
    const id = model === 'workflow' ? `x${n}` : 'x'
    if (model === 'controller') return await this.#plan(`x${n}`, null, dies)
    const known = this.#of(model, id)
    if (known.there.size === 0 && known.generation === 0) return
    if (model === 'manager' && !(await this.rp.head('events/till/x'))) return
    await hostOf(this.rp).kernel.deadWorkers.retireGone()
    try {
      await this.rp.delete(timelineOf(model, id), { erase: what === 'erase', unfinished: true })
    } catch (error) {
      // A fork rests on it.
      if (isReprise(error, 'PINNED')) return
      throw error
    }
    if (model !== 'manager') this.#know(model, id, { ...fresh, life: known.life + 1 })
  }

  async #undoEvents(): Promise<void> {
    if (!(await this.rp.head('events/till/x'))) return
    await (await this.rp.open(till, 'x', { takeover: true })).close()
    await this.rp.rollback({ to: { timeline: 'events/till/x', seq: 0 }, takeover: true, consumed: 'force' })
  }

  #of(model: Model, id: string): Known {
    return this.#known.get(`${model}/${id}`) ?? fresh
  }

  #know(model: Model, id: string, known: Known): void {
    this.#known.set(`${model}/${id}`, known)
  }
}

interface Plan {
  readonly amount: number
  /** Each plan has another number. */
  readonly made: number
}
const plans = resource<Plan>('plans')
const chargesWith = (call: (key: string, intent: string) => unknown) =>
  controller('charges', {
    watch: [plans],
    async reconcile({ name, object, effect }: ReconcileContext<Plan>) {
      if (!object) return
      const intent = `plan ${name} #${object.spec.made} generation ${object.generation}: charge ${object.spec.amount}`
      await effect('charge', ({ key }) => call(key, intent))
    },
  })

interface Paid {
  readonly amount: number
  readonly id: string
}
const received = {
  initial: (): readonly string[] => [],
  evolve: { paid: (ids: readonly string[], { id }: Paid) => [...ids, id] },
  decide: { pay: (_: readonly string[], paid: Paid) => ({ type: 'paid' as const, ...paid }) },
}
const till = aggregate('till', received)
const copies = aggregate('copies', received)
const doubles = processManager('doubles', {
  from: [till],
  on: { paid: ({ amount, id }) => commandTo(copies, 'x', 'pay', { amount, id }) },
})

const payWith = (call: (key: string) => unknown) =>
  workflow('pay', async (ctx: WorkflowContext, _input: { amount: number }) => {
    await ctx.step('charge', async ({ key }) => {
      await call(key)
    })
  })

const itemsWith = (source: readonly { n: number; amount: number }[], call: (key: string) => unknown) =>
  job('items', {
    source,
    key: (item) => `pay${item.n}`,
    version: (item) => String(item.amount),
    each: async (_item, ctx) => {
      await call(ctx.idempotencyKey)
    },
  })

const clerkWith = (call: (key: string) => unknown) =>
  agent('clerk', {
    model: () => ({ content: 'done' }),
    similarCalls: 'new',
    tools: {
      pay: tool({
        kind: 'idempotent',
        run: async (_args: { amount: number }, { key }) => {
          await call(key)
          return 'paid'
        },
      }),
    },
  })

function timelineOf(model: Model, id: string): string {
  if (model === 'effect') return `counter/${id}`
  if (model === 'workflow') return `workflow/pay/${id}`
  if (model === 'manager') return `events/till/${id}`
  return model === 'job' ? 'job/items' : `agent/clerk/${id}`
}

/** A store that answers nothing more once its process was killed. */
function mortal(store: Store): { readonly store: Store; kill(): void } {
  let isDead = false
  const wrapped = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      if (name === 'listen' || name === 'close') return member.bind(target)
      return (...args: unknown[]) => (isDead ? Promise.reject(new Error('killed')) : member.apply(target, args))
    },
  })
  return {
    store: wrapped,
    kill: () => {
      isDead = true
    },
  }
}

/** The faults, if any. */
async function play(world: () => Promise<World>, script: readonly Op[], ...planted: string[]): Promise<string | null> {
  const outside = new Outside()
  const [one, two] = [await world(), await world()]
  const bugs = new Set(planted)
  const places = [
    new Place('red', one, 'red', outside, bugs),
    new Place('blue', one, 'blue', outside, bugs),
    new Place('other', two, 'red', outside, bugs),
  ]
  for (const place of places) await place.start()
  // As a namespace that was restored from the backup of another one.
  const { id } = await hostOf(places[0]!.rp).kernel.identity.load()
  await hostOf(places[1]!.rp).kernel.identity.reincarnate({ id })
  for (const each of script) {
    const place = places[each.place]!
    if (each.what === 'act') await place.act(each)
    else if (each.what === 'fork') await place.fork(each)
    else if (each.what === 'rollback') await place.rollback(each)
    else if (each.what === 'backup') await place.backup()
    else if (each.what === 'restore') await place.restore(world)
    else await place.delete(each)
    if (outside.wrong) return `${JSON.stringify(each)}: ${outside.wrong}`
  }
  for (const { rp } of places) await rp.close()
  expect(new Set(outside.ledger.done).size).toBe(outside.ledger.done.length)
  return null
}

/** More of them: REPRISE_KEYS_TIMES=10 REPRISE_SEED=random npx vitest run test/engine/keys-random.test.ts */
const times = Number(process.env.REPRISE_KEYS_TIMES ?? 1)
const runs: Record<string, number> = { memory: 120, sqlite: 20, postgres: 4 }

onEveryStore('keys at random', (world) => {
  it('G5: equal keys stand for equal intents, and an intent keeps its key', async () => {
    const { kind } = await world()
    await fc.assert(
      fc.asyncProperty(scripts, async (script) => {
        expect(await play(world, script)).toBeNull()
      }),
      { numRuns: times * runs[kind]!, endOnFailure: true },
    )
  }, 300_000)
})

/** The spec after the restore is another one of the same generation. */
const specs: readonly Op[] = (['act 500', 'backup 0', 'act 900', 'restore 0', 'act 700'] as const).map((text) => {
  const [what, amount] = text.split(' ') as [Op['what'], string]
  return { what, amount: Number(amount), place: 0, model: 'controller', n: 0, dies: false }
})

onEveryStore(
  'planted bugs in keys',
  (world) => {
    it.each(['namespace-left-out', 'life-left-out', 'incarnation-in-key', 'fork-inherits'])(
      '%s is found',
      async (bug) => {
        let found: string | null = null
        for (const script of fc.sample(narrowScripts, { numRuns: 200, seed: 1 }))
          found ??= await play(world, script, bug)
        expect(found).not.toBeNull()
      },
      300_000,
    )

    it('spec-left-out is found', async () => {
      expect(await play(world, specs)).toBeNull()
      expect(await play(world, specs, 'spec-left-out')).toMatch(/is answered with the result of/)
    })
  },
  ['memory'],
)
