// Dead letters of one job or pipeline or of all, and the two actions on them.

import { timelineId } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { actionOf, type ModelLetter, type ModelLetters, verbsOf } from '../engine/model/model.ts'

const listedMax = 1000

export type ShownLetter = ModelLetter & { readonly timeline: string }

/** The timelines that are one unit to the user: the shards of a job. Default: itself alone. */
export async function familyOf(engine: Reprise, head: Head): Promise<Head[]> {
  const { models, kernel } = hostOf(engine)
  const ids = (await models.find(head.timeline)?.family?.(engine, head)) ?? [head.timeline]
  const heads = await kernel.store.head(ids.map((id) => timelineId(id)))
  return heads.filter((each) => each !== null)
}

/**
 * Timelines with dead letters, of every kind that has them and can redrive them. `within`: the parts of a scope to read.
 * Default: all of it.
 */
export async function withLetters(
  engine: Reprise,
  within: (scope: string) => readonly string[] = (scope) => [scope],
): Promise<Head[]> {
  const kinds = hostOf(engine)
    .models.all()
    .filter((model) => model.name === null && verbsOf(model).includes('redrive') && model.letters)
  const scopes = new Set(kinds.flatMap((model) => within(model.scope)))
  const pages = await Promise.all([...scopes].map((prefix) => engine.list({ prefix, limit: listedMax })))
  const heads = new Map(pages.flat().map((head) => [head.timeline, head]))
  return [...heads.values()].filter((head) => Number(head.attributes.dead ?? 0) > 0)
}

/** Only models with redrive have dead letters: another model is refused with its own verbs. */
export async function lettersOf(engine: Reprise, heads: readonly Head[]): Promise<ShownLetter[]> {
  checkLetters(engine, heads)
  const letters: ShownLetter[] = []
  for (const head of heads) {
    const { timeline } = head
    for (const letter of await lettersIn(engine, head).read({ engine, head })) letters.push({ timeline, ...letter })
  }
  return letters
}

/** The reasons why letters of these timelines can be neither redriven nor discarded any more. */
export function finalOf(engine: Reprise, heads: readonly Head[]): string[] {
  return heads.map((head) => lettersIn(engine, head).final?.(head) ?? null).filter((why) => why !== null)
}

/** These letters are then treated as finished. NOT_FOUND if none of them exists. */
export async function discard(
  engine: Reprise,
  heads: readonly Head[],
  wanted: readonly string[],
  key?: string,
): Promise<{ readonly discarded: string[]; readonly missing: string[] }> {
  checkLetters(engine, heads)
  const discarded: string[] = []
  for (const head of heads) {
    const letters = lettersIn(engine, head)
    const target = { engine, head, ...(key !== undefined && { key }) }
    const held = new Set((await letters.read(target)).map((letter) => letter.key))
    const keys = wanted.filter((each) => held.has(each))
    if (keys.length > 0) await letters.discard(target, keys)
    discarded.push(...keys)
  }
  const missing = wanted.filter((each) => !discarded.includes(each))
  if (discarded.length === 0) throw new RepriseError('NOT_FOUND', `no dead letter ${missing.join(', ')}`, { missing })
  return { discarded, missing }
}

function lettersIn(engine: Reprise, { timeline }: Head): ModelLetters {
  const model = hostOf(engine).models.find(timeline)
  if (model?.letters) return model.letters
  const what = `${timeline} is ${model ? `a ${model.kind}` : 'not known here'}, whose dead letters only its own handle lists`
  throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
}

function checkLetters(engine: Reprise, heads: readonly Head[]): void {
  for (const { timeline } of heads) {
    const model = hostOf(engine).models.find(timeline)
    const redrive = model?.actions?.redrive
    if (model && !model.letters && typeof redrive !== 'function') {
      const instead = redrive?.instead ?? 'only jobs, consumers and pipelines have dead letters'
      const what = `${timeline} has the kind ${model.kind}, which has no dead letters: ${instead}`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline, kind: model.kind })
    }
    actionOf(model, 'redrive', timeline)
  }
}
