// Savers of LangGraph threads side by side on one database: ours and the official one, if it is installed
// (npm i --prefix bench/versus/langgraph; better-sqlite3 needs its install script: npm rebuild better-sqlite3).

import { randomBytes } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { RepriseSaver } from '../../dist/adapters/langgraph/index.js'
import { open } from '../../dist/index.js'
import { benchPostgres, temporaryFolder } from './stores.mjs'

const require = createRequire(new URL('../versus/langgraph/package.json', import.meta.url))

/**
 * Two empty databases of one kind. `open` returns a saver on one of them, which can be closed and opened again; `bytes` is the
 * size of the database after it was closed.
 */
export async function makeSavers(kind) {
  return kind === 'sqlite' ? sqliteSavers() : await postgresSavers()
}

async function ours(url) {
  const rp = await open(url)
  return { saver: new RepriseSaver(rp), engine: rp, close: () => rp.close() }
}

async function sqliteSavers() {
  const place = temporaryFolder()
  const made = await load('sqlite')
  return {
    ours: { open: () => ours(`sqlite:${place.path('ours.db')}`), bytes: () => fileBytes(place.folder, 'ours') },
    peer: made && {
      async open() {
        const saver = made.SqliteSaver.fromConnString(place.path('peer.db'))
        return { saver, close: async () => void saver.db.close() }
      },
      bytes: () => fileBytes(place.folder, 'peer'),
    },
    remove: async () => place.remove(),
  }
}

async function postgresSavers() {
  const server = await benchPostgres()
  const made = await load('postgres')
  const id = randomBytes(4).toString('hex')
  const schemas = { ours: `bench_ours_${id}`, peer: `bench_peer_${id}` }
  const url = new URL(server.url)
  url.searchParams.set('schema', schemas.ours)
  return {
    ours: { open: () => ours(url.href), bytes: () => schemaBytes(server.url, schemas.ours) },
    peer: made && {
      async open() {
        const saver = made.PostgresSaver.fromConnString(server.url, { schema: schemas.peer })
        await saver.setup()
        return { saver, close: () => saver.end() }
      },
      bytes: () => schemaBytes(server.url, schemas.peer),
    },
    async remove() {
      for (const schema of Object.values(schemas)) await query(server.url, `DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
      await server.stop()
    },
  }
}

async function load(kind) {
  try {
    return await import(pathToFileURL(require.resolve(`@langchain/langgraph-checkpoint-${kind}`)).href)
  } catch {
    return null
  }
}

/** The shared-memory index of SQLite is not data. */
function fileBytes(folder, name) {
  const files = readdirSync(folder).filter((file) => file.startsWith(`${name}.db`) && !file.endsWith('-shm'))
  return files.reduce((sum, file) => sum + statSync(`${folder}/${file}`).size, 0)
}

/** Tables with their indexes and TOAST tables. */
async function schemaBytes(url, schema) {
  const [{ bytes }] = await query(
    url,
    `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_class c
       JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '${schema}' AND c.relkind = 'r'`,
  )
  return Number(bytes)
}

async function query(url, text) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}
