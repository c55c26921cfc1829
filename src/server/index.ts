// reprise/server: the HTTP API and the sidecar as one handler. See docs/guides/server.md.

export type { CacheKeep } from '../engine/tools/cache/retention.ts'
export type { AccessToken, CacheAccess, Principal, Role } from './access.ts'
export type { ServerLimits } from './limits.ts'
export type { RequestLog, RequestLogger, RequestProblem } from './request-log.ts'
export type { McpMode } from './route.ts'
export { type Authorize, type ServeOptions, type Server, type ServeSettings, serve } from './serve.ts'
export type { ServerSetting } from './settings.ts'
