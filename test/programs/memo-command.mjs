// Runs a remembered command in a process of its own. usage: memo-command.mjs STORE FOLDER CMD

import { open } from '../../lib/index.js'
import { command } from '../../lib/layers/memo/index.js'

const [store, directory, cmd] = process.argv.slice(2)
const rp = await open(`sqlite:${store}`, { housekeeping: false })
const handle = await rp.open(command('killed', { cmd, directory, inputs: ['src/**'], outputs: ['dist/**'] }))
console.log('asked')
const { from, exitCode } = await handle.run({ onOutput: ({ bytes }) => process.stdout.write(bytes) })
console.log(`${from} ${exitCode}`)
await rp.close()
