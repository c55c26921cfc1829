// A store with every model, in forms that old versions can write as well: its content, its permanent answers, and its
// continuation. `m` is the package of that version, entry by entry.

const text = (length, salt) => {
  let out = ''
  for (let i = 0; out.length < length; i++) out += `${salt} ${(i * 2654435761) >>> 0};`
  return out.slice(0, length)
}

/** Without a stack: a kept store must not contain the place where it was made. */
const failure = (message) => Object.assign(new Error(message), { stack: `Error: ${message}` })

export function define(m) {
  const notes = m.timeline('notes', {
    initial: () => ({ last: 0, sum: 0 }),
    apply: (state, entry) => ({ last: entry.n, sum: state.sum + entry.n }),
    checkpoint: { every: 10 },
  })
  const account = m.aggregate('account', {
    initial: () => ({ balance: 0, texts: [] }),
    evolve: { moved: (s, e) => ({ balance: s.balance + e.by, texts: [...s.texts.slice(-3), e.text] }) },
    decide: { move: (_s, c) => ({ type: 'moved', by: c.by, text: c.text }) },
    checkpoint: { every: 8 },
  })
  const totals = m.projection('totals', {
    from: [account],
    initial: () => ({ sum: 0, count: 0 }),
    on: { moved: (s, e) => ({ sum: s.sum + e.by, count: s.count + 1 }) },
    checkpoint: { every: 8 },
  })
  const rows = m.table('rows', { checkpoint: { every: 6 } })
  const paged = m.pagedTable('paged', { cacheBytes: 20_000, changedRows: 100 })
  const shards = m.stateStore('shards', { partitions: 2 })
  const weights = m.save('weights', { keep: 2 })
  const trip = m.workflow('trip', async (ctx, input) => {
    const hotel = await ctx.step('hotel', () => `${input.to} hotel`, { compensate: () => undefined })
    const decision = await ctx.signal('decision')
    const flight = await ctx.step('flight', () => `${input.to} flight ${decision}`)
    return [hotel, flight]
  })
  const saga = m.workflow('saga', async (ctx) => {
    await ctx.step('a', () => 1, { compensate: () => undefined })
    await ctx.step('b', () => 2, { compensate: () => undefined })
    throw failure('no room')
  })
  const letters = m.job('letters', {
    source: Array.from({ length: 20 }, (_, i) => ({ id: `l${i}` })),
    key: (item) => item.id,
    retry: { attempts: 1 },
    each: (item) => {
      if (item.id === 'l7') throw failure('returned to sender')
    },
  })
  const guide = m.agent('guide', {
    model: ({ messages }) =>
      messages.at(-1).role === 'tool'
        ? { content: `booked ${messages.length}` }
        : { content: '', requests: [{ tool: 'book', args: { n: messages.length } }] },
    tools: {
      book: m.tool({ kind: 'compensatable', run: (args) => ({ booked: args.n }), compensate: () => undefined }),
    },
    checkpoint: { every: 5 },
  })
  return { notes, account, totals, rows, paged, shards, weights, trip, saga, letters, guide }
}

export async function fill(rp, d) {
  const note = await rp.open(d.notes, 'a')
  for (let n = 1; n <= 45; n++) await note.append({ type: 'noted', n })
  await note.close()
  await rp.fork({ timeline: 'notes/a', seq: 17 }, 'notes/forked')
  await rp.rollback({ to: { timeline: 'notes/a', seq: 40 } })
  await rp.savepoint({ timeline: 'notes/a', seq: 40 }, { label: 'kept' })
  await rp.send('notes/a', 'letter', { says: 'unread', at: new Date(0) }, { key: 'one' })

  rp.work([d.totals])
  for (const id of ['ann', 'bob']) {
    const account = await rp.open(d.account, id)
    for (let i = 1; i <= 25; i++) await account.do('move', { by: i, text: text(120, `${id}${i}`) })
  }
  const rows = await rp.open(d.rows)
  for (let n = 0; n < 12; n++) {
    await rows.transaction((tx) => {
      for (let i = 0; i < 30; i++) tx.set(`k${(n * 7 + i * 3) % 200}`, { n, i, text: text(60, `${n}.${i}`) })
      if (n % 3 === 2) tx.delete(`k${n}`)
    })
  }
  const paged = await rp.open(d.paged)
  for (let n = 0; n < 10; n++) {
    await paged.transaction(async (tx) => {
      for (let i = 0; i < 60; i++) tx.set(`p${(n * 41 + i * 7) % 500}`, { n, text: text(40, `${n} ${i}`) })
    })
  }
  const shards = await rp.open(d.shards)
  for (let i = 0; i < 40; i++) await shards.set(`s${i}`, { i })
  const weights = await rp.open(d.weights)
  for (let n = 1; n <= 4; n++) await weights.put({ n, layers: [text(9000, 'same'), text(3000, `layer ${n}`)] })

  rp.work([d.trip, d.saga])
  const waiting = await rp.run(d.trip, { to: 'Oslo' }, { id: 'waiting' })
  const ended = await rp.run(d.trip, { to: 'Rome' }, { id: 'ended' })
  await ended.signal('decision', 'now')
  await ended.result()
  await (await rp.run(d.saga, undefined, { id: 'undone' })).result().catch(() => undefined)
  while ((await rp.head(waiting.timeline)).status !== 'waiting') await new Promise((ready) => setTimeout(ready, 10))

  await (await rp.run(d.letters)).result().catch(() => undefined)
  const guide = await rp.open(d.guide, 'ann')
  for (const input of ['one', 'two', 'three']) await guide.turn(input)
  await guide.rollback({ to: 2 })
  while ((await (await rp.open(d.totals)).state).count !== 50) await new Promise((ready) => setTimeout(ready, 10))
}

/** Permanent, in every version. */
export async function ask(rp, d) {
  const answers = {}
  const past = async (name, definition, id, seq) => {
    answers[name] = (await rp.at(definition, id, { seq })).state
  }
  await past('notes at 40', d.notes, 'a', 40)
  await past('notes at 33', d.notes, 'a', 33)
  await past('forked notes', d.notes, 'forked', 17)
  // Earlier versions had no host behind the engine: the engine itself was it.
  const host = rp[Symbol.for('reprise.host')] ?? rp
  const { messages } = await host.kernel.store.inbox('notes/a', 10)
  answers.mail = messages.map((one) => [one.kind, host.openMessage(one)])
  for (const id of ['ann', 'bob']) answers[`account ${id}`] = (await rp.open(d.account, id)).state
  answers.totals = await (await rp.open(d.totals)).state
  answers.rows = [...(await rp.open(d.rows)).entries()]
  const paged = await rp.open(d.paged)
  answers.paged = []
  for (let i = 0; i < 500; i += 9) answers.paged.push([`p${i}`, (await paged.get(`p${i}`)) ?? null])
  const shards = await rp.open(d.shards)
  answers.shards = []
  for (let i = 0; i < 40; i++) answers.shards.push((await shards.get(`s${i}`)) ?? null)
  const weights = await rp.open(d.weights)
  answers.weights = (await weights.latest()).value
  for (const [workflow, id] of [
    [d.trip, 'waiting'],
    [d.trip, 'ended'],
    [d.saga, 'undone'],
  ]) {
    const head = await rp.head(`${workflow.prefix}${id}`)
    answers[`workflow ${id}`] = [head.status, head.seq]
  }
  const guide = await rp.open(d.guide, 'ann')
  answers.guide = [guide.state.turn, guide.messages.map(({ role, content }) => [role, content])]
  answers.heads = []
  for await (const { timeline, seq, status, floor } of rp.each()) {
    if (timeline.startsWith('reprise/')) continue
    answers.heads.push([timeline, seq, status, floor])
  }
  return JSON.parse(JSON.stringify(answers))
}

/** Each of them is written, and does its waiting work. */
export async function goOn(rp, d) {
  const note = await rp.open(d.notes, 'a')
  await note.append({ type: 'noted', n: 1000 })
  const { state: after } = note
  const account = await rp.open(d.account, 'ann')
  await account.do('move', { by: 1000, text: 'later' })
  const rows = await rp.open(d.rows)
  await rows.set('later', { n: 1 })
  const paged = await rp.open(d.paged)
  await paged.set('later', { n: 1 })
  const shards = await rp.open(d.shards)
  await shards.set('later', { i: 1000 })
  const weights = await rp.open(d.weights)
  await weights.put({ n: 5, layers: [] })
  rp.work([d.trip])
  const run = await rp.run(d.trip, { to: 'Oslo' }, { id: 'waiting' })
  await run.signal('decision', 'later')
  const guide = await rp.open(d.guide, 'ann')
  await guide.turn('four')
  const report = await (await rp.run(d.letters)).result().catch((error) => error)
  return {
    notes: after.last,
    account: account.state.balance,
    rows: rows.get('later'),
    paged: await paged.get('later'),
    shards: await shards.get('later'),
    weights: (await weights.latest()).value.n,
    trip: await run.result(),
    turn: guide.state.turn,
    letters: report.skipped,
  }
}
