// Random transactions of applications, and the model that they are compared with: a request is carried out once if the row that
// was written beside it exists, and never otherwise.

import type { NewRequest } from '../../src/core/store/ports.ts'
import { open, type Reprise } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { type Within, within } from '../../src/within.ts'
import { hostOf } from '../support/host.ts'
import { seeded } from '../support/seeded.ts'
import { until } from '../support/until.ts'
import type { Client, ClientTransaction } from './clients.mjs'
import type { Cut } from './commit-proxy.ts'
import { type DrainPlant, drainPlants, Phantoms, plantInDrain, watchRequests } from './plants.ts'

/** Bugs of a sender, and of the workers, to see that the check finds them. */
export type Planted =
  | 'other connection'
  | 'key ignored'
  | 'savepoint ignored'
  | 'reversed'
  | 'after the commit'
  | DrainPlant

type Request =
  | { readonly verb: 'start'; readonly id: string; readonly input: string }
  | { readonly verb: 'send'; readonly to: string; readonly key: string | null }
/** A request with the row beside it; the row's id is also the value of a message. */
type Step = { readonly mark: string; readonly request: Request } | Nested
interface Nested {
  readonly nested: readonly Step[]
  readonly isUndone: boolean
}
type End = 'commit' | 'roll back' | 'terminate' | Cut
interface Plan {
  readonly client: string
  readonly steps: readonly Step[]
  readonly end: End
}
export interface History {
  readonly name: string
  readonly plans: readonly Plan[]
}

/** The database of the store, as applications use it. */
export interface Ground {
  readonly url: string
  readonly clients: Readonly<Record<string, Client>>
  /** Faults that this database has. */
  readonly ends: readonly End[]
  /** SQLite: one connection of a thread at a time can be in a transaction. */
  readonly isSequential: boolean
  /** The name of the table of marks. */
  readonly table: string
  fault(tx: ClientTransaction, end: End): Promise<void>
  marks(): Promise<string[]>
}

/** postgres.js 3.4 throws outside of every promise if its socket is gone when it writes ("reading 'write'" of null). */
const crashesPostgresJs: readonly End[] = ['terminate', 'now', 'unsent', 'torn']

export const order = workflow('order', async (_ctx, input: string) => input)
const undone = new Error('undone by the plan')

export function makeHistory(seed: number, { clients, ends }: Pick<Ground, 'clients' | 'ends'>): History {
  const chance = seeded(seed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(chance() * from.length)]!
  const name = `h${seed}`
  let count = 0
  const requestOf = (mark: string): Request => {
    const roll = chance()
    if (roll < 0.3) return { verb: 'start', id: mark, input: mark }
    if (roll < 0.45) return { verb: 'start', id: `${name}-shared`, input: chance() < 0.8 ? 'x' : 'y' }
    return { verb: 'send', to: `inbox/${name}`, key: chance() < 0.3 ? `${name}-key` : null }
  }
  const steps = (depth: number): Step[] =>
    Array.from({ length: 1 + Math.floor(chance() * 3) }, (): Step => {
      if (depth < 2 && chance() < 0.3) return { nested: steps(depth + 1), isUndone: chance() < 0.5 }
      const mark = `${name}-${String(count++).padStart(3, '0')}`
      return { mark, request: requestOf(mark) }
    })
  const plans = Array.from({ length: 1 + Math.floor(chance() * 3) }, (): Plan => {
    const client = pick(Object.keys(clients))
    const possible = client.includes('postgres.js') ? ends.filter((end) => !crashesPostgresJs.includes(end)) : ends
    return { client, steps: steps(0), end: chance() < 0.5 ? 'commit' : pick(possible) }
  })
  return { name, plans }
}

/** Resolves when its transactions have ended. */
export async function runHistory(
  rp: Reprise,
  ground: Ground,
  history: History,
  planted: Planted | null,
  written: Written,
): Promise<void> {
  const run = (plan: Plan) => runPlan(rp, ground, plan, planted, written)
  if (ground.isSequential) for (const plan of history.plans) await run(plan)
  else await Promise.all(history.plans.map(run))
}

async function runPlan(
  rp: Reprise,
  ground: Ground,
  plan: Plan,
  planted: Planted | null,
  written: Written,
): Promise<void> {
  const client = ground.clients[plan.client]!
  const late: Request[] = []
  const lateMarks: string[] = []
  const isLate = (depth: number) =>
    planted === 'reversed' || planted === 'after the commit' || (planted === 'savepoint ignored' && depth > 0)
  const run = async (tx: ClientTransaction, steps: readonly Step[], depth: number): Promise<void> => {
    for (const step of steps) {
      if ('nested' in step) {
        await tx
          .nest(async (inner) => {
            await run(inner, step.nested, depth + 1)
            if (!step.isUndone) return
            if (planted === 'carried out after a rollback to a savepoint') written.see(step.nested)
            throw undone
          })
          .catch((error: unknown) => {
            if (error !== undone) throw error
          })
        continue
      }
      await tx.run(`INSERT INTO ${ground.table} VALUES ('${step.mark}')`)
      if (isLate(depth)) {
        late.push(step.request)
        lateMarks.push(step.mark)
      } else await write(senderOf(rp, ground, tx, planted), step.mark, step.request, planted)
    }
  }
  const writeLate = async (tx: ClientTransaction) => {
    const all = late.map((request, i) => [lateMarks[i]!, request] as const)
    for (const [mark, request] of planted === 'reversed' ? all.reverse() : all) {
      await write(within(rp, tx.handle), mark, request, planted)
    }
  }
  const isOver = await client
    .transaction(async (tx) => {
      await run(tx, plan.steps, 0)
      if (plan.end === 'roll back' && planted === 'carried out before the commit') written.see(plan.steps)
      if (planted !== 'after the commit') await writeLate(tx)
      if (plan.end === 'roll back') throw undone
      if (plan.end !== 'commit') await ground.fault(tx, plan.end)
    })
    .then(
      () => true,
      (error: unknown) => {
        if (plan.end === 'commit') lostItsConnection(plan, error)
        return false
      },
    )
  if (planted === 'after the commit' && isOver) await client.transaction(writeLate).catch(() => undefined)
}

/** The requests that were written, for workers that see more of them than they should. */
class Written {
  readonly phantoms = new Phantoms()
  readonly #requests = new Map<string, NewRequest>()

  constructor(sender: Reprise, planted: Planted | null) {
    if (planted?.startsWith('carried out')) {
      watchRequests(sender, (request) => this.#requests.set(addressOf(request), request))
    }
  }

  /** Shows the workers the start requests of these steps, also those of transactions that were rolled back. */
  see(steps: readonly Step[]): void {
    for (const { mark, request } of marksOf(steps, true)) {
      const found = request.verb === 'start' && this.#requests.get(addressOf({ verb: 'start', id: mark }))
      if (found) this.phantoms.add(found)
    }
  }
}

const addressOf = ({ verb, id }: Pick<NewRequest, 'verb' | 'id'>) => `${verb} ${id}`

/** Plans that were to commit, and got a connection of their pool that a fault of another plan had already ended. */
const unlucky = new WeakSet<Plan>()

function lostItsConnection(plan: Plan, error: unknown): void {
  if (!/terminat|connect|closed|ended/i.test(String((error as Error)?.message))) throw error
  unlucky.add(plan)
}

function senderOf(rp: Reprise, ground: Ground, tx: ClientTransaction, planted: Planted | null): Within {
  if (planted !== 'other connection') return within(rp, tx.handle)
  const query = async (text: string, values: readonly unknown[]) => {
    let rows: readonly Readonly<Record<string, unknown>>[] = []
    await ground.clients.pg!.transaction(async (other) => {
      rows = (
        await (
          other.handle as { query(text: string, values: readonly unknown[]): Promise<{ rows: typeof rows }> }
        ).query(text, values)
      ).rows
    })
    return rows
  }
  return within(rp, { dialect: 'postgres', query })
}

async function write(sender: Within, mark: string, request: Request, planted: Planted | null): Promise<void> {
  if (request.verb === 'start') await sender.run(order, request.input, { id: request.id, here: false })
  else if (request.key === null || planted === 'key ignored') await sender.send(request.to, 'mark', mark)
  else await sender.send(request.to, 'mark', mark, { key: request.key })
}

/** Histories in one store, with two processes' worth of workers. Returns the faults that were found. */
export async function runBatch(
  ground: Ground,
  histories: readonly History[],
  { planted = null, atOnce }: { readonly planted?: Planted | null; readonly atOnce: number },
): Promise<{ readonly faults: string[]; readonly inDoubt: { committed: number; lost: number } }> {
  const [rp, other] = [await open(ground.url), await open(ground.url)]
  const written = new Written(rp, planted)
  const inDrain = drainPlants.find((each) => each === planted)
  try {
    for (const worker of [rp, other]) {
      if (inDrain) plantInDrain(worker, inDrain, written.phantoms)
      worker.work([order])
    }
    const left = [...histories]
    const lane = async () => {
      for (let next = left.shift(); next; next = left.shift()) await runHistory(rp, ground, next, planted, written)
    }
    await Promise.all(Array.from({ length: atOnce }, lane))
    const { requests } = hostOf(rp).kernel.store
    await until(async () => (await requests!.list({ hasProblem: false, limit: 1 })).length === 0)
    await until(() => written.phantoms.isEmpty && [rp, other].every((each) => !hostOf(each).requests.isDraining))
    return await check(rp, ground, histories)
  } finally {
    await Promise.all([rp.close(), other.close()])
  }
}

async function check(rp: Reprise, ground: Ground, histories: readonly History[]) {
  const host = hostOf(rp)
  const rows = new Set(await ground.marks())
  const runs = new Set<string>()
  for await (const { timeline } of host.each({ prefix: order.prefix })) runs.add(timeline.slice(order.prefix.length))
  const problems = new Map<string, number>()
  for (const { id } of await host.kernel.store.requests!.list({ hasProblem: true, limit: 1_000_000 })) {
    problems.set(id, (problems.get(id) ?? 0) + 1)
  }
  const faults: string[] = []
  const inDoubt = { committed: 0, lost: 0 }
  for (const { name, plans } of histories) {
    const fault = (what: string) => faults.push(`${name}: ${what}`)
    for (const plan of plans) checkRows(plan, rows, inDoubt, fault)
    const present = plans.flatMap((plan) => marksOf(plan.steps, false)).filter(({ mark }) => rows.has(mark))
    for (const { mark, request } of plans.flatMap((plan) => marksOf(plan.steps, true))) {
      if (request.verb === 'start' && request.id === mark && runs.has(mark) !== rows.has(mark)) {
        fault(`${mark} ${rows.has(mark) ? 'committed, and has no run' : 'did not commit, and has a run'}`)
      }
    }
    await checkShared(rp, name, present, runs, problems, fault)
    const { messages } = await host.inbox(`inbox/${name}` as never, 10_000)
    checkMessages(
      name,
      plans,
      present,
      messages.map((message) => String(host.openMessage(message))),
      fault,
    )
  }
  return { faults, inDoubt }
}

type Marked = Exclude<Step, Nested>
type Report = (what: string) => void

/** `withUndone`: also those of nested transactions that are undone. */
function marksOf(steps: readonly Step[], withUndone: boolean): Marked[] {
  return steps.flatMap((step) => {
    if (!('nested' in step)) return [step]
    return step.isUndone && !withUndone ? [] : marksOf(step.nested, withUndone)
  })
}

/** The rows of a transaction exist together, or not at all; only one with an unknown outcome may be either. */
function checkRows(plan: Plan, rows: ReadonlySet<string>, inDoubt: { committed: number; lost: number }, fault: Report) {
  const { steps, client } = plan
  const end = unlucky.has(plan) ? 'torn' : plan.end
  const expected = marksOf(steps, false).map(({ mark }) => mark)
  const found = marksOf(steps, true)
    .map(({ mark }) => mark)
    .filter((mark) => rows.has(mark))
  const isWhole = String(found) === String(expected)
  const mayCommit = ['commit', 'torn', 'unanswered'].includes(end)
  if (['unsent', 'torn', 'unanswered'].includes(end)) inDoubt[found.length > 0 ? 'committed' : 'lost'] += 1
  if ((isWhole && mayCommit) || (found.length === 0 && end !== 'commit')) return
  fault(`the rows of ${client} (${end}) are ${found}, not ${expected}`)
}

/** Starts with one id: one run with one of the inputs; a start with another input is kept with a problem. */
async function checkShared(
  rp: Reprise,
  name: string,
  present: readonly Marked[],
  runs: ReadonlySet<string>,
  problems: ReadonlyMap<string, number>,
  fault: Report,
): Promise<void> {
  const id = `${name}-shared`
  const inputs = present.flatMap(({ request }) =>
    request.verb === 'start' && request.id === id ? [request.input] : [],
  )
  if (runs.has(id) !== inputs.length > 0) fault(`${inputs.length} starts of ${id} committed, runs: ${runs.has(id)}`)
  if (inputs.length === 0 || !runs.has(id)) return
  const result = await workflows(rp).of(order).get(id).result()
  const refused = inputs.filter((input) => input !== result).length
  if (!inputs.includes(result)) fault(`${id} has the input ${result}, which did not commit`)
  if ((problems.get(id) ?? 0) !== refused) fault(`${id}: ${problems.get(id) ?? 0} refused starts, not ${refused}`)
}

function checkMessages(
  name: string,
  plans: readonly Plan[],
  present: readonly Marked[],
  got: readonly string[],
  fault: Report,
): void {
  const keyOf = (request: Request) => (request.verb === 'send' ? request.key : undefined)
  const plain = present.filter(({ request }) => keyOf(request) === null).map(({ mark }) => mark)
  const keyed = present.filter(({ request }) => typeof keyOf(request) === 'string').map(({ mark }) => mark)
  for (const mark of plain) if (!got.includes(mark)) fault(`the message ${mark} committed, and did not arrive`)
  const arrivedKeyed = got.filter((mark) => keyed.includes(mark))
  if (arrivedKeyed.length !== Math.min(1, keyed.length)) fault(`of ${keyed} with one key arrived: ${arrivedKeyed}`)
  const strange = got.filter((mark) => !plain.includes(mark) && !keyed.includes(mark))
  if (strange.length > 0) fault(`messages that did not commit: ${strange}`)
  if (new Set(got).size !== got.length) fault(`a message arrived twice: ${got}`)
  for (const { steps } of plans) {
    const mine = marksOf(steps, false).map(({ mark }) => mark)
    const arrived = got.filter((mark) => mine.includes(mark))
    if (String(arrived) !== String([...arrived].sort()))
      fault(`${name}: the order of a transaction was lost: ${arrived}`)
  }
}
