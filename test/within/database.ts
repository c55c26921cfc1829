// The application's own connection to the database of a store: a plain client, without Reprise.

import { DatabaseSync } from '@photostructure/sqlite'
import pg from 'pg'

export interface Application {
  readonly schema: string
  /** The object that the application passes to within(). */
  readonly tx: object
  /** One statement, on the one connection of the application. */
  run(text: string): Promise<Record<string, unknown>[]>
  /** A statement that starts a workflow, in the words of the store. */
  start(name: string, id: string, input: unknown): Promise<unknown>
  startWith(
    name: string,
    id: string,
    input: unknown,
    given: { key?: string | undefined; options?: string | undefined },
  ): Promise<unknown>
  signal(name: string, id: string, signal: string, value: unknown, key?: string): Promise<unknown>
  cancel(name: string, id: string): Promise<unknown>
  send(timeline: string, kind: string, data: unknown, key?: string): Promise<unknown>
  close(): Promise<void>
}

export async function application(url: string): Promise<Application> {
  return url.startsWith('sqlite:') ? sqliteApplication(url.slice('sqlite:'.length)) : await postgresApplication(url)
}

/** The interface of node:sqlite, also for Nodes without it. */
export function openSqliteFile(file: string): InstanceType<typeof DatabaseSync> {
  const db = new DatabaseSync(file)
  db.exec('PRAGMA busy_timeout = 20000')
  return db
}

function sqliteApplication(file: string): Application {
  const db = openSqliteFile(file)
  const insert = (values: Record<string, unknown>) => {
    const given = Object.entries(values).filter(([, value]) => value !== undefined)
    const names = given.map(([name]) => name).join(', ')
    const text = `INSERT INTO reprise_request (${names}) VALUES (${given.map(() => '?').join(', ')})`
    db.prepare(text).run(...(given.map(([, value]) => value) as string[]))
  }
  return {
    schema: '',
    tx: db,
    run: async (text) => db.prepare(text).all() as Record<string, unknown>[],
    start: async (name, id, input) =>
      insert({ verb: 'start', target: `workflow/${name}`, id, data: JSON.stringify(input) }),
    startWith: async (name, id, input, { key, options }) =>
      insert({ verb: 'start', target: `workflow/${name}`, id, data: JSON.stringify(input), key, options }),
    signal: async (name, id, topic, value, key) =>
      insert({ verb: 'signal', target: `workflow/${name}`, id, topic, data: JSON.stringify(value), key }),
    cancel: async (name, id) => insert({ verb: 'cancel', target: `workflow/${name}`, id }),
    send: async (id, topic, data, key) =>
      insert({ verb: 'send', target: 'mail', id, topic, data: JSON.stringify(data), key }),
    close: async () => db.close(),
  }
}

async function postgresApplication(url: string): Promise<Application> {
  const plain = new URL(url)
  const schema = plain.searchParams.get('schema') ?? 'reprise'
  plain.searchParams.delete('schema')
  const client = new pg.Client(plain.href)
  await client.connect()
  const call = async (text: string, ...values: unknown[]) => (await client.query(text, values)).rows
  return {
    schema,
    tx: client,
    run: async (text) => (await client.query(text)).rows,
    start: (name, id, input) =>
      call(`SELECT "${schema}".start($1, $2::jsonb, id => $3)`, name, JSON.stringify(input), id),
    startWith: (name, id, input, { key, options }) =>
      call(
        `SELECT "${schema}".start($1, $2::jsonb, $3, $4, $5::jsonb)`,
        name,
        JSON.stringify(input),
        id,
        key ?? null,
        options ?? null,
      ),
    signal: (name, id, signal, value, key) =>
      call(`SELECT "${schema}".signal($1, $2, $3, $4, $5)`, name, id, signal, JSON.stringify(value), key ?? null),
    cancel: (name, id) => call(`SELECT "${schema}".cancel($1, $2)`, name, id),
    send: (timeline, kind, data, key) =>
      call(`SELECT "${schema}".send($1, $2, $3, $4)`, timeline, kind, JSON.stringify(data), key ?? null),
    close: () => client.end(),
  }
}
