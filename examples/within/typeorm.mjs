// TypeORM: the EntityManager that transaction() passes to its function, or a QueryRunner with an open transaction.

import { within } from 'reprise/within'
import { DataSource, EntitySchema } from 'typeorm'
import { checkout } from './shop.mjs'

const Order = new EntitySchema({
  name: 'Order',
  tableName: 'orders',
  columns: { id: { type: 'text', primary: true }, cents: { type: 'int' } },
})

export default async function order(rp, url, { id, cents }) {
  const source = await new DataSource({ type: 'postgres', url, entities: [Order] }).initialize()
  try {
    return await source.transaction(async (manager) => {
      await manager.insert(Order, { id, cents })
      return await within(rp, manager).run(checkout, { id, cents }, { id })
    })
  } finally {
    await source.destroy()
  }
}
