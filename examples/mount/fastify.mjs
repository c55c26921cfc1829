// Reprise inside a Fastify application: the API at /reprise, in a scope of its own whose bodies Fastify leaves alone.

import { getRequestListener } from '@hono/node-server'
import fastify from 'fastify'
import { serve } from 'reprise/server'

export function mount(rp) {
  const handler = serve(rp, {
    basePath: '/reprise',
    authorize: (request) =>
      request.headers.get('x-user') === 'ann' ? { name: 'ann', role: 'write', scopes: null } : null,
  })
  const listener = getRequestListener(handler, { overrideGlobalObjects: false })
  // A stream stays open until its client disconnects: closing the application must not wait for it.
  const app = fastify({ forceCloseConnections: true })
  app.get('/', async () => 'the application')
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    scope.all('/reprise/*', (request, reply) => {
      reply.hijack()
      listener(request.raw, reply.raw)
    })
  })
  return { app, close: () => handler.close() }
}
