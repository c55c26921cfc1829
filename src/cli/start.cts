// From here on the Node is known to be new enough for modules.

const { enableCompileCache }: { enableCompileCache?: (folder: string) => unknown } = require('node:module')
const { existsSync, mkdirSync }: typeof import('node:fs') = require('node:fs')
const { homedir }: typeof import('node:os') = require('node:os')
const { join }: typeof import('node:path') = require('node:path')

// Node 22 can keep what it compiled, for the next start. It is kept among the user's own files: code in a folder for everybody,
// such as /tmp, could be somebody else's. Where that cannot be written, Node keeps nothing and goes on.
// The folders are made here, one level at a time: where nothing can be made, as in /proc, Node itself would try for ever.
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
