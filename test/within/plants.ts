// Bugs of the code that carries requests out, planted in one worker: the check of random histories must find each of them.

import type { Commit, NewRequest, Outcome, OutgoingMessage, RequestRow } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/index.ts'
import { hostOf } from '../support/host.ts'

export const drainPlants = [
  'removed before it is carried out',
  'carried out twice',
  'carried out in another order',
  'carried out before the commit',
  'carried out after a rollback to a savepoint',
] as const
export type DrainPlant = (typeof drainPlants)[number]

/** Requests that no transaction committed, as the worker with the bug sees them. */
export class Phantoms {
  readonly #rows: RequestRow[] = []
  #count = 0

  add({ verb, target, id, topic, data, key }: NewRequest): void {
    this.#count += 1
    const place = { number: -this.#count, group: `phantom ${this.#count}` }
    this.#rows.push({ ...place, verb, target, id, topic, data, key, options: null, sentAt: 1, problem: null })
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0
  }

  take(): RequestRow[] {
    return this.#rows.splice(0)
  }
}

/** Calls `wrote` with each request that the process writes in a transaction. */
export function watchRequests(sender: Reprise, wrote: (request: NewRequest) => void): void {
  const box = hostOf(sender).kernel.store.requests!
  const enlist = box.enlist.bind(box)
  box.enlist = async (request, execute, places) => {
    wrote(request)
    return await enlist(request, execute, places)
  }
}

export function plantInDrain(worker: Reprise, planted: DrainPlant, phantoms: Phantoms): void {
  const host = hostOf(worker)
  const { store } = host.kernel
  const box = store.requests!
  const take = box.take.bind(box)
  box.take = async (claim) => {
    const rows = await take(claim)
    if (planted === 'carried out in another order') return rows.reverse()
    return [...rows, ...phantoms.take()]
  }
  const commit = store.commit.bind(store)
  const seen = new Set<number>()
  let count = 0

  const changed = async (one: Commit): Promise<Commit | Outcome> => {
    const { settles, ...rest } = one
    const [number] = settles ?? []
    if (number === undefined) return one
    if (number < 0) return rest
    if (planted === 'removed before it is carried out') {
      await box.mark(number, 'removed')
      count += 1
      // The process ends here, now and then.
      return count % 3 === 0 ? { ok: false, code: 'NOT_FOUND', reason: 'killed', head: null } : rest
    }
    if (planted !== 'carried out twice' || seen.has(number)) return one
    seen.add(number)
    // Without its key as the id, the inbox does not recognise it.
    const again = (message: OutgoingMessage) =>
      host.message(message.to, message.kind, host.openMessage(message), `${message.id} again`)
    return one.guard === null ? { ...rest, send: one.send!.map(again) } : rest
  }
  store.commit = async (commits) => {
    const outcomes: Outcome[] = []
    for (const one of commits) {
      const planned = await changed(one)
      if ('ok' in planned) outcomes.push(planned)
      else outcomes.push((await commit([planned]))[0]!)
    }
    return outcomes
  }
}
