// Writes a little, exports it and backs the store up; prints a line when each is done. One argument, as JSON:
//   where, folder (of the copies)

import { writeSync } from 'node:fs'
import { join } from 'node:path'
import * as library from '../../dist/index.js'
import { define, entry } from './crash-model.mjs'
import { openEngine } from './crash-open.mjs'

const { where, folder } = JSON.parse(process.argv[2])
const rp = await openEngine(where)
const open = await rp.open(define(library).plain, 'a')
for (let n = 1; n <= 3; n++) await open.append(entry(n))
const { coordinate } = open
await open.close()
await rp.export(coordinate, join(folder, 'one.rp'))
writeSync(1, 'ACK one.rp 1\n')
await rp.backup(join(folder, 'all.rpb'))
writeSync(1, 'ACK all.rpb 1\n')
await rp.close()
writeSync(1, 'closed\n')
