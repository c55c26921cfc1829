// An application of test/within/kill.test.ts: transactions with an order, a start, a message and an item of a job each, until it
// is killed.
// Arguments: the store's URL, and a name for its orders.

import { DatabaseSync } from '@photostructure/sqlite'
import pg from 'pg'

const [, , url, name] = process.argv

const itemOf = (id) => JSON.stringify({ type: 'item', item: id })

async function connect() {
  if (url.startsWith('sqlite:')) {
    const db = new DatabaseSync(url.slice('sqlite:'.length))
    db.exec('PRAGMA busy_timeout = 20000')
    const request = 'INSERT INTO reprise_request (verb, target, id, topic, data) VALUES (?, ?, ?, ?, ?)'
    return {
      begin: 'BEGIN IMMEDIATE',
      run: async (text) => db.exec(text),
      start: async (id) => db.prepare(request).run('start', 'workflow/order', id, null, JSON.stringify(id)),
      send: async (id) => db.prepare(request).run('send', 'mail', 'inbox/orders', 'ordered', JSON.stringify(id)),
      add: async (id) => db.prepare(request).run('send', 'timeline/mails', 'mails/items', 'append', itemOf(id)),
    }
  }
  const plain = new URL(url)
  const schema = plain.searchParams.get('schema')
  plain.searchParams.delete('schema')
  const client = new pg.Client(plain.href)
  await client.connect()
  return {
    begin: 'BEGIN',
    run: (text) => client.query(text.replace('orders_of_kill', `"${schema}_orders"`)),
    start: (id) => client.query(`SELECT "${schema}".start('order', $1, id => $2)`, [JSON.stringify(id), id]),
    send: (id) => client.query(`SELECT "${schema}".send('inbox/orders', 'ordered', $1)`, [JSON.stringify(id)]),
    add: (id) => client.query(`SELECT "${schema}".send('mails/items', 'append', $1)`, [itemOf(id)]),
  }
}

const db = await connect()
process.send?.('writing')
for (let n = 0; ; n++) {
  const id = `${name}-${n}`
  await db.run(db.begin)
  await db.run(`INSERT INTO orders_of_kill VALUES ('${id}')`)
  await db.start(id)
  await db.send(id)
  await db.add(id)
  await db.run(n % 4 === 3 ? 'ROLLBACK' : 'COMMIT')
  await new Promise((resolve) => setTimeout(resolve, 8))
}
