// Appends numbered entries until it has appended enough or is killed, and prints `ACK <timeline> <n>` for each one that was
// acknowledged. One argument, as JSON:
//   where    see crash-open.mjs
//   ids      timelines: 'plain/a', 'ledger/b', 'shelf/c' …
//   lanes    appends that each timeline has in progress at a time (1: one after the other)
//   count    entries per timeline; default: until killed
//   every    entries between two checkpoints
//   moveLog  move SQLite's write-ahead log into the file after each so many entries of the first timeline
//   collect  collect garbage after each so many entries of the first timeline
// It ends by a crash of its own (no close) unless `close` is set: a file that was closed has nothing to recover.

import { writeSync } from 'node:fs'
import * as library from '../../dist/index.js'
import { define, entry } from './crash-model.mjs'
import { openEngine } from './crash-open.mjs'

const {
  where,
  ids,
  lanes = 1,
  count = Number.POSITIVE_INFINITY,
  every,
  collect,
  moveLog,
  close,
  engine = {},
} = JSON.parse(process.argv[2])
const say = (line) => writeSync(1, `${line}\n`)

const definitions = define(library, every === undefined ? {} : { every })
const rp = await openEngine(where, engine)
rp.events.on('store-retry', () => say('RETRY'))
rp.events.on('checkpoint-failed', ({ error }) => say(`PROBLEM checkpoint ${error.code ?? error}`))

await Promise.all(ids.map((id, index) => work(id, index === 0)))
if (close) await rp.close()
say('END')
process.exit(0)

async function work(id, isFirst) {
  const [kind, name] = id.split('/')
  const handle = await rp.open(definitions[kind], name, { wait: '20s' })
  say(`OPEN ${id} ${handle.state.last}`)
  let made = 0
  let n = handle.state.last
  const lane = async () => {
    while (made < count) {
      made += 1
      n += 1
      const mine = n
      await handle.append(entry(mine))
      say(`ACK ${id} ${mine}`)
      if (isFirst && collect && mine % collect === 0) await rp.collect()
      if (isFirst && moveLog && mine % moveLog === 0) await checkpointLog()
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

/** As SQLite does by itself once the log is long: the next writer then starts the log anew, over the old frames. */
async function checkpointLog() {
  const name = process.getBuiltinModule?.('node:sqlite') ? 'node:sqlite' : '@photostructure/sqlite'
  const { DatabaseSync } = await import(name)
  const database = new DatabaseSync(where.file)
  database.exec('PRAGMA wal_checkpoint(PASSIVE)')
  database.close()
}
