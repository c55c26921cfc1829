// A process that executes one command at a time, and is idle in between. A command is a line of JSON, [operation,
// ...arguments]; so is the answer, { ok: true, value } or { ok: false, code }. One argument: the SQLite file.

import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { timeline } from '../../dist/index.js'
import { hostOf } from '../support/host.mjs'
import { openEngine } from './crash-open.mjs'

const initial = () => ({ total: 0 })
const apply = (state, { by }) => ({ total: state.total + by })
const definitions = {
  plain: timeline('plain', { initial, apply }),
  /** Checkpoints often and keeps no more history than they need: the floor rises. */
  frugal: timeline('frugal', {
    initial,
    apply,
    checkpoint: { every: 5 },
    retain: { checkpoints: 2, history: 'needed' },
  }),
}
const file = JSON.parse(process.argv[2])
// Nothing but the commands may write: a heartbeat would have a look at the file.
const rp = await openEngine({ kind: 'sqlite', file }, { lease: '1h', patience: '20s' })
const handles = new Map()

const operations = {
  /** Opens it, which makes it ours. */
  async open(kind, id, options = {}) {
    const handle = await rp.open(definitions[kind], id, options)
    handles.set(`${kind}/${id}`, handle)
    return handle.coordinate.seq
  },
  async append(name, count) {
    const handle = handles.get(name)
    for (let i = 0; i < count; i++) await handle.append({ type: 'added', by: 1 })
    return handle.coordinate.seq
  },
  close: (name) => handles.get(name).close(),
  collect: () => rp.collect().then(() => null),
  tidy: () => hostOf(rp).kernel.store.upkeep.tidy(Date.now() - 1000),
  rollback: (name, seq) => rp.rollback({ to: { timeline: name, seq }, takeover: true }).then(() => null),
  async forget(name) {
    const head = await rp.head(name)
    const { life, epoch, seq, digest } = head
    const guard = { timeline: name, life, epoch, seq, digest }
    const [outcome] = await hostOf(rp).kernel.store.commit([{ operation: `forget ${name}`, guard, forget: true }])
    return outcome.ok
  },
  async savepoint(name) {
    const made = await rp.savepoint({ timeline: name, seq: handles.get(name).coordinate.seq }, { label: 'kept' })
    await handles.get(name).append({ type: 'added', by: 1 })
    await rp.release(name, made.id)
    return made.id
  },
  /** The durable state, as another process reads it. */
  async look(name) {
    const head = await rp.head(name)
    let fed = 0
    for (let after = '', isEnd = false; !isEnd; ) {
      const page = await hostOf(rp).kernel.store.feed(after, { prefixes: [name] }, 100)
      for (const { run } of page.items) fed += run.count
      ;({ next: after, isEnd } = page)
    }
    const { faults } = await rp.verify()
    return { seq: head?.seq ?? null, epoch: head?.epoch ?? null, fed, faults }
  },
}

const answer = (line) => writeSync(1, `${JSON.stringify(line)}\n`)
answer({ ok: true, value: 'ready' })
for await (const line of createInterface({ input: process.stdin })) {
  const [operation, ...given] = JSON.parse(line)
  try {
    answer({ ok: true, value: (await operations[operation](...given)) ?? null })
  } catch (error) {
    answer({ ok: false, code: error.code ?? error.message })
  }
}
await rp.close()
