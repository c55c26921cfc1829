// Mail between runs, read from a run's history: a child that ends reports to its parent, once per generation. Mail that
// a rollback undid is ignored on both sides.

import type { Exchanged, ExchangeReader, SentMail } from '../../../engine/model/exchange-reader.ts'
import type { ParentLink } from './entries.ts'
import { own, type RunState } from './state.ts'

// biome-ignore lint/suspicious/noExplicitAny: entries.ts lists the fields of each entry.
type Data = any

interface Noted {
  readonly seq: number
  /** The number of generations before it. */
  readonly generation: number
  readonly id: string
  /** The number of its re-runs before it. */
  readonly count: number
}

const outcomes = new Set(['done', 'failed', 'timer', 'child'])

/** Names the command that a child is for: `GENERATION:ID`, and `GENERATION:COUNT:ID` if a re-run repeated it. */
export function commandLink({ generation, reruns = {} }: Pick<RunState, 'generation' | 'reruns'>, id: string): string {
  return linkOf(generation, own(reruns, id, 0), id)
}

/** The command's id, from its link. */
export function commandOfLink(link: string): string {
  return link.replace(/^\d+:(\d+:(?=~|.*\/~))?/s, '')
}

function linkOf(generation: number, count: number, id: string): string {
  return count === 0 ? `${generation}:${id}` : `${generation}:${count}:${id}`
}

/** The id of a child's report. A child whose id was used before has another key base: its report is not a repetition. */
export function reportId({ keyBase }: Pick<RunState, 'keyBase'>, generation: number): string {
  return `child:${keyBase}:${generation}`
}

export class ChildMail implements ExchangeReader {
  readonly #state: RunState
  readonly #generationNow: number
  #parent: ParentLink | undefined
  #generation = 0
  readonly #counts = new Map<string, number>()
  #items: Noted[] = []
  #children: Noted[] = []
  #ends: { readonly seq: number; readonly generation: number; readonly news: unknown }[] = []

  constructor(state: RunState) {
    this.#state = state
    this.#generationNow = state.generation
    this.#parent = state.started?.parent
  }

  read({ seq, type, data: given }: { readonly seq: number; readonly type: string; readonly data: unknown }): void {
    const data = given as Data
    const noted = () => ({ seq, generation: this.#generation, id: data.id, count: this.#counts.get(data.id) ?? 0 })
    if (outcomes.has(type)) this.#items.push(noted())
    if (type === 'child') this.#children.push(noted())
    if (type === 'completed') this.#ends.push({ seq, generation: this.#generation, news: { result: data.result } })
    if (type === 'ended-badly') this.#ends.push({ seq, generation: this.#generation, news: { error: data.error } })
    if (type === 'rolled') {
      const from = this.#items.find(({ id }) => id === data.to)?.seq ?? Number.POSITIVE_INFINITY
      const isKept = (one: { readonly seq: number }) => one.seq < from
      this.#items = this.#items.filter(isKept)
      this.#children = this.#children.filter(isKept)
      this.#ends = []
    }
    if (type === 'rerunning') {
      const ids = new Set<string>(data.ids)
      for (const id of ids) this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1)
      const isKept = ({ id }: Noted) => !ids.has(id)
      this.#items = this.#items.filter(isKept)
      this.#children = this.#children.filter(isKept)
      this.#ends = []
    }
    if (type === 'rolled' || type === 'continued') this.#generation += 1
  }

  done(): Exchanged {
    // History may have been trimmed, so generations are counted from the end.
    const first = this.#generationNow - this.#generation
    const parent = this.#parent
    const sent =
      !parent || parent.detached
        ? []
        : this.#ends.map((end): SentMail => {
            return {
              seq: end.seq,
              id: reportId(this.#state, first + end.generation),
              to: parent.timeline,
              kind: 'child',
              value: { command: parent.command, ...(end.news as object) },
              key: `child ${parent.command}`,
            }
          })
    const received = this.#children.map(({ seq, generation, id, count }) => {
      const before = own(this.#state.reruns ?? {}, id, 0) - (this.#counts.get(id) ?? 0)
      return { seq, key: `child ${linkOf(first + generation, before + count, id)}` }
    })
    return { sent, received }
  }
}
