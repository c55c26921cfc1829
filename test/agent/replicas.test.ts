// Several processes of one service share a thread or a session: none of them gets an error because another was faster, and
// every acknowledged write is kept.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { RepriseSaver } from '../../src/adapters/langgraph/index.ts'
import { RepriseSession } from '../../src/adapters/openai-agents/index.ts'
import { open } from '../../src/index.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { runProgram } from './service.ts'

const ends: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

const stores: Record<string, () => string> = {
  sqlite: () => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-replicas-'))
    ends.push(() => rmSync(folder, { recursive: true, force: true }))
    return `sqlite:${join(folder, 'a.db')}`
  },
  postgres: () => {
    const schema = newSchemaName()
    const url = new URL(inject('postgresUrl'))
    ends.push(() => dropSchema(inject('postgresUrl'), schema))
    url.searchParams.set('schema', schema)
    return url.href
  },
}

const each = Number(process.env.REPRISE_REPLICA_INVOKES ?? 8)

for (const [store, make] of Object.entries(stores)) {
  describe(`four processes (${store})`, () => {
    for (const kind of ['graph', 'session']) {
      it(`C11 on one ${kind} all get through, and lose nothing`, async () => {
        const url = make()
        const runs = await Promise.all(
          ['a', 'b', 'c', 'd'].map((name) =>
            runProgram('thread-writer', [url, kind, name, String(each)], '../programs'),
          ),
        )
        const reports = runs.map(
          ({ out }) => JSON.parse(out.trim().split('\n').at(-1)!) as { acknowledged: string[]; failures: string[] },
        )
        expect(reports.flatMap((report) => report.failures)).toEqual([])
        const acknowledged = reports.flatMap((report) => report.acknowledged)
        await using rp = await open(url)
        const there = new Set<string>()
        if (kind === 'graph') {
          const config = { configurable: { thread_id: 'shared' } }
          for await (const { checkpoint } of new RepriseSaver(rp).list(config)) there.add(checkpoint.id)
          expect(acknowledged.length).toBeGreaterThanOrEqual(4 * each * 3)
        } else {
          const items = await new RepriseSession(rp, 'shared').getItems()
          for (const item of items) there.add(String((item as { content: unknown }).content))
          expect(items).toHaveLength(4 * each)
        }
        expect(acknowledged.filter((id) => !there.has(id))).toEqual([])
      })
    }
  })
}
