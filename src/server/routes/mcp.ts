// The Model Context Protocol over HTTP: one request, one response, as the caller.

import { RepriseError } from '../../core/errors.ts'
import { answerMcp } from '../mcp.ts'
import { Reply, replyOf } from '../reply.ts'
import type { Call, Route } from '../route.ts'

/** Headers of this request itself; all others identify the caller and the origin, and are passed on. */
const own = /^(?:content-|mcp-|accept|transfer-encoding|connection|idempotency-key|expect)/

export const mcpRoutes: readonly Route[] = [
  {
    method: 'POST',
    path: '/mcp',
    id: 'mcp',
    tag: 'mcp',
    summary: 'Tools for language models (Model Context Protocol); only with `--mcp`',
    role: 'read',
    body: {},
    answer: {},
    call,
  },
  {
    method: 'GET',
    path: '/mcp',
    id: 'mcpStream',
    tag: 'mcp',
    summary: 'No stream is offered: 405, as the protocol requires',
    role: 'read',
    status: 405,
    answer: {},
    call({ server }) {
      if (!server.mcp) throw missing()
      return new Reply(null, { allow: 'POST' }, 405)
    },
  },
]

async function call({ server, request: { request }, body }: Call): Promise<Reply> {
  if (!server.mcp) throw missing()
  const headers = new Headers()
  for (const [name, value] of request.headers) if (!own.test(name)) headers.set(name, value)
  const base = new URL(request.url).origin + server.basePath
  const options = { routes: server.routes, mode: server.mcp, base, headers, ask: server.ask }
  return await replyOf(await answerMcp(request, body, options))
}

function missing(): RepriseError {
  return new RepriseError('NOT_FOUND', 'there is no such route; /v1/openapi.json lists them', {})
}
