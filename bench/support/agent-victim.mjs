// A process that runs a session for some turns and kills itself in the middle of the next one: argv is the store's URL
// and the number of turns.

import { open } from '../../dist/index.js'
import { makeAgent } from './sessions.mjs'

const [url, turns] = process.argv.slice(2)
const rp = await open(url)
const session = await rp.open(makeAgent(0), 's')
for (let turn = 0; turn < Number(turns); turn++) await session.turn('plain')
await session.turn('plain', {
  model: () => {
    process.kill(process.pid, 'SIGKILL')
    return new Promise(() => {})
  },
})
