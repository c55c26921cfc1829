// The address of a store of its own that processes share: a SQLite file, or a schema of the PostgreSQL server of this test run.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { dropSchema, newSchemaName } from './schema.ts'

export interface StoreUrl {
  readonly url: string
  remove(): unknown
}

/** @example describe.each(Object.keys(storeUrls))('…(%s)', (kind) => { const { url, remove } = storeUrls[kind]!() … }) */
export const storeUrls: Readonly<Record<string, () => StoreUrl>> = {
  sqlite() {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-shared-'))
    return { url: `sqlite:${join(folder, 'x.db')}`, remove: () => rmSync(folder, { recursive: true, force: true }) }
  },
  postgres() {
    const url = inject('postgresUrl')
    const schema = newSchemaName()
    const mine = new URL(url)
    mine.searchParams.set('schema', schema)
    return { url: mine.href, remove: () => dropSchema(url, schema) }
  },
}
