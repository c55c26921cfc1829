// From here on the Node is known to be new enough for modules.

const { enableCompileCache }: { enableCompileCache?: (folder: string) => unknown } = require('node:module')
const { existsSync, mkdirSync }: typeof import('node:fs') = require('node:fs')
const { homedir }: typeof import('node:os') = require('node:os')
const { join }: typeof import('node:path') = require('node:path')

// Node 22 can cache compiled code for the next start. The cache is among the user's own files: code in a shared folder, such
// as /tmp, could be another user's. If the folder cannot be written, Node runs without a cache. The folders are created here,
// one level at a time: where none can be created, as in /proc, Node itself would try forever.
try {
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  if (enableCompileCache && !process.env.NODE_COMPILE_CACHE) {
    const own = join(caches, 'reprise')
    for (const folder of [caches, own]) if (!existsSync(folder)) mkdirSync(folder)
    enableCompileCache(own)
  }
} catch {
  // A user without a home, as in some containers.
}

import('./main.js').then((cli) => cli.main(process.argv.slice(2)))
