// Starts, signals, messages and cancellations that an application writes with plain SQL, in a transaction of its own: they happen
// once if it commits, and never if it does not (docs/decisions/within.md).

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { type Application, application } from './database.ts'

const checkout = workflow('checkout', async (ctx, order: { cents: number }) => {
  const paid = await ctx.signal('paid')
  return { cents: order.cents, paid }
})
const note = workflow('note', async (_ctx, text: string) => text)

/** The statements of a migration: a run for each present row of a table, and a trigger for the later ones. */
function migrationOf(kind: string, schema: string): readonly string[] {
  if (kind === 'sqlite') {
    const insert = (values: string) => `INSERT INTO reprise_request (verb, target, id, data) ${values}`
    return [
      insert(`SELECT 'start', 'workflow/note', id, json_quote(id) FROM orders_of_sql_test`),
      `CREATE TRIGGER begin_run AFTER INSERT ON orders_of_sql_test BEGIN
         ${insert(`VALUES ('start', 'workflow/note', NEW.id, json_quote(NEW.id))`)}; END`,
    ]
  }
  return [
    `SELECT "${schema}".start('note', to_jsonb(id), id => id) FROM orders_of_sql_test`,
    `CREATE FUNCTION "${schema}_begin"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       PERFORM "${schema}".start('note', to_jsonb(NEW.id), id => NEW.id); RETURN NEW; END $$`,
    `CREATE TRIGGER begin_run AFTER INSERT ON orders_of_sql_test FOR EACH ROW EXECUTE FUNCTION "${schema}_begin"()`,
  ]
}

describe.each(Object.keys(storeUrls))('requests of an application in SQL (%s)', (kind) => {
  let store: StoreUrl
  let rp: Reprise
  let app: Application
  beforeEach(async () => {
    store = storeUrls[kind]!()
    rp = await open(store.url)
    app = await application(store.url)
    await app.run('CREATE TABLE orders_of_sql_test (id TEXT)').catch(() => undefined)
  })
  afterEach(async () => {
    await app.run('DROP TABLE IF EXISTS orders_of_sql_test')
    await app.close()
    await rp.close()
    await store.remove()
  })

  const runs = async (of: typeof checkout | typeof note) =>
    (await hostOf(rp).list({ prefix: of.prefix })).map(({ timeline }) => timeline.slice(of.prefix.length)).sort()
  const requests = () => hostOf(rp).kernel.store.requests!.list({ limit: 100 })
  const transaction = async (work: () => Promise<void>, end: 'COMMIT' | 'ROLLBACK') => {
    await app.run('BEGIN')
    await work()
    await app.run(end)
  }

  it('E3: a start, a signal and a cancellation happen if the transaction commits, in its order', async () => {
    rp.work([checkout])
    await transaction(async () => {
      await app.run(`INSERT INTO orders_of_sql_test VALUES ('order-7')`)
      await app.start('checkout', 'order-7', { cents: 500 })
      await app.signal('checkout', 'order-7', 'paid', { by: 'card' })
      await app.start('checkout', 'order-8', { cents: 9 })
      await app.cancel('checkout', 'order-8')
    }, 'COMMIT')
    const started = workflows(rp).of(checkout)
    await until(async () => (await runs(checkout)).length === 2)
    expect(await started.get('order-7').result()).toEqual({ cents: 500, paid: { by: 'card' } })
    await expect(started.get('order-8').result()).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(await requests()).toEqual([])
  })

  it('E3: nothing of a transaction that is rolled back is ever seen, nor of a savepoint', async () => {
    rp.work([note])
    await transaction(() => app.start('note', 'gone', 'gone') as Promise<never>, 'ROLLBACK')
    await transaction(async () => {
      await app.start('note', 'kept', 'kept')
      await app.run('SAVEPOINT s')
      await app.start('note', 'undone', 'undone')
      await app.run('ROLLBACK TO s')
      await app.start('note', 'last', 'last')
    }, 'COMMIT')
    await until(async () => (await runs(note)).includes('last') && (await requests()).length === 0)
    expect(await runs(note)).toEqual(['kept', 'last'])
  })

  it('E3: a migration starts a run for each row that it finds, and its trigger one for each new row', async () => {
    rp.work([note])
    await app.run(`INSERT INTO orders_of_sql_test VALUES ('a'), ('b')`)
    const migrate = async () => {
      for (const text of migrationOf(kind, app.schema)) await app.run(text)
    }
    await transaction(migrate, 'ROLLBACK')
    await transaction(migrate, 'COMMIT')
    const insert = (id: string) => async () => void (await app.run(`INSERT INTO orders_of_sql_test VALUES ('${id}')`))
    await transaction(insert('gone'), 'ROLLBACK')
    await transaction(insert('c'), 'COMMIT')
    await until(async () => (await runs(note)).includes('c') && (await requests()).length === 0)
    expect(await runs(note)).toEqual(['a', 'b', 'c'])
    expect(await workflows(rp).of(note).get('c').result()).toBe('c')
    if (kind === 'postgres') await app.run(`DROP FUNCTION "${app.schema}_begin" CASCADE`)
  })

  it('E3: requests wait until a process knows the definition, and other requests pass them', async () => {
    rp.work([note])
    await app.start('checkout', 'early', { cents: 1 })
    await app.start('note', 'later', 'x')
    await until(async () => (await runs(note)).length === 1)
    expect((await requests()).map(({ id }) => id)).toEqual(['early'])
    rp.work([checkout])
    await until(async () => (await runs(checkout)).length === 1)
  })

  it('E3: a request that cannot be carried out is kept with its reason, and the next ones of its transaction happen', async () => {
    rp.work([note])
    const ended = await rp.run(note, 'first', { id: 'twice' })
    await ended.result()
    await transaction(async () => {
      await app.start('note', 'twice', 'another input')
      await app.signal('note', 'twice', 'late', 1)
      await app.start('note', 'twice', 'first')
      await app.start('note', 'fine', 'fine')
    }, 'COMMIT')
    await until(async () => (await runs(note)).includes('fine') && (await requests()).length === 2)
    expect((await requests()).map(({ problem }) => problem)).toEqual([
      expect.stringContaining('with different input'),
      expect.stringContaining('[ENDED]'),
    ])
  })

  it.each([
    ['a name that no definition can have', { name: '' }, /name/],
    ['a control character in the id', { id: 'a\u0007b' }, /control character/],
    ['a control character in the key', { key: 'a\u0007b' }, /control character/],
    ['options that are no object', { options: '5' }, /must be a JSON object/],
    ['an unknown option', { options: '{"prioritty": 1}' }, /prioritty/],
  ])('E3: a start with %s never starts, and its reason is shown', async (_, given, reason) => {
    const { name = 'note', id = 'x', key, options } = given as Record<string, string | undefined>
    const starting = app.startWith(name, id, 'text', { key, options })
    if (kind === 'postgres') {
      await expect(starting).rejects.toThrow(reason)
      return
    }
    // SQLite has no function to call: the worker refuses the row, which is kept. A name without a definition waits for one.
    await starting
    rp.work([note])
    if (name === '') {
      await app.start('note', 'after', 'text')
      await until(async () => (await runs(note)).includes('after'))
      expect((await requests()).map(({ target }) => target)).toEqual(['workflow/'])
      return
    }
    await until(async () => (await requests()).some(({ problem }) => problem !== null))
    expect((await requests()).map(({ problem }) => problem)).toEqual([expect.stringMatching(reason)])
    expect(await runs(note)).toEqual([])
  })

  it('E3: a number that JavaScript would change is kept with its reason, and nothing starts', async () => {
    const data = '{"order": 9007199254740993}'
    await app.run(
      kind === 'postgres'
        ? `SELECT "${app.schema}".start('note', '${data}'::jsonb, id => 'big')`
        : `INSERT INTO reprise_request (verb, target, id, data) VALUES ('start', 'workflow/note', 'big', '${data}')`,
    )
    rp.work([note])
    await until(async () => (await requests()).some(({ problem }) => problem !== null))
    expect((await requests()).map(({ problem }) => problem)).toEqual([expect.stringContaining('9007199254740993')])
    expect(await runs(note)).toEqual([])
  })

  it('E3: a message reaches the inbox of a timeline once per key', async () => {
    rp.work([note])
    const counter = timeline('counter', {
      initial: () => 0,
      apply: (n: number, e: { type: 'added' }) => n + e.type.length,
    })
    const open = await rp.open(counter, 'visits')
    await app.send('counter/visits', 'hello', { n: 1 }, 'k')
    await app.send('counter/visits', 'hello', { n: 2 }, 'k')
    await app.send('counter/visits', 'bye', null)
    const inbox = async () => (await hostOf(rp).inbox('counter/visits' as never, 10)).messages
    await until(async () => (await requests()).length === 0)
    expect((await inbox()).map(({ kind, id }) => [kind, id === 'k'])).toEqual([
      ['hello', true],
      ['bye', false],
    ])
    expect((await inbox()).map((message) => hostOf(rp).openMessage(message))).toEqual([{ n: 1 }, null])
    await open.close()
  })

  it('E3: a notification of the request travels with the transaction', async () => {
    const heard: (boolean | undefined)[] = []
    const stop = hostOf(rp).kernel.store.listen((_, mayHaveRequests) => heard.push(mayHaveRequests))
    const requested = () => heard.filter((each) => each === true).length
    // The listener may still be connecting: then another commit is heard.
    await until(async () => {
      await transaction(() => app.start('note', 'told', 'text').then(() => undefined), 'COMMIT')
      return requested() > 0
    })
    stop()
  })

  it('E3: a request whose notification is lost is found by polling', async () => {
    const { store: port } = hostOf(rp).kernel
    port.listen = () => () => undefined
    rp.work([note])
    await until(async () => hostOf(rp).requests.failure === null && !hostOf(rp).requests.isDraining)
    if (kind === 'postgres') await app.run('SET reprise.notify = off')
    await app.start('note', 'quiet', 'found')
    await until(async () => (await runs(note)).length === 1)
    expect(await workflows(rp).of(note).get('quiet').result()).toBe('found')
  })

  it('E3: a request of a newer release is kept with its problem, waits again after a redrive, and holds back no other', async () => {
    const pause = (id: string) =>
      kind === 'sqlite'
        ? app.run(`INSERT INTO reprise_request (verb, target, id) VALUES ('pause', 'workflow/note', '${id}')`)
        : app.run(
            `SELECT "${app.schema}".enlist('default', 'pause', 'workflow/note', '${id}', NULL, NULL, NULL, NULL, NULL, NULL)`,
          )
    // A file that no newer release has opened refuses the row in the transaction of its sender.
    if (kind === 'sqlite') {
      await expect(pause('n')).rejects.toThrow('CHECK constraint failed: verb')
      return
    }
    await transaction(async () => {
      await pause('n')
      await app.start('note', 'n', 'text')
    }, 'COMMIT')
    rp.work([note])
    const refused = async () => (await requests()).filter(({ problem }) => problem !== null)
    await until(async () => (await refused()).length === 1 && (await runs(note)).length === 1)
    const [request] = await refused()
    expect(request).toMatchObject({ verb: 'pause', problem: expect.stringContaining('no requests of the kind pause') })
    // The worker of the newer release can read it.
    await rp.close()
    rp = await open(store.url)
    const known: string[] = []
    hostOf(rp).requests.serve('workflow/note', async ({ verb, id }) => {
      known.push(`${verb} ${id}`)
      return 'done before'
    })
    await hostOf(rp).requests.mark(request!.number, null)
    hostOf(rp).requests.wake()
    await until(async () => (await requests()).length === 0)
    expect(known).toEqual(['pause n'])
  })

  it('E3: two processes carry out each request once', async () => {
    const other = await open(store.url)
    try {
      rp.work([note])
      other.work([note])
      const ids = Array.from({ length: 60 }, (_, i) => `n${String(i).padStart(2, '0')}`)
      for (const id of ids) await app.start('note', id, id)
      await until(async () => (await requests()).length === 0)
      expect(await runs(note)).toEqual(ids)
      for (const id of ids) expect(await workflows(rp).of(note).get(id).result()).toBe(id)
    } finally {
      await other.close()
    }
  })
})
