// From here on the Node is known to be new enough for modules.

const { existsSync, mkdirSync }: typeof import('node:fs') = require('node:fs')
const { homedir }: typeof import('node:os') = require('node:os')
const { join }: typeof import('node:path') = require('node:path')

// Some runtimes cache compiled code for the next start. The cache is among the user's own files: code in a shared folder, such
// as /tmp, could be another user's. If the folder cannot be written, Node runs without a cache. The folders are created here,
// one level at a time: where none can be created, as in /proc, Node itself would try forever.
function cacheCompiled({ cacheCompiled: cacheIn }: import('../lib/runtime/port.ts').Runtime): void {
  if (!cacheIn || process.env.NODE_COMPILE_CACHE) return
  try {
    const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
    const own = join(caches, 'reprise')
    for (const folder of [caches, own]) if (!existsSync(folder)) mkdirSync(folder)
    cacheIn(own)
  } catch {
    // A user without a home, as in some containers.
  }
}

import('#runtime')
  .then(({ runtime }) => cacheCompiled(runtime))
  .then(() => import('./main.js'))
  .then((cli) => cli.main(process.argv.slice(2)))
