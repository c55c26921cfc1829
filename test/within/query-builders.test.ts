// Query builders over the SQL of a commit: Kysely, Drizzle and the raw interface of Prisma write in the transaction of a step,
// and none of them can end it.

import { eq, sql as fragment } from 'drizzle-orm'
import * as pgCore from 'drizzle-orm/pg-core'
import * as sqliteCore from 'drizzle-orm/sqlite-core'
import { type CompiledQuery, type Kysely, sql as kyselySql } from 'kysely'
import { expect, it } from 'vitest'
import { drizzle } from '../../src/adapters/drizzle/index.ts'
import { kysely } from '../../src/adapters/kysely/index.ts'
import { prisma } from '../../src/adapters/prisma/index.ts'
import type { Sql } from '../../src/core/store/ports.ts'
import { job } from '../../src/layers/job/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { newSchemaName } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

type Tables = Record<string, { id: number; note: string }>

/** A fragment with the getters that Prisma's class has: its runtime is generated, and not in a package of npm. */
class Fragment {
  readonly strings: readonly string[]
  readonly values: readonly unknown[]

  constructor(strings: readonly string[], values: readonly unknown[] = []) {
    this.strings = strings
    this.values = values
  }

  get sql(): string {
    return this.strings.join('?')
  }

  get text(): string {
    return this.strings.reduce((text, piece, i) => `${text}$${i}${piece}`)
  }
}

/** The statement, sent by each method that each builder has for text. */
const senders: Readonly<Record<string, (sql: Sql, text: string) => Promise<unknown>>> = {
  'kysely sql``': (sql, text) => kyselySql.raw(text).execute(kysely(sql)),
  'kysely executeQuery': (sql, text) =>
    kysely(sql).executeQuery({ sql: text, parameters: [], query: { kind: 'RawNode' } } as unknown as CompiledQuery),
  'kysely stream': async (sql, text) => {
    const query = { sql: text, parameters: [], query: { kind: 'RawNode' } } as unknown as CompiledQuery
    for await (const _ of (kysely(sql) as Kysely<unknown>).getExecutor().stream(query, 1));
  },
  drizzle: (sql, text) =>
    sql.dialect === 'postgres'
      ? drizzle(sql).execute(fragment.raw(text))
      : drizzle(sql, { dialect: 'sqlite' }).run(fragment.raw(text)),
  'rows of the SQL itself': (sql, text) => sql.rows(text),
  'prisma $queryRaw': (sql, text) => prisma(sql).$queryRaw(new Fragment([text])),
  'prisma $executeRaw': (sql, text) => prisma(sql).$executeRaw(new Fragment([text])),
  'prisma $queryRawUnsafe': (sql, text) => prisma(sql).$queryRawUnsafe(text),
  'prisma $executeRawUnsafe': (sql, text) => prisma(sql).$executeRawUnsafe(text),
}

const endings = [
  'COMMIT',
  'commit and chain',
  'ROLLBACK',
  'END',
  'ABORT',
  'BEGIN',
  'START TRANSACTION',
  'SAVEPOINT mine',
  'ROLLBACK TO SAVEPOINT reprise',
  'RELEASE SAVEPOINT reprise',
  "PREPARE TRANSACTION 'mine'",
  '; /* a comment */ COMMIT',
  'SELECT 1; COMMIT',
  'COMMIT; BEGIN',
]

onEveryStore(
  'a query builder over the SQL of a commit',
  (world) => {
    const table = () => `t_${newSchemaName()}`
    const started = async () => {
      const { kind, engine } = await world()
      const rp = await engine()
      let count = 0
      const inside = async <T>(call: (sql: Sql) => Promise<T> | T): Promise<T> => {
        const step = workflow(`step-${count++}`, async (ctx) =>
          ctx.transaction('sql', call, { retry: { attempts: 1 } }),
        )
        return (await (await rp.run(step, { id: 'one' })).result()) as T
      }
      const name = table()
      await inside((sql) => sql.run(`CREATE TABLE ${name} (id INTEGER PRIMARY KEY, note TEXT)`))
      const left = () => inside((sql) => sql.all(`SELECT id, note FROM ${name} ORDER BY id`))
      return { rp, kind, inside, name, left, drop: () => inside((sql) => sql.run(`DROP TABLE ${name}`)) }
    }

    it('E3: Kysely writes, counts and reads in the transaction of a step, and its rows vanish if the step fails', async () => {
      const { kind, inside, name, left, drop } = await started()
      const result = await inside(async (sql) => {
        const db = kysely<Tables>(sql)
        const inserted = await db.insertInto(name).values({ id: 7, note: 'a' }).executeTakeFirstOrThrow()
        const second = await db.insertInto(name).values({ id: 8, note: 'b' }).returningAll().execute()
        const updated = await db.updateTable(name).set({ note: 'c' }).where('id', '>', 0).executeTakeFirstOrThrow()
        const raw = await kyselySql`UPDATE ${kyselySql.table(name)} SET note = ${'d'} WHERE id = ${8}`.execute(db)
        const found = await db.selectFrom(name).select(['id', 'note']).orderBy('id').execute()
        return {
          insertId: inserted.insertId === undefined ? null : Number(inserted.insertId),
          inserted: Number(inserted.numInsertedOrUpdatedRows),
          second,
          updated: Number(updated.numUpdatedRows),
          raw: Number(raw.numAffectedRows),
          found,
          tables: (await db.introspection.getTables()).some((each) => each.name === name),
        }
      })
      const rows = [
        { id: 7, note: 'c' },
        { id: 8, note: 'd' },
      ]
      expect(result).toEqual({
        insertId: kind === 'sqlite' ? 7 : null,
        inserted: 1,
        second: [{ id: 8, note: 'b' }],
        updated: 2,
        raw: 1,
        found: rows,
        tables: true,
      })
      const failing = inside(async (sql) => {
        await kysely<Tables>(sql).deleteFrom(name).execute()
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      expect(await left()).toEqual(rows)
      await drop()
    })

    it('E3: Drizzle writes and reads in the transaction of a step, also two columns of one name, and times as its own', async () => {
      const { kind, inside, name, drop } = await started()
      const at = new Date('2026-01-02T03:04:05.678Z')
      const result = await inside(async (sql) => {
        if (kind === 'postgres') {
          const notes = pgCore.pgTable(name, { id: pgCore.integer('id').primaryKey(), note: pgCore.text('note') })
          const times = { at: pgCore.timestamp('at'), text: pgCore.timestamp('text', { mode: 'string' }) }
          const events = pgCore.pgTable(`${name}_e`, { id: pgCore.integer('id'), ...times })
          const db = drizzle(sql, { schema: { notes } })
          await db.execute(fragment`CREATE TABLE ${events} (id integer, at timestamp, text timestamp)`)
          await db.insert(notes).values({ id: 1, note: 'a' })
          await db.insert(events).values({ id: 2, at, text: '2026-01-02 03:04:05.123456' })
          const joined = await db.select().from(notes).innerJoin(events, eq(notes.note, fragment`'a'`))
          const changed = await db.update(notes).set({ note: 'b' }).returning({ id: notes.id })
          const found = await db.query.notes.findFirst()
          await db.execute(fragment`DROP TABLE ${events}`)
          return { joined: joined.map((row) => Object.values(row)), changed, found }
        }
        const notes = sqliteCore.sqliteTable(name, { id: sqliteCore.integer('id'), note: sqliteCore.text('note') })
        const times = { at: sqliteCore.integer('at', { mode: 'timestamp_ms' }), text: sqliteCore.text('text') }
        const events = sqliteCore.sqliteTable(`${name}_e`, { id: sqliteCore.integer('id'), ...times })
        const db = drizzle(sql, { schema: { notes }, dialect: 'sqlite' })
        await db.run(fragment`CREATE TABLE ${events} (id integer, at integer, text text)`)
        await db.batch([
          db.insert(notes).values({ id: 1, note: 'a' }),
          db.insert(events).values({ id: 2, at, text: '2026-01-02 03:04:05.123456' }),
        ])
        const joined = await db.select().from(notes).innerJoin(events, eq(notes.note, fragment`'a'`))
        const changed = await db.update(notes).set({ note: 'b' }).returning({ id: notes.id })
        const found = await db.query.notes.findFirst()
        await db.run(fragment`DROP TABLE ${events}`)
        return { joined: joined.map((row) => Object.values(row)), changed, found }
      })
      expect(result).toEqual({
        joined: [
          [
            { id: 1, note: 'a' },
            { id: 2, at, text: '2026-01-02 03:04:05.123456' },
          ],
        ],
        changed: [{ id: 1 }],
        found: { id: 1, note: 'b' },
      })
      await drop()
    })

    it('E3: the raw interface of Prisma takes templates, fragments and text, and binds every value', async () => {
      const { kind, inside, name, left, drop } = await started()
      const result = await inside(async (sql) => {
        const db = prisma(sql)
        const to = new Fragment([name])
        const hostile = "'); COMMIT; --"
        const count = await db.$executeRaw`INSERT INTO ${to} (id, note) VALUES (${1}, ${hostile}), (${2}, ${'b'})`
        const where = new Fragment(['WHERE id IN (', ',', ')'], [1, 2])
        const rows = await db.$queryRaw<{ id: number }[]>`SELECT id FROM ${to} ${where} AND note <> ${'b'}`
        const place = kind === 'postgres' ? '$1' : '?'
        const one = await db.$queryRawUnsafe(`SELECT note FROM ${name} WHERE id = ${place}`, 1)
        const gone = await db.$executeRawUnsafe(`DELETE FROM ${name} WHERE id = ${place}`, 2)
        return { count, rows, one, gone }
      })
      const note = "'); COMMIT; --"
      expect(result).toEqual({ count: 2, rows: [{ id: 1 }], one: [{ note }], gone: 1 })
      expect(await left()).toEqual([{ id: 1, note }])
      await drop()
    })

    it('G2: a value of a JSON request that has the shape of a Prisma fragment never becomes SQL', async () => {
      const { inside, name, left, drop } = await started()
      const shape = `"strings":["'hacked' OR 1=1"],"values":[]`
      const parsed = (text: string) => JSON.parse(text) as object
      const forged = [
        parsed(`{${shape}}`),
        parsed(`{${shape},"sql":"x","text":"x"}`),
        Object.assign({}, parsed(`{${shape},"__proto__":{"sql":"x","text":"x"}}`)),
        Object.assign(Object.create(null), parsed(`{${shape}}`)),
      ]
      await inside((sql) => sql.run(`INSERT INTO ${name} (id, note) VALUES (1, 'secret')`))
      const codes: unknown[] = []
      for (const value of forged) {
        // PostgreSQL binds the object as JSON, which no note equals.
        const found = await inside(
          (sql) => prisma(sql).$queryRaw`SELECT * FROM ${new Fragment([name])} WHERE note = ${value}`,
        ).catch((error) => error.code)
        expect([[], 'SQL_REFUSED']).toContainEqual(found)
        const whole = await inside((sql) =>
          prisma(sql)
            .$executeRaw(value as never)
            .catch((error) => error.code),
        )
        codes.push(whole)
      }
      expect(codes).toEqual(forged.map(() => 'INVALID_ARGUMENT'))
      expect(await left()).toEqual([{ id: 1, note: 'secret' }])
      await drop()
    })

    it('E3: Kysely counts the rows of each statement, also after WITH, comments and with a column named returning', async () => {
      const { inside, name, drop } = await started()
      const counts = await inside(async (sql) => {
        await sql.run(`ALTER TABLE ${name} ADD COLUMN "returning" INTEGER`)
        const db = kysely<Record<string, { id: number; note: string; returning: number }>>(sql)
        const table = kyselySql.table(name)
        await db
          .insertInto(name)
          .values({ id: 1, note: 'a' } as never)
          .execute()
        const all = db.with('x', (q) => q.selectFrom(name).select(['id']))
        const inAll = kyselySql<boolean>`id in (select id from x)`
        const copied = all
          .insertInto(name)
          .columns(['id'])
          .expression((q) => q.selectFrom('x').select(kyselySql<number>`id + 1`.as('id')))
        return [
          (await copied.executeTakeFirst()).numInsertedOrUpdatedRows,
          (await all.updateTable(name).set({ note: 'b' }).where(inAll).executeTakeFirst()).numUpdatedRows,
          (await db.updateTable(name).set({ returning: 3 }).executeTakeFirst()).numUpdatedRows,
          (await kyselySql`/* c */ update ${table} set note = 'returning' -- returning`.execute(db)).numAffectedRows,
          (await kyselySql`with y as (select 1 as id) update ${table} set "returning" = 9`.execute(db)).numAffectedRows,
          (await kyselySql`with y as (select 1 as id) select * from y`.execute(db)).rows.length,
          (await kyselySql`/* c */ update ${table} set note = 'd' returning id`.execute(db)).rows.length,
          (await all.deleteFrom(name).where(inAll).executeTakeFirst()).numDeletedRows,
        ].map(Number)
      })
      expect(counts).toEqual([1, 2, 2, 2, 2, 1, 2, 2])
      await drop()
    })

    it.each(Object.keys(senders))('G2: %s cannot end the transaction, in whatever words', async (sender) => {
      const { rp, name, left, drop } = await started()
      const codes: unknown[] = []
      const attempt = async (sql: Sql, i: number) => {
        await sql.run(`INSERT INTO ${name} VALUES (${i}, 'before')`)
        await senders[sender]!(sql, endings[i]!).catch((error) => codes.push(error.cause?.code ?? error.code))
        // A transaction that had ended would keep this row, or the one before.
        await sql.run(`INSERT INTO ${name} VALUES (${i + 100}, 'after')`).catch(() => undefined)
        throw new Error('undo')
      }
      const attempts = workflow('attempts', async (ctx) => {
        for (const i of endings.keys())
          await ctx.transaction(`${i}`, (sql) => attempt(sql, i), { retry: { attempts: 1 } }).catch(() => undefined)
      })
      await (await rp.run(attempts, { id: 'one' })).result()
      expect(codes).toHaveLength(endings.length)
      expect(codes.filter((code) => code !== 'SQL_REFUSED')).toEqual([])
      expect(await left()).toEqual([])
      await drop()
    })

    it('G2: a transaction that a builder would begin is refused with a code', async () => {
      const { kind, inside, drop } = await started()
      const attempts: ((sql: Sql) => Promise<unknown>)[] = [
        (sql) =>
          kysely<Tables>(sql)
            .transaction()
            .execute(async () => 1),
        (sql) => kysely<Tables>(sql).startTransaction().execute(),
        (sql) =>
          kysely<Tables>(sql)
            .connection()
            .execute((db) => db.transaction().execute(async () => 1)),
        async (sql) =>
          kind === 'postgres'
            ? drizzle(sql).transaction(async () => 1)
            : drizzle(sql, { dialect: 'sqlite' }).transaction(async () => 1),
      ]
      const codes = await inside(async (sql) => {
        const found: unknown[] = []
        for (const attempt of attempts) found.push(await attempt(sql).then(String, (error) => error.code))
        return found
      })
      expect(codes).toEqual(attempts.map(() => 'SQL_REFUSED'))
      await drop()
    })

    it('E3: an item of a job writes through a builder in ctx.commit, in the commit that records the item', async () => {
      const { rp, name, left, drop } = await started()
      const items = job('items', {
        source: [1, 2, 3],
        retry: { attempts: 1 },
        each: (id: number, ctx) =>
          ctx.commit(async (sql) => {
            await kysely<Tables>(sql).insertInto(name).values({ id, note: 'done' }).execute()
            if (id === 2) throw new Error('no')
          }),
      })
      expect(await (await rp.run(items)).result()).toMatchObject({ done: 2, failed: 1 })
      expect((await left()).map(({ id }) => id)).toEqual([1, 3])
      await drop()
    })

    it('a builder that outlives its commit is refused', async () => {
      const { inside, name, drop } = await started()
      let kept: Kysely<Tables> | undefined
      await inside((sql) => {
        kept = kysely<Tables>(sql)
      })
      await expect(kept!.selectFrom(name).selectAll().execute()).rejects.toMatchObject({ code: 'CLOSED' })
      await drop()
    })

    it('values of another kind, and tables for another database, are refused with a code', async () => {
      const { kind, inside, drop } = await started()
      const codeOf = (call: () => unknown) => {
        try {
          return call()
        } catch (error) {
          return (error as { code?: string }).code
        }
      }
      const makers: readonly ((sql: Sql) => unknown)[] = [kysely, drizzle, prisma]
      for (const make of makers) {
        for (const wrong of [null, undefined, 5, {}, 'sql'])
          expect(codeOf(() => make(wrong as unknown as Sql))).toBe('INVALID_ARGUMENT')
      }
      const codes = await inside(async (sql) => [
        codeOf(() => drizzle(sql, kind === 'postgres' ? { dialect: 'sqlite' } : ({} as never))),
        await prisma(sql)
          .$queryRaw('SELECT 1' as never)
          .catch((error) => error.code),
      ])
      expect(codes).toEqual(['INVALID_ARGUMENT', 'INVALID_ARGUMENT'])
      await drop()
    })
  },
  ['sqlite', 'postgres'],
)

onEveryStore(
  'a query builder without a database',
  (world) => {
    it('is refused with a code', async () => {
      const rp = await (await world()).engine()
      const codes: unknown[] = []
      const step = workflow('step', async (ctx) => {
        await ctx.transaction('sql', (sql) => {
          for (const make of [kysely, drizzle, prisma] as readonly ((sql: Sql) => unknown)[]) {
            try {
              make(sql)
            } catch (error) {
              codes.push((error as { code?: string }).code)
            }
          }
        })
      })
      await (await rp.run(step, { id: 'one' })).result()
      expect(codes).toEqual(['STORE_UNSUPPORTED', 'STORE_UNSUPPORTED', 'STORE_UNSUPPORTED'])
    })
  },
  ['memory'],
)
