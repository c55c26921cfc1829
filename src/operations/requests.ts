// Requests of applications that were not carried out (docs/decisions/within.md): refused ones, and those that wait because no
// process works on their definition. For `reprise doctor`, `dead` and `redrive`.

import { RepriseError } from '../core/errors.ts'
import { requestName } from '../core/identity.ts'
import type { RequestRow } from '../core/store/requests.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { count, relative } from './figures-as-text.ts'
import type { Check } from './health.ts'

const listedMax = 1000
/** A request that has been waiting this long is reported, as due work of a queue is. */
const lateMs = 60_000

export interface StrandedRequest {
  /** Number and check: names it to `actOnRequests`. */
  readonly name: string
  readonly number: number
  readonly verb: string
  readonly target: string
  readonly id: string
  readonly sentAt: number
  /** The reason it was refused. Null: it waits for a worker that has the definition. */
  readonly problem: string | null
}

/** Refused and late requests, in the order of their numbers. */
export async function strandedRequests(engine: Reprise): Promise<StrandedRequest[]> {
  const { requests, identity, hash } = hostOf(engine)
  const now = hostOf(engine).now()
  const store = await identity.load(true)
  const refused = await requests.list({ hasProblem: true, limit: listedMax })
  const waiting = await requests.list({ hasProblem: false, limit: listedMax })
  return [...refused, ...waiting.filter(({ sentAt }) => now - sentAt > lateMs)]
    .sort((a, b) => a.number - b.number)
    .map((row) => withoutPayload(row, requestName(hash, store, identity.namespace, row)))
}

export type RequestAction = 'redrive' | 'discard'

/**
 * `redrive`: the refused requests wait again. `discard`: the requests are removed and never carried out. NOT_FOUND: none of the
 * names is that of a refused or waiting request of this store.
 */
export async function actOnRequests(
  engine: Reprise,
  action: RequestAction,
  wanted: readonly string[] | 'all',
): Promise<{ readonly done: string[]; readonly missing: string[] }> {
  const stranded = (await strandedRequests(engine)).filter(({ problem }) => action === 'discard' || problem !== null)
  const held = new Map(stranded.map(({ name, number }) => [name, number]))
  const done = wanted === 'all' ? [...held.keys()] : wanted.filter((each) => held.has(each))
  const missing = wanted === 'all' ? [] : wanted.filter((each) => !held.has(each))
  if (done.length === 0 && missing.length > 0) {
    const what = `this store has no request ${missing.join(', ')} to ${action}`
    const hint = 'Use the names of reprise dead --requests: a number alone, and the name of another store, are refused.'
    throw new RepriseError('NOT_FOUND', what, { missing }, undefined, hint)
  }
  for (const name of done) await hostOf(engine).requests.mark(held.get(name)!, action === 'discard' ? 'removed' : null)
  return { done, missing }
}

export async function requestsHealth(engine: Reprise): Promise<Check[]> {
  const stranded = await strandedRequests(engine)
  const refused = stranded.filter(({ problem }) => problem !== null)
  const late = stranded.filter(({ problem }) => problem === null)
  const checks: Check[] = []
  if (refused.length > 0) {
    const [first] = refused as [StrandedRequest]
    checks.push({
      name: 'requests',
      state: 'bad',
      what: `${countOf(refused)} of applications ${wereWord(refused)} refused; the first, ${requestWords(first)}: ${first.problem}`,
      cure: 'reprise dead --requests lists them; fix the cause, then: reprise redrive --requests NAME; or reprise dead --requests --discard NAME',
      data: { refused },
    })
  }
  if (late.length > 0) {
    const targets = [...new Set(late.map(({ target }) => target))].sort()
    const since = relative(Math.min(...late.map(({ sentAt }) => sentAt)), hostOf(engine).now())
    checks.push({
      name: 'due work',
      state: 'warning',
      what: `no worker executes it: ${countOf(late)} of applications for ${targets.join(', ')}, the first ${since}`,
      cure: 'start a worker that has the definitions: reprise work FILE; reprise dead --requests lists them',
      data: { requests: late },
    })
  }
  return checks
}

/** @example 'start workflow/checkout/order-1' */
export function requestWords({ verb, target, id }: Pick<StrandedRequest, 'verb' | 'target' | 'id'>): string {
  return verb === 'send' ? `send ${id}` : `${verb} ${target}/${id}`
}

function countOf(requests: readonly StrandedRequest[]): string {
  return count(requests.length, 'request') + (requests.length === listedMax ? ' or more' : '')
}

function wereWord({ length }: readonly StrandedRequest[]): string {
  return length === 1 ? 'was' : 'were'
}

/** Its payload is sealed, or text of the application that a list must not show. */
function withoutPayload({ number, verb, target, id, sentAt, problem }: RequestRow, name: string): StrandedRequest {
  return { name, number, verb, target, id, sentAt, problem }
}
