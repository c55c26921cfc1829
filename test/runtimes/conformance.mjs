// The conformance suite of a store, run by another runtime: `bun conformance.mjs sqlite FOLDER` or `… postgres URL` prints one
// line of JSON per group of cases, with the cases that failed. `… commits,feed` runs these groups. The suite is compiled code of
// this repository; `#runtime` resolves to the file of the runtime that executes it.

import { join } from 'node:path'
import { openPostgres } from '../../dist/stores/postgres/index.js'
import { openSqlite } from '../../dist/stores/sqlite/index.js'
import { hash } from '../../dist/testing/conformance/kit.js'
import { conformance } from '../../dist/testing/conformance/suite.js'

const [, , kind, place, chosen] = process.argv
const opening = {
  sqlite: (world, namespace) => [join(place, `${world}.db`), { namespace }],
  postgres(world, namespace) {
    const url = new URL(place)
    const schema = url.searchParams.get('schema')
    url.searchParams.delete('schema')
    return [url.href, { namespace: `${world}/${namespace}`, schema, poolSize: 3 }]
  },
}
const openStore = { sqlite: openSqlite, postgres: openPostgres }[kind]

let worlds = 0
const harness = {
  name: kind,
  capabilities: { sql: true, presence: kind === 'postgres' },
  async create() {
    worlds += 1
    const world = worlds
    const opened = []
    return {
      async open(namespace = 'default', options = {}) {
        const [address, own] = opening[kind](world, namespace)
        const store = await openStore(address, { ...own, hash, ...options })
        opened.push(store)
        return store
      },
      async destroy() {
        for (const store of opened) await store.close()
      },
    }
  },
}

const groups = new Map()
let group = ''
conformance(
  {
    describe(name, body) {
      group = name
      body()
    },
    it(name, body) {
      groups.set(group, [...(groups.get(group) ?? []), { name, body }])
    },
  },
  harness,
)

for (const [name, cases] of groups) {
  if (chosen && !chosen.split(',').includes(name)) continue
  const failed = []
  for (const { name: title, body } of cases) {
    try {
      await body()
    } catch (error) {
      failed.push(`${title}: ${String(error?.stack ?? error)}`)
    }
  }
  console.log(JSON.stringify({ group: name, count: cases.length, failed }))
}
process.exit(0)
