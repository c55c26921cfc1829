// reprise/prisma: the raw interface of a Prisma client over the SQL of a commit (ctx.transaction, ctx.commit, handlers with SQL).
// Nothing of Prisma is loaded: fragments of Prisma.sql, Prisma.join and Prisma.raw are recognised by their shape. Prisma's models
// have a connection of their own and cannot write in the store's transaction. See docs/guides/within.md.

import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/store/ports.ts'
import { sqlDialect } from '../../core/store/sql-client.ts'

/** A fragment that Prisma.sql made. */
export interface RawSql {
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

function fragmentOf(query: TemplateStringsArray | RawSql, values: readonly unknown[]): RawSql {
  if (Array.isArray(query) && 'raw' in query) return { strings: query as TemplateStringsArray, values }
  if (isFragment(query)) return query
  const what =
    '$queryRaw and $executeRaw need a tagged template or a fragment of Prisma.sql: pass text to the Unsafe methods'
  throw new RepriseError('INVALID_ARGUMENT', what)
}

function isFragment(value: unknown): value is RawSql {
  const { strings, values } = (value ?? {}) as Partial<RawSql>
  return Array.isArray(strings) && Array.isArray(values) && strings.length === values.length + 1
}

/** Fragments inside fragments become one text; every other value is bound. */
function compiled(fragment: RawSql, dialect: 'postgres' | 'sqlite') {
  const bound: unknown[] = []
  const textOf = ({ strings, values }: RawSql): string =>
    strings.reduce((text, piece, i) => text + place(values[i - 1]) + piece)
  const place = (value: unknown): string => {
    if (isFragment(value)) return textOf(value)
    bound.push(value)
    return dialect === 'postgres' ? `$${bound.length}` : '?'
  }
  return { text: textOf(fragment), bound }
}
