// Which databases make a set: one that is alone, missing or written in another order.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openStore, shardsUrl } from '../../src/engine/open-store.ts'

let directory: string
const file = (name: string) => `sqlite:${join(directory, name)}`

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'reprise-set-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

/** Opens and closes it. */
async function visit(url: string, options: { readonly readOnly?: boolean; readonly namespace?: string } = {}) {
  await (await openStore(url, options)).close()
}

describe('a set of shards', () => {
  it('refuses one of its shards that is opened alone, to write and to read', async () => {
    const set = shardsUrl([file('a.db'), file('b.db')])
    await visit(set)
    for (const readOnly of [false, true]) {
      for (const [i, name] of ['a.db', 'b.db'].entries()) {
        const message = expect.stringContaining(`is shard ${i} of a set of 2: open the whole set`)
        await expect(visit(file(name), { readOnly }), name).rejects.toMatchObject({ code: 'SHARDS_DIFFER', message })
      }
      await visit(set, { readOnly })
    }
    // A set is made in its namespace: the database may hold others.
    await visit(file('a.db'), { namespace: 'other' })
  })
})
