// A controller in a process of its own, to be stopped in the middle of a reconcile and woken after another has taken over. Its
// reads and the outcomes of its reports go to standard output, a line of JSON each. One argument, as JSON: where, name,
// takeover, pauseMs (between its read and its report).

import { writeSync } from 'node:fs'
import { controller, resource } from '../../dist/resources.js'
import { openEngine } from './crash-open.mjs'

const { where, name, takeover = false, pauseMs } = JSON.parse(process.argv[2])
const log = (line) => writeSync(1, `${JSON.stringify({ by: name, ...line })}\n`)

// Not taken for dead because the machine is slow: who takes over does so on purpose.
const rp = await openEngine(where, { worker: name, patience: '1h' })
const scaler = controller('scaler', {
  watch: [resource('sites')],
  retry: { backoff: 10, jitter: 0 },
  async reconcile({ object, report }) {
    log({ op: 'reads', generation: object.generation })
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    await report({ status: { by: name, n: object.spec.n } }).then(
      () => log({ op: 'reports', generation: object.generation }),
      (error) => {
        log({ op: 'refused', code: error.code })
        throw error
      },
    )
  },
})
await rp.open(scaler, undefined, { takeover })
setInterval(() => undefined, 1000)
