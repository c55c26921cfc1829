// Reprise inside a Hono application: the API at /reprise, for users that the application knows.

import { Hono } from 'hono'
import { serve } from 'reprise/server'

export function mount(rp) {
  const handler = serve(rp, {
    basePath: '/reprise',
    authorize: (request) =>
      request.headers.get('x-user') === 'ann' ? { name: 'ann', role: 'write', scopes: null } : null,
  })
  const app = new Hono()
  app.get('/', (c) => c.text('the application'))
  app.all('/reprise/*', (c) => handler(c.req.raw))
  return { app, close: () => handler.close() }
}
