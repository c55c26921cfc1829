// reprise mcp: the store as tools for a language model, over stdin and stdout. Read-only, unless enabled otherwise.

import type { Command } from '../command.ts'
import { flag } from '../command.ts'
import { exit } from '../exit.ts'
import { registerKnown } from '../models.ts'
import { loadModule } from '../module.ts'
import { openEngine } from '../store.ts'
import { loadServer } from './serve.ts'

const mcp: Command = async ({ options }) => {
  const isActing = flag(options, 'act')
  const [{ serve }] = await loadServer()
  const [{ serveMcpOnStdio }, { routes }] = await Promise.all([
    import('../../server/mcp.ts'),
    import('../../server/routes/index.ts'),
  ])
  const module = typeof options.module === 'string' ? options.module : undefined
  const engine = await openEngine({
    url: options.url as string | undefined,
    namespace: options.namespace as string | undefined,
    blobs: options.blobs as string | undefined,
    keys: options.keys as string | undefined,
    create: false,
    readOnly: !isActing,
    worker: 'mcp',
  })
  try {
    await registerKnown(engine, module)
    const definitions = module === undefined ? [] : Object.values(await loadModule(module))
    const principal = { name: 'mcp', role: isActing ? 'write' : 'read', scopes: null } as const
    const handler = serve(engine, { authorize: () => principal, readOnly: !isActing, definitions })
    await serveMcpOnStdio({
      routes,
      mode: isActing ? 'act' : 'read',
      base: 'http://localhost',
      // The client of this process is its user, never a page of another site.
      headers: new Headers({ 'sec-fetch-site': 'same-origin' }),
      ask: handler,
    })
    await handler.close()
    return exit.ok
  } finally {
    await engine.close()
  }
}

export default mcp
