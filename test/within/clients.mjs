// The database clients of applications, each as one transaction with nested ones (savepoints). The application
// passes the handle to within(). Real packages, except Prisma: its shape over pg. The real one is in
// test/runtimes/clients.test.ts.

import { DatabaseSync } from '@photostructure/sqlite'
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleJs } from 'drizzle-orm/postgres-js'
import knex from 'knex'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource } from 'typeorm'

const max = 4
const silent = () => undefined

/** By name. Each function connects when first used. */
export const postgresClients = {
  pg: withPg,
  'postgres.js': withPostgresJs,
  'Drizzle over pg': withDrizzlePg,
  'Drizzle over postgres.js': withDrizzleJs,
  Kysely: withKysely,
  Knex: withKnex,
  TypeORM: withTypeOrm,
  'Prisma (its shape)': withPrismaShape,
}

export const sqliteClients = { 'node:sqlite': withNodeSqlite, 'its own interface': withOwnInterface }

function poolOf(url) {
  const pool = new pg.Pool({ connectionString: url, max })
  // A connection that is cut while it is idle, or between two statements of a transaction.
  pool.on('error', silent)
  pool.on('connect', (client) => client.on('error', silent))
  return pool
}

/** BEGIN and COMMIT by hand; a connection that failed is not used again. */
async function byHand(pool, work) {
  const client = await pool.connect()
  let failure
  try {
    await client.query('BEGIN')
    await work(client)
    await client.query('COMMIT')
  } catch (error) {
    failure = error
    await client.query('ROLLBACK').catch((lost) => {
      failure = lost
    })
    throw error
  } finally {
    client.release(failure)
  }
}

/** Savepoints by hand, for clients without an interface for them. */
export function bySavepoint(run, handle, depth = 0) {
  return {
    handle,
    run,
    async nest(work) {
      const name = `s${depth}`
      await run(`SAVEPOINT ${name}`)
      try {
        await work(bySavepoint(run, handle, depth + 1))
        await run(`RELEASE SAVEPOINT ${name}`)
      } catch (error) {
        await run(`ROLLBACK TO SAVEPOINT ${name}`)
        throw error
      }
    },
  }
}

function withPg(url) {
  const pool = poolOf(url)
  const run = (client) => async (text) => (await client.query(text)).rows
  return {
    transaction: (work) => byHand(pool, (client) => work(bySavepoint(run(client), client))),
    close: () => pool.end(),
  }
}

function withPrismaShape(url) {
  const pool = poolOf(url)
  const transaction = (work) =>
    byHand(pool, async (client) => {
      const run = async (text, values) => (await client.query(text, values)).rows
      const tx = { $queryRawUnsafe: (text, ...values) => run(text, values), $executeRawUnsafe: run }
      await work(bySavepoint(run, tx))
    })
  return { transaction, close: () => pool.end() }
}

/** Its end() waits for connections that were cut, unless it has a limit. */
function withPostgresJs(url) {
  const db = postgres(url, { max, onnotice: silent })
  const wrap = (sql) => ({
    handle: sql,
    run: (text) => sql.unsafe(text),
    nest: (work) => sql.savepoint((inner) => work(wrap(inner))),
  })
  return { transaction: (work) => db.begin((sql) => work(wrap(sql))), close: () => db.end({ timeout: 1 }) }
}

function drizzled(db, close) {
  const wrap = (tx) => ({
    handle: tx,
    async run(text) {
      const result = await tx.execute(drizzleSql.raw(text))
      return result.rows ?? result
    },
    nest: (work) => tx.transaction((inner) => work(wrap(inner))),
  })
  return { transaction: (work) => db.transaction((tx) => work(wrap(tx))), close }
}

function withDrizzlePg(url) {
  const pool = poolOf(url)
  return drizzled(drizzlePg(pool), () => pool.end())
}

function withDrizzleJs(url) {
  const db = postgres(url, { max, onnotice: silent })
  return drizzled(drizzleJs(db), () => db.end({ timeout: 1 }))
}

function withKysely(url) {
  const db = new Kysely({ dialect: new PostgresDialect({ pool: poolOf(url) }) })
  const run = (trx) => async (text) => (await trx.executeQuery(CompiledQuery.raw(text))).rows
  return {
    transaction: (work) => db.transaction().execute((trx) => work(bySavepoint(run(trx), trx))),
    close: () => db.destroy(),
  }
}

function withKnex(url) {
  const log = { warn: silent, error: silent }
  const db = knex({ client: 'pg', connection: url, pool: { min: 0, max }, log })
  const wrap = (trx) => ({
    handle: trx,
    run: async (text) => (await trx.raw(text)).rows,
    nest: (work) => trx.transaction((inner) => work(wrap(inner))),
  })
  return { transaction: (work) => db.transaction((trx) => work(wrap(trx))), close: () => db.destroy() }
}

function withTypeOrm(url) {
  const source = new DataSource({ type: 'postgres', url, poolSize: max, poolErrorHandler: silent, logging: false })
  const ready = source.initialize()
  const wrap = (manager) => ({
    handle: manager,
    run: (text) => manager.query(text),
    nest: (work) => manager.transaction((inner) => work(wrap(inner))),
  })
  return {
    async transaction(work) {
      await ready
      await source.manager.transaction((manager) => work(wrap(manager)))
    },
    close: () => source.destroy(),
  }
}

function sqliteClient(file, handleOf) {
  const db = new DatabaseSync(file)
  db.exec('PRAGMA busy_timeout = 20000; PRAGMA synchronous = OFF')
  const run = async (text) => db.prepare(text).all()
  return {
    async transaction(work) {
      db.exec('BEGIN IMMEDIATE')
      try {
        await work(bySavepoint(run, handleOf(db)))
        db.exec('COMMIT')
      } catch (error) {
        db.exec('ROLLBACK')
        throw error
      }
    },
    close: async () => db.close(),
  }
}

function withNodeSqlite(file) {
  return sqliteClient(file, (db) => db)
}

function withOwnInterface(file) {
  const handleOf = (db) => ({ dialect: 'sqlite', query: async (text, values) => db.prepare(text).all(...values) })
  return sqliteClient(file, handleOf)
}
