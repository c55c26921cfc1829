// reprise/server: the HTTP API and the sidecar as one handler. See docs/guides/server.md.

export type { AccessToken, Principal, Role } from './access.ts'
export type { ServerLimits } from './limits.ts'
export type { McpMode } from './route.ts'
export { type ServeOptions, type Server, serve } from './serve.ts'
