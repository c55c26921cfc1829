// A process of a control plane, to be killed. Arguments: store URL, role.
//   worker: runs rollouts of the configuration. Prints {"ready":true}.
//   edges N: N clients that accept everything. Prints {"ready":true}, then {"acked":[client, version]} after each receipt.

import { writeSync } from 'node:fs'
import { open } from '../../dist/index.js'
import { config } from '../../dist/layers/config/index.js'

export const flags = config('flags', { forgetAfter: '1h' })

if (process.argv[1]?.endsWith('config-process.mjs')) {
  const [url, role, count, has] = process.argv.slice(2)
  const say = (what) => writeSync(1, `${JSON.stringify(what)}\n`)
  const rp = await open(url)
  if (role === 'worker') {
    rp.work([flags])
    say({ ready: true })
  } else {
    const push = await rp.open(flags)
    const serve = async (client) => {
      const stream = await push.client(client, Number(has) > 0 ? { has: Number(has) } : {})
      for await (const { version, nonce } of stream) {
        const { isTaken } = await stream.ack(nonce)
        if (isTaken) say({ acked: [client, version] })
      }
    }
    const serving = Array.from({ length: Number(count) }, (_, i) => serve(`edge-${i}`))
    say({ ready: true })
    await Promise.all(serving)
  }
}
