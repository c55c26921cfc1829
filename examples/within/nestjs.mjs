// NestJS: a module provides the engine and TypeORM's DataSource, and a service writes an order and its run in one transaction.
// The decorators are called as functions, since this file is plain JavaScript; docs/guides/within.md shows them in TypeScript.

import 'reflect-metadata'
import { Inject, Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { within } from 'reprise/within'
import { DataSource, EntitySchema } from 'typeorm'
import { checkout } from './shop.mjs'

const Order = new EntitySchema({
  name: 'Order',
  tableName: 'orders',
  columns: { id: { type: 'text', primary: true }, cents: { type: 'int' } },
})

class OrderService {
  constructor(source, rp) {
    this.source = source
    this.rp = rp
  }

  place(order) {
    return this.source.transaction(async (manager) => {
      await manager.insert(Order, order)
      return await within(this.rp, manager).run(checkout, order, { id: order.id })
    })
  }
}
Injectable()(OrderService)
Inject(DataSource)(OrderService, undefined, 0)
Inject('REPRISE')(OrderService, undefined, 1)

function orderModule(rp, url) {
  class OrderModule {}
  const connect = () => new DataSource({ type: 'postgres', url, entities: [Order] }).initialize()
  const providers = [{ provide: 'REPRISE', useValue: rp }, { provide: DataSource, useFactory: connect }, OrderService]
  Module({ providers })(OrderModule)
  return OrderModule
}

export default async function order(rp, url, { id, cents }) {
  const app = await NestFactory.createApplicationContext(orderModule(rp, url), { logger: false })
  try {
    return await app.get(OrderService).place({ id, cents })
  } finally {
    await app.get(DataSource).destroy()
    await app.close()
  }
}
