// rp.sql: reads the user's own tables through the store's connection. A template binds its values; names in the text come from
// a definition (the table of a projection's live generation), never from data.

import { RepriseError } from '../../core/errors.ts'
import { checkList } from '../../core/options.ts'
import { type Host, hostOf } from '../host/host.ts'
import type { Engine } from '../model/definition.ts'
import { liveGeneration } from './generations.ts'

const resolves: unique symbol = Symbol.for('reprise.sql.name')

/** A name in SQL that only the engine can resolve: it changes with every rebuild. */
export interface SqlName {
  [resolves](engine: Engine): Promise<string>
}

const nameForm = /^[A-Za-z_][A-Za-z0-9_]{0,50}$/

/** The table of the generation that is live when the query runs: <name>_<generation>. */
export function tableOfGeneration(name: string, catalog: string, version: string): SqlName {
  if (!nameForm.test(name)) {
    const what =
      'the name of a table must have 1 to 51 letters, digits and underscores, and must not start with a digit'
    throw new RepriseError('INVALID_ARGUMENT', what, { name: String(name).slice(0, 80) })
  }
  return { [resolves]: async (engine) => `${name}_${await liveGeneration(hostOf(engine), catalog, version)}` }
}

/** A generation may be replaced, and its tables dropped, between the lookup and the query. */
const attemptsMax = 3

export async function querySql<Row>(
  engine: Host,
  text: string | TemplateStringsArray,
  given: readonly unknown[],
): Promise<Row[]> {
  const { store, limits } = engine.kernel
  const bounds = { rowsMax: limits.sqlRows, timeoutMs: limits.sqlMs }
  if (typeof text === 'string') {
    const [values = []] = given
    if (!Array.isArray(values)) throw new RepriseError('INVALID_ARGUMENT', 'the values of a query must be an array')
    return (await store.query({ parts: [text], values, ...bounds })) as Row[]
  }
  checkList('the text of a query', text)
  for (let attempt = 1, before = ''; ; attempt++) {
    const { parts, values } = await resolve(engine, text, given)
    const names = parts.join('?')
    try {
      return (await store.query({ parts, values, ...bounds })) as Row[]
    } catch (error) {
      const isMoved = (await resolve(engine, text, given)).parts.join('?') !== names
      if (!isMoved || names === before || attempt === attemptsMax) throw error
      before = names
    }
  }
}

/** Names become part of the text; everything else stays a value. */
async function resolve(
  engine: Host,
  text: readonly string[],
  given: readonly unknown[],
): Promise<{ readonly parts: readonly string[]; readonly values: readonly unknown[] }> {
  const parts: string[] = [text[0]!]
  const values: unknown[] = []
  for (const [at, value] of given.entries()) {
    const after = text[at + 1]!
    if (isName(value)) parts.push(`${parts.pop()!}${await value[resolves](engine)}${after}`)
    else {
      values.push(value)
      parts.push(after)
    }
  }
  return { parts, values }
}

function isName(value: unknown): value is SqlName {
  return typeof value === 'object' && value !== null && resolves in value
}
