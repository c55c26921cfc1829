// Starts workerd with the object: `node durable-object-host.mjs MINIFLARE SCRIPT` prints its answer as JSON.

import { createRequire } from 'node:module'

const [, , miniflare, scriptPath] = process.argv
const { Miniflare } = createRequire(import.meta.url)(miniflare)
const workerd = new Miniflare({
  modules: true,
  scriptPath,
  compatibilityDate: '2026-04-01',
  compatibilityFlags: ['nodejs_compat'],
  durableObjects: { PROBE: { className: 'Probe', useSQLite: true } },
})
console.log(await (await workerd.dispatchFetch('http://localhost/')).text())
await workerd.dispose()
