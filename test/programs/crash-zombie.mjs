// Owns one timeline and appends to it until it is stopped; every operation and its outcome goes to standard output
// as a line of JSON. When it is fenced it becomes a zombie that ignores the refusal: it tries
// every kind of write under its old epoch, directly at the store. One argument, as JSON:
//   where, name, id, leaseMs, skewMs, takeover, retires (a worker it declares dead once it owns the timeline)

import { writeSync } from 'node:fs'
import { packEntries } from '../../dist/core/history/entry-run.js'
import * as library from '../../dist/index.js'
import { hostOf } from '../support/host.mjs'
import { define } from './crash-model.mjs'
import { openEngine } from './crash-open.mjs'

const { where, name, id, leaseMs, skewMs, takeover = false, retires } = JSON.parse(process.argv[2])
const log = (line) => writeSync(1, `${JSON.stringify({ by: name, ...line })}\n`)
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const { plain } = define(library)
// Patient beyond the test's own limit: on a slow machine the other may be stopped inside a transaction again and again.
const rp = await openEngine(where, { lease: leaseMs, skewMs, patience: '1h', worker: name })
const { store, hash, worker } = hostOf(rp).kernel
const handle = await hostOf(rp).openTimeline(id, plain.fold, takeover ? { takeover } : { wait: '1h' })
// The engine continues under a new identity when this one is declared dead; the zombie does not.
const identity = worker.id
log({ op: 'own', epoch: handle.epoch, seq: handle.seq, worker: identity })
if (retires) await store.retire([retires])
await append()
const checkpoint = await handle.checkpoint()
log({ op: 'publish', id: checkpoint.id, epoch: handle.epoch, ok: true })

let isOwner = true
while (isOwner) {
  isOwner = await append()
  // Long beside a commit: a process that is stopped inside a transaction holds the lock, and no process can take over.
  await pause(15)
}
await haunt()
log({ op: 'done' })
// Stays, so that it is not taken for dead.
setInterval(() => undefined, 1000)

async function append() {
  const seq = handle.seq + 1
  const { epoch } = handle
  try {
    const written = await handle.write([{ type: 'n', data: { n: seq, by: name } }])
    log({ op: 'append', seq: written.first, epoch, ok: true })
    return true
  } catch (error) {
    log({ op: 'append', seq, epoch, ok: false, code: error.code })
    return false
  }
}

async function haunt() {
  const { epoch, seq, digest } = handle
  const run = packEntries(hash, { before: digest, first: seq + 1, epoch }, [
    { type: 'n', version: 1, time: Date.now(), data: new Uint8Array([1]) },
  ])
  const [head] = await store.head([id])
  const catalog = await store.checkpoints(id)
  const record = { ...catalog[0], id: `zombie-${name}`, baseId: null }
  const attempts = {
    append: { run },
    'append where the head is now': { run: { ...run, first: head.seq + 1 }, seq: head.seq, digest: head.digest },
    publish: { publish: [record] },
    mark: { marks: [{ id: catalog[0].id, invalid: 'says the zombie', isPinned: true }] },
    drop: { drop: catalog.map((each) => each.id) },
    trim: { trim: { seq: catalog[0].seq, digest: catalog[0].digest, restsOn: [catalog[0].id] } },
    release: { release: true },
    wakeup: { wakeup: 1, status: 'haunted', attributes: { haunted: true }, queue: 'crypt' },
    cursor: { cursors: { zombie: '' } },
    send: { send: [{ id: 'boo', to: id, kind: 'boo', data: new Uint8Array([1]) }] },
    branch: { branch: { archive: `${id}~zombie`, seq, digest, floor: { seq: head.floor, digest: head.floorDigest } } },
    take: { take: { worker: identity, from: 'anyone' } },
    forget: { forget: true },
  }
  for (const [op, { seq: at = seq, digest: expected = digest, ...what }] of Object.entries(attempts)) {
    const whole = what.run || what.forget ? { seq: at, digest: expected } : {}
    const guard = { timeline: id, epoch, ...whole, ...(what.forget && { life: head.life }) }
    const [outcome] = await store.commit([{ operation: `${name}-${op}`, guard, ...what }])
    log({ op: `zombie ${op}`, epoch, ok: outcome.ok, code: outcome.code })
  }
  await tryOnHandle('checkpoint', () => handle.checkpoint())
  await tryOnHandle('write', () => handle.write([{ type: 'n', data: { n: 0 } }]))
  const beat = await store.beat({ id: identity, name, host: 'h', process: 'p', leaseMs, info: {}, progress: 0 })
  log({ op: 'beat', ok: beat.ok })
  // Collecting is for anyone, under the epoch of now: it must do no harm.
  await rp.collect()
  log({ op: 'collect', ok: true })
}

async function tryOnHandle(op, act) {
  try {
    await act()
    log({ op: `zombie handle ${op}`, ok: true })
  } catch (error) {
    log({ op: `zombie handle ${op}`, ok: false, code: error.code })
  }
}
