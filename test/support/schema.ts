// Schemas for tests that share one PostgreSQL server.

import { randomBytes } from 'node:crypto'
import pg from 'pg'

export function newSchemaName(): string {
  return `test_${randomBytes(6).toString('hex')}`
}

export async function dropSchema(url: string, schema: string): Promise<void> {
  await query(url, `DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
}

/** One statement on a connection of its own. */
export async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}
