// The errors of timelines, for the search: a head has none. They are read when a search needs them, of the most recently changed
// timelines that failed or are not finished, and kept until a timeline changes.

import type { TimelineId } from '../core/coordinate.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { statusLineAt } from '../operations/describe.ts'
import { reasonOf } from '../operations/failures.ts'
import { shownHead } from '../operations/heads.ts'

interface Row {
  readonly timeline: TimelineId
  readonly isUnfinished: boolean
  readonly needsPerson: boolean
  readonly updatedAt: number
}

/** Timelines whose errors one search considers, and how many of them it reads at once. */
const consideredMax = 2000
const atOnce = 50
const lettersMax = 20
const textMax = 2000

export class ErrorTexts {
  readonly #engine: Reprise
  #kept = new Map<TimelineId, { readonly updatedAt: number; readonly text: string }>()

  constructor(engine: Reprise) {
    this.#engine = engine
  }

  /** '' if it has none, or it was not read. */
  of({ timeline }: Row): string {
    return this.#kept.get(timeline)?.text ?? ''
  }

  /** Reads the errors of these rows, the most recently changed first. */
  async read(rows: readonly Row[]): Promise<void> {
    const considered = rows.filter((row) => row.needsPerson || row.isUnfinished).slice(0, consideredMax)
    const missing = considered.filter((row) => this.#kept.get(row.timeline)?.updatedAt !== row.updatedAt)
    for (let i = 0; i < missing.length; i += atOnce) {
      const some = missing.slice(i, i + atOnce)
      const heads = await this.#headsOf(some)
      await Promise.all(some.map((row, n) => this.#readOne(row, heads[n] ?? null)))
    }
    if (this.#kept.size <= consideredMax * 2) return
    const wanted = new Set<TimelineId>(considered.map(({ timeline }) => timeline))
    this.#kept = new Map([...this.#kept].filter(([timeline]) => wanted.has(timeline)))
  }

  async #headsOf(rows: readonly Row[]): Promise<readonly (Head | null)[]> {
    return await hostOf(this.#engine).heads(rows.map(({ timeline }) => timeline))
  }

  async #readOne({ timeline, updatedAt }: Row, head: Head | null): Promise<void> {
    // An unreadable history is reported on the page of the timeline.
    const text = head ? await this.#textOf(head).catch(() => '') : ''
    this.#kept.set(timeline, { updatedAt, text: text.slice(0, textMax) })
  }

  async #textOf(head: Head): Promise<string> {
    const { models, worker } = hostOf(this.#engine)
    const model = models.find(head.timeline)
    if (model?.letters && Number(head.attributes.dead ?? 0) > 0) {
      const letters = await model.letters.read({ engine: this.#engine, head })
      const words = letters.slice(0, lettersMax).map(({ error }) => `${error.name}: ${error.message}`)
      return [...new Set(words)].join('\n')
    }
    const { failure } = shownHead(this.#engine, head)
    if (failure) return failure.reason
    return (await reasonOf(this.#engine, head, worker.now())) || ((await statusLineAt(this.#engine, head))?.text ?? '')
  }
}

/** Equal errors of several timelines, and when they happened. */
export interface Cause {
  readonly error: string
  readonly count: number
  readonly firstAt: number
  readonly lastAt: number
  /** Counts in twelve equal spans from the first failure of all causes to the last one. */
  readonly times: readonly number[]
  /** One of the timelines, the most recent one. */
  readonly timeline: string
}

const spans = 12
const causesMax = 20

export function causesOf(rows: readonly (Row & { readonly error: string })[]): Cause[] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const cause = causeIn(row.error)
    const group = groups.get(cause)
    if (group) group.push(row)
    else groups.set(cause, [row])
  }
  const times = rows.map(({ updatedAt }) => updatedAt)
  const from = times.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY)
  const width = Math.max(1, times.reduce((most, at) => Math.max(most, at), 0) - from)
  return [...groups]
    .map(([error, of]) => {
      const counts = new Array<number>(spans).fill(0)
      for (const { updatedAt } of of)
        counts[Math.min(spans - 1, Math.floor(((updatedAt - from) / width) * spans))]! += 1
      const newest = of.reduce((a, b) => (b.updatedAt > a.updatedAt ? b : a))
      const firstAt = of.reduce((least, { updatedAt }) => Math.min(least, updatedAt), newest.updatedAt)
      return { error, count: of.length, firstAt, lastAt: newest.updatedAt, times: counts, timeline: newest.timeline }
    })
    .sort((a, b) => b.count - a.count || b.lastAt - a.lastAt)
    .slice(0, causesMax)
}

/**
 * The first line without ids, times and large numbers, so that equal causes have equal texts. Status codes are kept.
 * @example causeIn('503 for order-4711 at 10:31') // '503 for … at …'
 */
export function causeIn(error: string): string {
  const line = error.split('\n', 1)[0]!.trim()
  if (line === '') return 'no error is recorded'
  return line.replaceAll(/\b[\w.:-]*\d[\w.:-]*\b/g, (word) => (/^\d{1,3}$/.test(word) ? word : '…'))
}
