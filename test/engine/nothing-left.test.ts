// A refused open() leaves nothing behind: no database, no schema, no folder. Every option is checked before anything is opened.

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, inject, it } from 'vitest'
import { type Options, open } from '../../src/engine/api/open.ts'
import { timeline } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { newSchemaName, query } from '../support/schema.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

/** Too large for its manifest, so that there are chunks. */
const big = timeline('big', {
  initial: () => new Uint8Array(0),
  apply: (_, entry: { type: 'grown' }) => new Uint8Array(60_000).map((__, i) => (i * 7919 + entry.type.length) % 251),
})

let folder: string
beforeEach(() => {
  folder = temporaryFolder('nothing')
})

const wrong: Readonly<Record<string, unknown>> = {
  'blobs that are no folder': { blobs: 'ftp://chunks' },
  'a namespace with a space': { namespace: 'a b' },
  'a current key that is not in the ring': { keys: { current: 'k', keys: {} } },
  'a key of 5 bytes': { keys: { current: 'k', keys: { k: new Uint8Array(5) } } },
  'a misspelt part of the keys': { keys: { curent: 'k', current: 'k', keys: { k: new Uint8Array(32) } } },
  'a hashing key of 5 bytes': {
    keys: { current: 'k', keys: { k: new Uint8Array(32) }, hashing: { key: new Uint8Array(5) } },
  },
  'a word for what is hidden': { keys: { current: 'k', keys: { k: new Uint8Array(32) }, hides: 'all' } },
  'something that cannot be hidden': { keys: { current: 'k', keys: { k: new Uint8Array(32) }, hides: ['type'] } },
  'a word for what is hashed': {
    keys: { current: 'k', keys: { k: new Uint8Array(32) }, hashing: { key: new Uint8Array(32), attributes: 'name' } },
  },
  'an unknown limit': { limits: { valueByte: 5 } },
  'a limit that is no number': { limits: { valueBytes: '5' } },
  'a grace that is too short': { grace: 5 },
  'a lease that is no duration': { lease: 'soon' },
  'a patience that is no duration': { patience: 'long' },
  'two codecs of one name': {
    classes: [Date, Map].map((type) => ({ name: 'x', type, encode: String, decode: String })),
  },
  'housekeeping without a duration': { housekeeping: { every: 'often' } },
  'misspelt housekeeping': { housekeeping: { evry: '1h' } },
  'misspelt expiry': { housekeeping: { expire: { archive: '1d' } } },
  'an expiry that is no duration': { housekeeping: { expire: { ended: { 'workflow/': 'never' } } } },
  'an expiry by the beginning of a name': { housekeeping: { expire: { ended: { 'workflow/order/x': '30d' } } } },
  'a readOnly that is no boolean': { readOnly: 'yes' },
  'a redundancy that is no boolean': { redundancy: 'no' },
  'a misspelt option': { readonly: true },
}

it.each(Object.entries(wrong))('%s: SQLite', async (_, options) => {
  await expect(open(`sqlite:${join(folder, 'made/app.db')}`, options as Options)).rejects.toEqual(
    code('INVALID_ARGUMENT'),
  )
  expect(readdirSync(folder)).toEqual([])
})

it('on PostgreSQL, none of them makes a schema', async () => {
  const schema = newSchemaName()
  const url = new URL(inject('postgresUrl'))
  url.searchParams.set('schema', schema)
  for (const options of Object.values(wrong)) {
    await expect(open(url.href, options as Options)).rejects.toEqual(code('INVALID_ARGUMENT'))
  }
  const found = `SELECT 1 FROM information_schema.schemata WHERE schema_name = '${schema}'`
  expect(await query(inject('postgresUrl'), found)).toEqual([])
})

it('the nearest known name is in the message', async () => {
  await expect(open('memory:', { readonly: true } as Options)).rejects.toThrow('did you mean readOnly?')
})

it('a chunk folder that cannot be made makes no database', async () => {
  writeFileSync(join(folder, 'file'), '')
  const opening = open(`sqlite:${join(folder, 'app.db')}`, { blobs: `file:${join(folder, 'file/chunks')}` })
  await expect(opening).rejects.toEqual(code('STORE_IO'))
  expect(readdirSync(folder)).toEqual(['file'])
})

it('a folder that does not hold the chunks of the store is not made', async () => {
  const url = `sqlite:${join(folder, 'app.db')}`
  await (await open(url, { blobs: `file:${join(folder, 'chunks')}` })).close()
  const other = join(folder, 'other')
  await expect(open(url, { blobs: `file:${other}` })).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
  expect(existsSync(other)).toBe(false)
  mkdirSync(other)
  await expect(open(url, { blobs: `file:${other}` })).rejects.toEqual(code('CHUNKS_ELSEWHERE'))
  expect(readdirSync(other)).toEqual([])
})

it('a folder beside chunks that lie in the store is not made', async () => {
  const url = `sqlite:${join(folder, 'app.db')}`
  const rp = await open(url)
  const put = await rp.open(big, 'a')
  await put.append({ type: 'grown' })
  await put.checkpoint()
  await rp.close()
  const chunks = join(folder, 'chunks')
  await expect(open(url, { blobs: `file:${chunks}` })).rejects.toEqual(code('INVALID_ARGUMENT'))
  expect(existsSync(chunks)).toBe(false)
})

it('a file that is read only is not made by reading it', async () => {
  await expect(open(`sqlite:${join(folder, 'made/app.db')}`, { readOnly: true })).rejects.toThrow()
  expect(readdirSync(folder)).toEqual([])
})
