// reprise lint: warns about classic mistakes in the definitions that modules export, from the definitions alone and from the
// facts that the store measured about their timelines. Exit code 3 with warnings.

import { isWithin } from '../../core/history/scope.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { modelsOf } from '../../engine/model/model.ts'
import { timelineFacts } from '../../operations/doctor.ts'
import { declareAll } from '../../operations/known-models.ts'
import { type Mistake, measuredMistakes, mistakesIn, paceMistakes } from '../../operations/mistakes.ts'
import { pacesOf } from '../../operations/schedules.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { count } from '../format.ts'
import { loadModule } from '../module.ts'

const lint: Command = async ({ engine, args, output }) => {
  const warnings: (Mistake & { readonly file: string })[] = []
  let definitions = 0
  for (const file of args) {
    const exported = [...new Set(Object.values(await loadModule(file)))].filter(isDefinition)
    definitions += exported.length
    declareAll(engine, exported)
    const found = [...exported.flatMap(mistakesIn), ...(await measuredIn(engine, exported))]
    warnings.push(...found.map((each) => ({ file, ...each })))
  }
  output.result({ ok: warnings.length === 0, definitions, warnings }, () => {
    const { green, yellow, dim } = output.colours
    for (const { file, rule, at, what, why, cure } of warnings) {
      output.line(`${yellow(rule)}  ${file}: ${at}: ${what}`)
      output.line(`  why: ${why}`)
      output.line(`  ${dim(`cure: ${cure}`)}`)
    }
    const all = `${count(definitions, 'definition')} inspected`
    output.line(warnings.length === 0 ? `${green('ok')}: ${all}` : `${all}, ${count(warnings.length, 'warning')}`)
  })
  return warnings.length === 0 ? exit.ok : exit.partly
}

export default lint

interface Definition {
  readonly kind: string
  readonly name: string
  readonly prefix?: string
}

function isDefinition(value: unknown): value is Definition {
  const { kind, name } = (value ?? {}) as Partial<Definition>
  return typeof kind === 'string' && typeof name === 'string'
}

async function measuredIn(engine: Reprise, exported: readonly Definition[]): Promise<Mistake[]> {
  const schedules = exported.filter(({ kind }) => kind === 'schedule').map(({ name }) => name)
  const paces = schedules.length > 0 ? await pacesOf(engine, schedules) : []
  const scopes = exported.flatMap((each) => modelsOf(each).map(({ scope }) => scope))
  const isOwn = (timeline: string) => scopes.some((scope) => isWithin(scope, timeline))
  // A damaged timeline is a finding of verify and doctor.
  const facts = scopes.length > 0 ? await timelineFacts(engine, () => undefined, isOwn) : []
  return [...paces.flatMap(paceMistakes), ...facts.flatMap(measuredMistakes)]
}
