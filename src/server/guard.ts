// Checks made before a request is interpreted: its size, its host (a page of another site whose name resolves to this machine
// must receive nothing), and its origin.

import { RepriseError } from '../core/errors.ts'
import type { ServerLimits } from './limits.ts'
import { jsonHeaders, Reply } from './reply.ts'
import { type ServerRequest, tooLarge } from './server-request.ts'

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

const originHint =
  'Open the server under an address that it accepts: localhost, or an origin it was started with (`--origin https://reprise.example.com`, in code `origins`). The token is not the cause.'

/** The hosts and origins this server accepts; loopback names are always accepted. */
export class OriginCheck {
  readonly #origins: ReadonlySet<string>
  readonly #hosts: ReadonlySet<string>

  constructor(origins: readonly string[]) {
    const parsed = origins.map((origin) => {
      const url = URL.canParse(origin) ? new URL(origin) : null
      if (url && /^https?:$/.test(url.protocol) && url.origin === origin.toLowerCase()) return url
      const what = `an origin must be a scheme and a host, as in https://reprise.example.com (got ${origin.slice(0, 80)})`
      throw new RepriseError('INVALID_ARGUMENT', what, {})
    })
    this.#origins = new Set(parsed.map((url) => url.origin))
    this.#hosts = new Set(parsed.map((url) => url.host))
  }

  /** Refuses an unknown host, and requests sent by another site. */
  check(request: ServerRequest): void {
    const host = hostOf(request)
    if (!this.#isOurs(host)) {
      throw refused(`this server does not serve the host ${host.slice(0, 80)}`)
    }
    const origin = request.header('origin')
    if (origin !== null && !this.#isSame(origin, host)) {
      throw refused('requests from other sites are refused')
    }
    const site = request.header('sec-fetch-site')
    if (site === 'cross-site' || site === 'same-site') {
      const isNavigation = request.method === 'GET' && request.header('sec-fetch-mode') === 'navigate'
      if (!isNavigation) throw refused('requests from other sites are refused')
    }
  }

  /** With a cookie of the host, a browser can send requests its user did not intend: a write must carry its origin. */
  checkBrowser(request: ServerRequest): void {
    if (safeMethods.has(request.method) || request.header('origin') !== null) return
    if (request.header('sec-fetch-site') === 'same-origin') return
    throw refused('a write request with a cookie must have an Origin header')
  }

  #isOurs(host: string): boolean {
    return loopback.test(host) || this.#hosts.has(host)
  }

  #isSame(origin: string, host: string): boolean {
    if (this.#origins.has(origin)) return true
    return loopback.test(host) && origin.toLowerCase() === `http://${host}`
  }
}

function refused(what: string): RepriseError {
  return new RepriseError('FORBIDDEN', what, {}, undefined, originHint)
}

function hostOf(request: ServerRequest): string {
  return (request.header('host') ?? new URL(request.url).host).toLowerCase()
}

export function checkSize(request: ServerRequest, limits: ServerLimits): void {
  if (request.url.length > limits.urlLength) throw tooLarge('the address', limits.urlLength, 'characters')
  if (request.headerBytes > limits.headerBytes) throw tooLarge('the headers', limits.headerBytes, 'bytes')
}

const base = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
}

const nothing = "default-src 'none'; frame-ancestors 'none'"
const page =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const plainHeaders = { 'cache-control': 'no-store' }
const nothingAllowed = { ...base, 'content-security-policy': nothing }
const pageAllowed = { ...base, 'content-security-policy': page }

const securedJson = { ...plainHeaders, ...jsonHeaders, ...nothingAllowed }

/** Security headers for every response; only our own pages may load resources, and only from this server. */
export function secured({ status, headers, body }: Reply): Reply {
  if (headers === jsonHeaders) return new Reply(body, securedJson, status)
  const isPage = headers['content-type']?.startsWith('text/html') ?? false
  return new Reply(body, { ...plainHeaders, ...headers, ...(isPage ? pageAllowed : nothingAllowed) }, status)
}
