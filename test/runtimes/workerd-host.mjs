// Starts workerd with a bundled worker: `node workerd-host.mjs MINIFLARE BUNDLE STORE LEDGER` prints its address and stays.

import { createRequire } from 'node:module'

const [, , miniflare, path, STORE, LEDGER] = process.argv
const { Miniflare } = createRequire(import.meta.url)(miniflare)
const workerd = new Miniflare({
  modules: [{ type: 'ESModule', path }],
  compatibilityDate: '2026-05-01',
  compatibilityFlags: ['nodejs_compat'],
  bindings: { STORE, LEDGER },
})
console.log(String(await workerd.ready))
