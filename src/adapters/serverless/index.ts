// reprise/serverless: functions that a platform starts, freezes and ends. Each invocation executes due work and releases the
// rest for the next one. See docs/guides/where-it-runs.md.

export {
  type CloudflareHandler,
  cloudflareHandler,
  type LambdaContext,
  lambdaHandler,
  type RouteOptions,
  routeHandler,
} from './handlers.ts'
export type { ServerlessOptions } from './invocations.ts'
export { type SeenWakes, signWake, verifyWake } from './signature.ts'
export { pushWakes, type Wakes, type WakeTarget } from './wakes.ts'
