// reprise/prisma: the raw interface of a Prisma client over the SQL of a commit (ctx.transaction, ctx.commit, handlers with SQL).
// Nothing of Prisma is loaded: fragments of Prisma.sql, Prisma.join and Prisma.raw are recognised by the getters of their class,
// which no value parsed from a request can have. Prisma's models have a connection of their own and cannot write in the store's
// transaction. See docs/guides/within.md.

import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/store/ports.ts'
import { sqlDialect } from '../../core/store/sql-client.ts'

/** A fragment that Prisma.sql made. A plain object of this shape is a value, and never SQL. */
export interface RawSql {
  readonly sql: string
  readonly text: string
  readonly strings: readonly string[]
  readonly values: readonly unknown[]
}

/** The raw methods of a Prisma client. A call sends its statement at once, and not when it is awaited. */
export interface PrismaRaw {
  $queryRaw<Rows = unknown>(query: TemplateStringsArray | RawSql, ...values: readonly unknown[]): Promise<Rows>
  $executeRaw(query: TemplateStringsArray | RawSql, ...values: readonly unknown[]): Promise<number>
  $queryRawUnsafe<Rows = unknown>(text: string, ...values: readonly unknown[]): Promise<Rows>
  $executeRawUnsafe(text: string, ...values: readonly unknown[]): Promise<number>
}

/**
 * @example await ctx.transaction('order', async (sql) => {
 *   await prisma(sql).$executeRaw`INSERT INTO orders (id, cents) VALUES (${order.id}, ${order.cents})`
 * })
 */
export function prisma(sql: Sql): PrismaRaw {
  const dialect = sqlDialect(sql, 'prisma')
  const compile = (query: TemplateStringsArray | RawSql, values: readonly unknown[]) =>
    compiled(fragmentOf(query, values), dialect)
  return {
    async $queryRaw<Rows>(query: TemplateStringsArray | RawSql, ...values: readonly unknown[]) {
      const { text, bound } = compile(query, values)
      return (await sql.all(text, ...bound)) as Rows
    },
    async $executeRaw(query, ...values) {
      const { text, bound } = compile(query, values)
      return (await sql.run(text, ...bound)).changes
    },
    async $queryRawUnsafe<Rows>(text: string, ...values: readonly unknown[]) {
      return (await sql.all(text, ...values)) as Rows
    },
    $executeRawUnsafe: async (text, ...values) => (await sql.run(text, ...values)).changes,
  }
}

type Pieces = Pick<RawSql, 'strings' | 'values'>

function fragmentOf(query: TemplateStringsArray | RawSql, values: readonly unknown[]): Pieces {
  if (Array.isArray(query) && 'raw' in query) return { strings: query as TemplateStringsArray, values }
  if (isFragment(query)) return query
  const what =
    '$queryRaw and $executeRaw need a tagged template or a fragment of Prisma.sql: pass text to the Unsafe methods'
  throw new RepriseError('INVALID_ARGUMENT', what)
}

/** JSON can copy the properties of a fragment, and even a `__proto__`, but no getter. */
function isFragment(value: unknown): value is RawSql {
  if (typeof value !== 'object' || value === null) return false
  const { strings, values } = value as Partial<RawSql>
  const kind = Object.getPrototypeOf(value)
  const hasGetter = (name: string) => typeof Object.getOwnPropertyDescriptor(kind ?? {}, name)?.get === 'function'
  if (!hasGetter('sql') || !hasGetter('text')) return false
  return Array.isArray(strings) && Array.isArray(values) && strings.length === values.length + 1
}

/** Fragments inside fragments become one text; every other value is bound. */
function compiled(fragment: Pieces, dialect: 'postgres' | 'sqlite') {
  const bound: unknown[] = []
  const textOf = ({ strings, values }: Pieces): string =>
    strings.reduce((text, piece, i) => text + place(values[i - 1]) + piece)
  const place = (value: unknown): string => {
    if (isFragment(value)) return textOf(value)
    bound.push(value)
    return dialect === 'postgres' ? `$${bound.length}` : '?'
  }
  return { text: textOf(fragment), bound }
}
