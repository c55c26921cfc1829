// An open that fails closes every connection that it made: a remaining lock would block a repair.

import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { temporaryFolder } from '../../../test/support/fixture.ts'
import { hash } from '../../testing/conformance/kit.ts'
import { type Driver, loadDriver } from './file/driver.ts'
import { openSqlite } from './index.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = temporaryFolder('failed')
  file = join(folder, 'store.db')
})

/** Counts open connections; statements that match `fails` throw. */
async function counting(fails: RegExp): Promise<{ readonly driver: Driver; readonly count: { open: number } }> {
  const real = await loadDriver()
  const count = { open: 0 }
  const driver: Driver = {
    name: real.name,
    open(path, options) {
      const database = real.open(path, options)
      count.open += 1
      const refuse = (sql: string) => {
        if (fails.test(sql)) throw new Error(`refused: ${sql}`)
      }
      return new Proxy(database, {
        get(held, property) {
          const member: unknown = Reflect.get(held, property, held)
          if (typeof member !== 'function') return member
          return (...args: unknown[]) => {
            if (property === 'close') count.open -= 1
            if (property === 'exec' || property === 'prepare') refuse(String(args[0]))
            return Reflect.apply(member, held, args)
          }
        },
      })
    },
  }
  return { driver, count }
}

it('whatever statement fails, no connection stays open', async () => {
  await (await openSqlite(file, { namespace: 'a', hash })).close()
  const said: string[] = []
  const watching = await counting(/$^/)
  const spied: Driver = {
    ...watching.driver,
    open: (path, options) => {
      const database = watching.driver.open(path, options)
      return new Proxy(database, {
        get(held, property) {
          const member: unknown = Reflect.get(held, property, held)
          if (typeof member !== 'function') return member
          return (...args: unknown[]) => {
            if (property === 'exec' || property === 'prepare') said.push(String(args[0]))
            return Reflect.apply(member, held, args)
          }
        },
      })
    },
  }
  for (const readOnly of [false, true]) {
    said.length = 0
    await (await openSqlite(file, { namespace: 'a', hash, readOnly, driver: spied })).close()
    for (const sql of new Set(said)) {
      const exactly = new RegExp(`^${sql.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`)
      const { driver, count } = await counting(exactly)
      const opened = await openSqlite(file, { namespace: 'a', hash, readOnly, driver, busyMs: 1 }).catch(() => null)
      await opened?.close().catch(() => undefined)
      expect([readOnly, sql, count.open]).toEqual([readOnly, sql, 0])
    }
  }
  expect(watching.count.open).toBe(0)
})
