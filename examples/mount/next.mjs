// Reprise inside a Next.js application: a catch-all route handler below /reprise, which takes a Request and gives a Response.

import { open } from 'reprise'
import { serve } from 'reprise/server'

/** One per process: a module is loaded again when its file changes. */
const shared = globalThis
shared.reprise ??= open(process.env.REPRISE_URL ?? 'sqlite:.reprise/reprise.db').then((rp) =>
  serve(rp, {
    basePath: '/reprise',
    authorize: (request) =>
      request.headers.get('x-user') === 'ann' ? { name: 'ann', role: 'write', scopes: null } : null,
  }),
)

const answer = async (request) => await (await shared.reprise)(request)

export const dynamic = 'force-dynamic'
export { answer as DELETE, answer as GET, answer as POST, answer as PUT }
