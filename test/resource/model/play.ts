// One random history: writers, readers, an informer and a controller in several processes that crash, pause and take over from
// each other, while history is trimmed behind them. In the end everything is compared with the reference.

import { isReprise, RepriseError } from '../../../src/core/errors.ts'
import type { Store } from '../../../src/core/store/ports.ts'
import { createEngine } from '../../../src/engine/api/open.ts'
import type { Reprise } from '../../../src/engine/api/reprise.ts'
import { recover } from '../../../src/engine/history/recover.ts'
import { followerFold } from '../../../src/layers/resource/follower-state.ts'
import { hostOf } from '../../support/host.ts'
import { seeded } from '../../support/seeded.ts'
import { atOnce, type Outside, Process, things } from './processes.ts'
import { equal, type Item, must, Reference, Violation } from './reference.ts'
import { Reader } from './watchers.ts'

export interface Setting {
  readonly seed: number
  readonly steps: number
  readonly open: () => Promise<Store>
  readonly planted?: string
}

/** The number of interesting events in a history. */
export interface Tally {
  writes: number
  crashes: number
  pauses: number
  compactions: number
  relists: number
  handled: number
}

const names = ['a', 'b', 'c', 'd', 'e']
/** Distinguishes a standstill from a slow machine. Some planted bugs are found by their standstill. */
const standstillMs = { clean: 120_000, planted: 20_000 }
/** The possible outcomes of a write. */
const refusals = ['EXISTS', 'CONFLICT', 'NOT_FOUND', 'CLOSED', 'CONTENDED', 'INVALID_ARGUMENT'] as const

/** Throws a Violation for a difference from the reference. */
export async function play({ seed, steps, open, planted }: Setting): Promise<Tally> {
  const patienceMs = planted === undefined ? standstillMs.clean : standstillMs.planted
  const chance = seeded(seed)
  const below = (n: number) => Math.floor(chance() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const tally: Tally = { writes: 0, crashes: 0, pauses: 0, compactions: 0, relists: 0, handled: 0 }
  const stores: Store[] = []
  const opened = async () => {
    const store = await open()
    stores.push(store)
    return store
  }
  // Looks after the store, and never dies.
  const keeper = createEngine({ store: await opened() }, { worker: 'keeper' })
  const kept = await keeper.open(things)
  const first = kept.revision
  const reference = new Reference(`resource/${things.name}`, first)
  const outside: Outside = {
    reference,
    made: new Map(),
    calls: new Map(),
    handled: [],
    chance,
    planted: new Set(planted === undefined ? [] : [planted]),
  }
  let lives = 0
  const all: Process[] = []
  const start = async (takeover: boolean) => {
    const started = await Process.start(`p${++lives}`, await opened(), outside, takeover)
    all.push(started)
    return started
  }
  const processes = [await start(false), await start(false)]
  const awake = () => processes.filter((each) => !each.isPaused && !each.isDead)
  const choose = () => pick(awake().length > 0 ? awake() : processes)
  const floor = async () => first + ((await keeper.head(`resource/${things.name}`))?.floor ?? 0)
  const readers = [
    new Reader('all', undefined, {}, choose, floor),
    new Reader('bookmarked', 'on=yes', { hasBookmarks: true }, choose, floor),
    new Reader('listing', undefined, { isWatchList: true }, choose, floor),
    new Reader('slow', 'on=yes', {}, choose, floor),
  ]
  const told: { readonly object: Item; readonly isGone: boolean }[] = []
  const writing = new Set<Promise<void>>()
  const problems: unknown[] = []
  const write = (work: () => Promise<{ object: Item; isGone: boolean }>) => {
    tally.writes += 1
    const done = work()
      .then((answer) => void told.push(answer))
      .catch((error) => {
        if (!isReprise(error, ...refusals)) problems.push(error)
      })
      .finally(() => writing.delete(done))
    writing.add(done)
    return done
  }
  const act = async (): Promise<void> => {
    const { handle } = choose()
    const name = pick(names)
    const n = below(5)
    const labels: Record<string, string> = chance() < 0.5 ? { on: 'yes' } : {}
    const kept = (object: Item) => ({ object, isGone: false })
    const what = below(10)
    const done = write(async () => {
      if (what < 3) {
        const finalizers = chance() < 0.5 ? ['scaler'] : []
        return kept(await handle.create({ name, labels, finalizers, spec: { n } }))
      }
      if (what < 5) return kept(await handle.change(name, () => ({ spec: { n } })))
      if (what < 6) return kept(await handle.patch(name, { merge: { labels: { on: labels.on ?? null } } }))
      if (what < 7) return kept(await handle.patch(name, { json: [{ op: 'replace', path: '/spec/n', value: n }] }))
      if (what < 8) {
        const before = await handle.get(name)
        if (!before) throw new RepriseError('NOT_FOUND', name)
        return kept(await handle.update({ ...before, labels, spec: { n } }))
      }
      const { deletingAt, ...object } = await handle.delete(name)
      return deletingAt === undefined ? { object, isGone: true } : kept({ ...object, deletingAt })
    })
    if (chance() < 0.6) await Promise.race([done, tick(20)])
  }
  const crash = async () => {
    const [gone] = processes.splice(below(processes.length), 1)
    gone!.crash()
    tally.crashes += 1
    processes.push(await start(chance() < 0.8))
    for (const reader of readers) reader.move()
  }
  const compact = async () => {
    await reference.catchUp(keeper)
    await kept.checkpoint()
    await reference.catchUp(keeper)
    await keeper.drill()
    await keeper.collect()
    tally.compactions += 1
  }
  try {
    for (let step = 0; step < steps; step++) {
      const what = below(100)
      if (what < 60) await act()
      else if (what < 74) pick(readers).allow(1 + below(6))
      else if (what < 77) pick(readers.slice(0, 3)).allow(8)
      else if (what < 79) pick(readers).move()
      else if (what < 81) pick(readers).forget()
      else if (what < 85) await crash()
      else if (what < 89 && awake().length > 1) {
        pick(awake()).pause()
        tally.pauses += 1
      } else if (what < 91) {
        // Another process takes over from one that may be paused.
        const one = pick(processes)
        if (!one.isPaused) continue
        processes.push(await start(true))
      } else if (what < 95) for (const each of processes) each.resume()
      else if (what < 99) await compact()
      else await tick(below(4))
      if (problems.length > 0) throw problems[0]
    }
    // The end: no process hangs, and every request is answered.
    for (const each of processes) each.resume()
    await within('the writes end', Promise.all(writing), patienceMs)
    if (problems.length > 0) throw problems[0]
    await settle(processes, () => start(true), patienceMs)
    await reference.catchUp(keeper)
    await within(
      'the readers catch up',
      Promise.all(readers.map((reader) => reader.end(reference.revision))),
      patienceMs,
    )
    tally.relists = readers.reduce((sum, { relists }) => sum + relists, 0)
    tally.handled = outside.handled.length
    for (const { object, isGone } of told) reference.checkTold(object, isGone)
    for (const reader of readers) reader.check(reference)
    await checkInformer(outside, keeper, processes, lives)
    checkController(outside, lives)
    return tally
  } finally {
    for (const each of all) each.crash()
    await Promise.allSettled([...all.map(({ rp }) => rp.close()), keeper.close()])
    for (const store of stores) await store.close()
  }
}

/** Until the controller and the informer have handled all objects. Dead letters are redriven. */
async function settle(processes: Process[], another: () => Promise<Process>, patienceMs: number): Promise<void> {
  const leader = async (part: 'scaler' | 'mirror') => {
    const until = Date.now() + patienceMs
    for (;;) {
      const found = processes.find((each) => each[part].isLeading)
      if (found) return found[part]
      // Its owner is dead.
      if (Date.now() > until) throw new Violation(`nobody leads the ${part}`)
      if (processes.length < 6) processes.push(await another())
      await tick(5)
    }
  }
  for (let round = 0; round < 2; round++) {
    for (const part of ['scaler', 'mirror'] as const) {
      const until = Date.now() + patienceMs
      for (let redrives = 0; ; redrives++) {
        const handle = await leader(part)
        // A process that was displaced during a pause may not have noticed it yet: then another one gets the request.
        if (!(await isSettled(handle)) || !handle.isLeading) {
          must(Date.now() < until, () => `the ${part} does not settle`)
          continue
        }
        if ((await handle.deadLetters()).length === 0) break
        must(redrives < 50, () => `the ${part} gives up on the same objects for ever`)
        await handle.redrive()
        await tick(1)
      }
    }
  }
}

async function isSettled(handle: Process['scaler'] | Process['mirror']): Promise<boolean> {
  try {
    await handle.settled({ timeout: 500 })
    return true
  } catch (error) {
    if (isReprise(error, 'TIMEOUT')) return false
    throw error
  }
}

/** Calls of a displaced process may come late, so their order proves nothing: the recorded revisions do. */
async function checkInformer(
  { handled, reference }: Outside,
  keeper: Reprise,
  processes: readonly Process[],
  lives: number,
): Promise<void> {
  const times = new Map<string, number>()
  for (const { uid, revision } of handled) {
    times.set(`${uid} ${revision}`, (times.get(`${uid} ${revision}`) ?? 0) + 1)
  }
  const objects = reference.stateAt(reference.revision)
  for (const { uid, name, revision } of objects) {
    must(times.has(`${uid} ${revision}`), () => `${name}@${revision} was not handled: ${traceOf(handled, uid)}`)
  }
  const there = new Set(objects.map(({ uid }) => uid))
  for (const { uid } of handled) {
    const isTold = there.has(uid) || times.has(`${uid} null`)
    must(isTold, () => `the end of ${uid} was not handled: ${traceOf(handled, uid)}`)
  }
  const head = await keeper.head('informer/mirror')
  const noted = head ? (await recover(hostOf(keeper).kernel, head, followerFold)).state.value.handled : new Map()
  const names = [...noted].map(([name, { uid, revision }]) => `${name} ${uid}@${revision}`).sort()
  const should = objects.map(({ name, uid, revision }) => `${name} ${uid}@${revision}`)
  must(equal(names, should), () => `noted as handled is ${names}, and there is ${should}`)
  const again = [...times.values()].reduce((sum, count) => sum + count - 1, 0)
  // A handler that failed after its work is called again, and so are unrecorded objects of an ended process.
  must(again <= lives * atOnce, () => `${again} were handled again after ${lives} lives`)
  const cache = processes.find(({ mirror, isDead }) => mirror.isLeading && !isDead)!.mirror
  must(equal(cache.list(), objects), () => 'the cache of the informer is not what there is')
  for (let n = 0; n < 5; n++) {
    const should = objects.filter(({ spec }) => spec.n === n)
    must(equal(cache.by('n', String(n)), should), () => `the index of the informer is wrong for ${n}`)
  }
}

function traceOf(handled: Outside['handled'], uid: string): string {
  const calls = handled.filter((each) => each.uid === uid)
  return calls.map(({ revision, by }) => `${revision ?? 'end'} by ${by}`).join(', ')
}

function checkController({ made, calls, reference }: Outside, lives: number): void {
  const objects = reference.stateAt(reference.revision)
  const wanted = objects.filter(({ deletingAt }) => deletingAt === undefined)
  for (const { name, uid, spec, status, generation, observedGeneration } of wanted) {
    const is = made.get(name)
    must(is?.uid === uid && is.n === spec.n, () => `${name} is to be ${spec.n} and is ${is?.n} (${is?.uid})`)
    must(
      status?.n === spec.n && observedGeneration === generation,
      () => `${name} has the status of another generation`,
    )
  }
  for (const { name, deletingAt } of objects) must(deletingAt === undefined, () => `${name} waits for its finalizer`)
  for (const [name, { uid, n, isHeld }] of made) {
    const isLeft = isHeld && n !== null && !wanted.some((one) => one.uid === uid)
    must(!isLeft, () => `${name} is gone and is still made`)
  }
  for (const [key, count] of calls) must(count <= lives, () => `${key} was called ${count} times in ${lives} lives`)
}

function tick(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

async function within(what: string, work: Promise<unknown>, patienceMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Violation(`${what}: not in time`)), patienceMs)
  })
  try {
    await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
