// The behaviours of Durable Objects' SQLite for which there is no store on it (docs/guides/durable-objects.md), in workerd.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { miniflare, nodeAt, programOf } from '../support/runtimes.ts'

const library = programOf(miniflare)
const node = library && programOf(nodeAt('22'))
const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

it.runIf(node)('E1: the SQLite of a Durable Object cannot keep the promises that its page names', () => {
  const args = [pathOf('durable-object-host.mjs'), library!, pathOf('durable-object.mjs')]
  const { stdout, stderr } = spawnSync(node!, args, { encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } })
  expect(stdout, stderr).not.toBe('')
  expect(JSON.parse(stdout)).toEqual({
    permitted: {
      'BEGIN IMMEDIATE': false,
      'SAVEPOINT a': false,
      'PRAGMA journal_mode': false,
      'PRAGMA synchronous': false,
      'PRAGMA secure_delete = ON': false,
      'PRAGMA integrity_check': false,
      'PRAGMA quick_check': true,
      "ATTACH ':memory:' AS x": false,
      'a row of 3 MB': false,
      '101 values': false,
    },
    // A reader beside the transaction sees its row, and a write beside it disappears with it.
    read: { seen: 1, left: 0 },
    write: { seen: 2, left: 0 },
  })
})
