// Reprise inside an Express application: the API at /reprise, before anything that reads bodies.

import { getRequestListener } from '@hono/node-server'
import express from 'express'
import { serve } from 'reprise/server'

export function mount(rp) {
  const handler = serve(rp, {
    basePath: '/reprise',
    authorize: (request) =>
      request.headers.get('x-user') === 'ann' ? { name: 'ann', role: 'write', scopes: null } : null,
  })
  const app = express()
  app.all('/reprise/*path', getRequestListener(handler, { overrideGlobalObjects: false }))
  app.use(express.json())
  app.get('/', (_request, response) => void response.send('the application'))
  return { app, close: () => handler.close() }
}
