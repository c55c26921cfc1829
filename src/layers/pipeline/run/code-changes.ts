// Code that changed since the checkpoint: state with a matching name is restored; other state is refused with its names and the
// choices. A mistyped name neither discards state nor starts an operator empty.

import { RepriseError } from '../../../core/errors.ts'
import type { Graph } from '../graph.ts'
import type { Source } from '../source.ts'
import type { PipelineChanges } from './options.ts'
import type { PipelineState } from './state.ts'

/** Maps each current name to its name in the checkpoint; null: the part is new. */
export type StoredNames = ReadonlyMap<string, string | null>

interface Named {
  readonly what: string
  /** The kind of state, by name. */
  readonly before: ReadonlyMap<string, string>
  readonly now: ReadonlyMap<string, string>
}

export function matchNames(graph: Graph, stored: PipelineState, changes: PipelineChanges = {}): StoredNames {
  const { rename = {}, drop = [], add = [] } = changes
  const names = new Map<string, string | null>()
  const faults: string[] = []
  for (const { what, before, now } of kindsOf(graph, stored)) {
    // A part renamed in an earlier run already has its new name in the checkpoint.
    const renamed = Object.entries(rename).filter(([old]) => before.has(old))
    const oldOf = new Map(renamed.map(([old, today]) => [today, old]))
    const gone = new Map(before)
    for (const [name, kind] of now) {
      const old = oldOf.get(name) ?? name
      if (isSameKind(before.get(old), kind)) {
        gone.delete(old)
        names.set(name, old)
      } else if (add.includes(name)) {
        names.set(name, null)
      } else {
        const other = before.get(old)
        const why = other === undefined ? 'does not contain it' : `has ${other} under that name, not ${kind}`
        faults.push(
          `the ${what} ${name} is new: the checkpoint ${why} (rename: { old: '${name}' }, or add: ['${name}'])`,
        )
      }
    }
    for (const name of gone.keys()) {
      if (!drop.includes(name))
        faults.push(
          `the ${what} ${name} no longer exists, but the checkpoint has it (rename: { ${quoted(name)}: 'new' }, or drop: ['${name}'])`,
        )
    }
  }
  faults.push(...misspelt(graph, stored, changes))
  if (faults.length > 0) {
    const what = `the code and its newest checkpoint do not match; declare the changes with { changes }: ${faults.join('; ')}`
    throw new RepriseError('INVALID_ARGUMENT', what, { faults })
  }
  return names
}

/** Checkpoints of earlier versions have an operator's kind without its aggregation, and no kind for a source. */
function isSameKind(before: string | undefined, now: string): boolean {
  return (
    before === '' || before === now || (before !== undefined && !before.includes('(') && now.startsWith(`${before}(`))
  )
}

/** Finds names that neither the code nor the checkpoint has; they would otherwise be ignored silently. */
function misspelt(
  graph: Graph,
  stored: PipelineState,
  { rename = {}, drop = [], add = [] }: PipelineChanges,
): string[] {
  const kinds = kindsOf(graph, stored)
  const isNow = (name: string) => kinds.some(({ now }) => now.has(name))
  const wasThere = (name: string) => kinds.some(({ before }) => before.has(name))
  const faults: string[] = []
  for (const [old, today] of Object.entries(rename)) {
    if (!isNow(today)) faults.push(`rename: the code has nothing called ${today}`)
    else if (!wasThere(old) && !wasThere(today)) faults.push(`rename: the checkpoint has nothing called ${old}`)
  }
  for (const name of drop) {
    if (isNow(name) && !add.includes(name)) faults.push(`drop: the code still has ${name}`)
  }
  for (const name of add) if (!isNow(name)) faults.push(`add: the code has nothing called ${name}`)
  return faults
}

/** Sources and operators as named in a checkpoint. */
export function namedParts(
  { sources, operators }: Graph,
  positions: ReadonlyMap<string, ReadonlyMap<string, unknown>>,
): Pick<PipelineState, 'sources' | 'sourceKinds' | 'operators'> {
  return {
    sources: Object.fromEntries([...positions].map(([name, own]) => [name, [...own]])),
    operators: Object.fromEntries(operators.flatMap(({ name, state }) => (state === null ? [] : [[name, state]]))),
    sourceKinds: Object.fromEntries(sources.map(({ name, source }) => [name, sourceKind(source)])),
  }
}

function sourceKind({ kind = 'a custom source of the program' }: Source<unknown>): string {
  return kind
}

function kindsOf(graph: Graph, stored: PipelineState): readonly Named[] {
  const all = (names: readonly string[]) => new Map(names.map((name) => [name, '']))
  const operators = graph.operators.flatMap(({ name, state }) => (state === null ? [] : [[name, state] as const]))
  const sources = graph.sources.map(({ name, source }) => [name, sourceKind(source)] as const)
  const sourcesBefore = Object.keys(stored.sources).map((name) => [name, stored.sourceKinds?.[name] ?? ''] as const)
  return [
    { what: 'source', before: new Map(sourcesBefore), now: new Map(sources) },
    { what: 'operator', before: new Map(Object.entries(stored.operators)), now: new Map(operators) },
    { what: 'sink', before: all(Object.keys(stored.sinks)), now: all(graph.sinks.map(({ name }) => name)) },
  ]
}

function quoted(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : `'${name}'`
}
