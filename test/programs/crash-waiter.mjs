// Waits for what takes time, with nothing else to do: for a timeline that another owns, or for a store that does not
// answer. A program that waits must not end before it has its answer. One argument, as JSON: { file, waits }.

import { writeSync } from 'node:fs'
import { sha256 } from '../../dist/engine/base/platform.js'
import * as library from '../../dist/index.js'
import { createEngine } from '../../dist/store.js'
import { openSqlite } from '../../dist/stores/sqlite/index.js'
import { faultyStore } from '../../dist/testing/index.js'
import { define, entry } from './crash-model.mjs'

const { file, waits } = JSON.parse(process.argv[2])
const { plain } = define(library)
const open = async (decide = () => 'ok') =>
  createEngine({ store: faultyStore(await openSqlite(file, { namespace: 'default', hash: sha256 }), decide) })

if (waits === 'owner') {
  const first = await open()
  const second = await open()
  await first.open(plain, 'a')
  const outcome = await second.open(plain, 'a', { wait: 300 }).catch((error) => error.code)
  writeSync(1, `${outcome}\n`)
} else {
  let failures = 0
  let isOut = false
  const rp = await open((method) => (isOut && method === 'commit' && failures++ < 4 ? 'fail-after' : 'ok'))
  const handle = await rp.open(plain, 'a')
  isOut = true
  await handle.append(entry(1))
  writeSync(1, `last ${handle.state.last} after ${failures}\n`)
}
