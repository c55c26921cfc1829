// Tools for language models (Model Context Protocol). Each tool is a route of the API, called as the client, so the same
// roles, scopes and limits apply. Tools that change something are offered only if enabled. The package's documentation is
// offered as resources.

import { driverMissing } from '../core/driver-missing.ts'
import { packageVersion } from '../operations/package-info.ts'
import { pagePaths, readPage } from '../operations/pages.ts'
import type { McpMode, Route } from './route.ts'
import { published } from './schema.ts'

/** The tools, by operation id of their routes. */
const reading = [
  ...['listRuns', 'listTimelines', 'showTimeline', 'readHistory', 'stateAt', 'diffStates', 'recoveryCard'],
  ...['listSteps', 'listDeadLetters', 'listWorkers', 'listQueues', 'explainError'],
]
const acting = ['fork', 'retry', 'rerun', 'signal']

export interface Tool {
  readonly name: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>> & { readonly type: 'object' }
  readonly annotations: Readonly<Record<string, boolean>>
  readonly route: Route
}

export function toolsOf(routes: readonly Route[], mode: McpMode): Tool[] {
  const ids = mode === 'act' ? [...reading, ...acting] : reading
  return ids.map((id) => toolOf(routes.find((route) => route.id === id)!))
}

function toolOf(route: Route): Tool {
  const { id, summary, path, query = {}, body } = route
  const params = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
  const requiredQuery = Object.keys(query).filter((name) => query[name]!.isRequired)
  const properties = {
    ...Object.fromEntries(params.map((name) => [name, { type: 'string', minLength: 1 }])),
    ...Object.fromEntries(
      Object.entries(query).map(([name, { isList, isRequired: _, ...schema }]) => {
        const one = published(schema)
        return [name, isList ? { type: 'array', items: one } : one]
      }),
    ),
    ...Object.fromEntries(Object.entries(body?.properties ?? {}).map(([name, schema]) => [name, published(schema)])),
  }
  const isReading = route.method === 'GET'
  return {
    name: id.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    description: summary,
    inputSchema: {
      type: 'object',
      properties,
      required: [...params, ...requiredQuery, ...(body?.required ?? [])],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: isReading, destructiveHint: false, openWorldHint: false },
    route,
  }
}

/** The request that calls a tool's route, below this address. Unknown arguments are passed on, and the route refuses them. */
export function requestFor(
  { route }: Tool,
  given: Readonly<Record<string, unknown>>,
  base: string,
  headers: Headers,
): Request {
  const rest = { ...given }
  const take = (name: string): unknown => {
    const value = rest[name]
    delete rest[name]
    return value
  }
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(take(name) ?? '')))
  const url = new URL(base + path)
  for (const name of route.body ? Object.keys(route.query ?? {}) : Object.keys(rest)) {
    const value = take(name)
    if (value === undefined) continue
    for (const each of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(each))
  }
  const sent = new Headers(headers)
  if (!route.body) return new Request(url, { method: route.method, headers: sent })
  sent.set('content-type', 'application/json')
  return new Request(url, { method: route.method, headers: sent, body: JSON.stringify(rest) })
}

export interface McpOptions {
  readonly routes: readonly Route[]
  readonly mode: McpMode
  /** Base address of the routes, without a trailing slash. */
  readonly base: string
  /** Headers that identify the caller. */
  readonly headers: Headers
  readonly ask: (request: Request) => Promise<Response>
}

/** A server of the official SDK with these tools, not connected yet. DRIVER_MISSING: the SDK is not installed. */
export async function mcpServer({ routes, mode, base, headers, ask }: McpOptions) {
  const [{ Server }, schemas] = await loadSdk()
  const tools = toolsOf(routes, mode)
  const server = new Server(
    { name: 'reprise', version: packageVersion() },
    {
      capabilities: { tools: {}, resources: {} },
      instructions:
        'Durable histories of workflows, jobs and other runs. Begin with list_runs; show_timeline returns the status of one, read_history its entries. A timeline id looks like workflow/checkout/order-42. The resources are the documentation of Reprise: begin with reprise://skills/reprise/SKILL.md.',
    },
  )
  server.setRequestHandler(schemas.ListToolsRequestSchema, () => ({
    tools: tools.map(({ route: _, ...tool }) => tool),
  }))
  server.setRequestHandler(schemas.CallToolRequestSchema, async ({ params }) => {
    const tool = tools.find(({ name }) => name === params.name)
    if (!tool) return textResult(`there is no tool ${params.name}`, true)
    const response = await ask(requestFor(tool, params.arguments ?? {}, base, headers))
    return textResult(await response.text(), response.status >= 400)
  })
  server.setRequestHandler(schemas.ListResourcesRequestSchema, () => ({
    resources: pagePaths().map((path) => ({ uri: uriOf(path), name: path, title: readPage(path)!.title, mimeType })),
  }))
  server.setRequestHandler(schemas.ReadResourceRequestSchema, ({ params: { uri } }) => {
    const page = uri.startsWith(scheme) ? readPage(uri.slice(scheme.length)) : null
    if (!page) throw new schemas.McpError(resourceNotFound, `there is no page ${uri}; resources/list lists all pages`)
    return { contents: [{ uri, mimeType, text: page.text }] }
  })
  return server
}

const scheme = 'reprise://'
const mimeType = 'text/markdown'
/** The code that the protocol defines for it. */
const resourceNotFound = -32002
const uriOf = (path: string) => scheme + path

function textResult(text: string, isError: boolean) {
  return { content: [{ type: 'text' as const, text }], ...(isError && { isError }) }
}

/** Answers one request of a client over HTTP; no state is kept between requests. */
export async function answerMcp(request: Request, parsedBody: unknown, options: McpOptions): Promise<Response> {
  const server = await mcpServer(options)
  const { WebStandardStreamableHTTPServerTransport: Transport } = await import(
    '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
  )
  const transport = new Transport({ enableJsonResponse: true })
  await server.connect(transport)
  return await transport.handleRequest(request, { parsedBody })
}

/** Serves over stdin and stdout until the client disconnects. */
export async function serveMcpOnStdio(options: McpOptions): Promise<void> {
  const server = await mcpServer(options)
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js')
  const closed = new Promise<void>((resolve) => {
    server.onclose = () => resolve()
    process.stdin.once('end', () => void server.close())
  })
  await server.connect(new StdioServerTransport())
  await closed
}

async function loadSdk() {
  try {
    return await Promise.all([
      import('@modelcontextprotocol/sdk/server/index.js'),
      import('@modelcontextprotocol/sdk/types.js'),
    ])
  } catch (error) {
    throw driverMissing('MCP', ['@modelcontextprotocol/sdk'], error)
  }
}
