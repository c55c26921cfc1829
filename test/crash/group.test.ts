// A3.5 with real processes: an agent, a workflow and a table in one cut, restored by a process that is killed with SIGKILL
// again and again, at another commit each time, until one of them gets through.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, inject, it } from 'vitest'
import { runProgram } from '../agent/service.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { amount } from './support.ts'

const ends: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

const stores: Record<string, () => string> = {
  sqlite: () => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-group-'))
    ends.push(() => rmSync(folder, { recursive: true, force: true }))
    return `sqlite:${join(folder, 'a.db')}`
  },
  postgres: () => {
    const schema = newSchemaName()
    const url = inject('postgresUrl')
    ends.push(() => dropSchema(url, schema))
    const made = new URL(url)
    made.searchParams.set('schema', schema)
    return made.href
  },
}

const run = (...args: readonly string[]) => runProgram('group-restorer', args, '../programs')
const killsMax = amount('REPRISE_GROUP_KILLS', 3)

for (const kind of ['sqlite', 'postgres']) {
  it(`A3.5 a group whose restore is killed again and again is restored once, and whole (${kind})`, async () => {
    const url = stores[kind]!()
    await run(url, 'prepare')
    let kills = 0
    for (let at = 4; ; at += 5) {
      const ended = await run(url, 'restore', kills < killsMax ? String(at) : '0')
      if (ended.signal !== 'SIGKILL') break
      kills += 1
    }
    expect(kills).toBeGreaterThan(0)
    const { out } = await run(url, 'check')
    expect(JSON.parse(out)).toEqual({
      turn: 1,
      apples: 10,
      toAnn: [],
      toBob: [{ from: 'ann', content: 'in flight' }],
      faults: [],
      held: [],
    })
  })
}
