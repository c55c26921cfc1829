// What is looked at before a request means anything: its size, the name it was sent to (a page of another site whose name
// resolves to this machine must get nothing), and where it comes from.

import { RepriseError } from '../core/errors.ts'
import type { ServerLimits } from './limits.ts'

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Hosts and origins that this server answers to; loopback names always. */
export class Doors {
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

  /** Refuses a name that is not ours, and whatever another site sent. */
  check(request: Request): void {
    const host = hostOf(request)
    if (!this.#isOurs(host)) {
      throw new RepriseError('FORBIDDEN', `this server does not answer to the host ${host.slice(0, 80)}`, {})
    }
    const origin = request.headers.get('origin')
    if (origin !== null && !this.#isSame(origin, host)) {
      throw new RepriseError('FORBIDDEN', 'a request of another site is not answered', {})
    }
    const site = request.headers.get('sec-fetch-site')
    if (site === 'cross-site' || site === 'same-site') {
      const isNavigation = request.method === 'GET' && request.headers.get('sec-fetch-mode') === 'navigate'
      if (!isNavigation) throw new RepriseError('FORBIDDEN', 'a request of another site is not answered', {})
    }
  }

  /** With a cookie a browser sends requests that its user did not ask for: it must say where they come from. */
  checkBrowser(request: Request): void {
    if (safeMethods.has(request.method) || request.headers.get('origin') !== null) return
    if (request.headers.get('sec-fetch-site') === 'same-origin') return
    throw new RepriseError('FORBIDDEN', 'a write with a cookie must carry its Origin', {})
  }

  isHttps(request: Request): boolean {
    return this.#origins.has(`https://${hostOf(request)}`)
  }

  #isOurs(host: string): boolean {
    return loopback.test(host) || this.#hosts.has(host)
  }

  #isSame(origin: string, host: string): boolean {
    if (this.#origins.has(origin)) return true
    return loopback.test(host) && origin.toLowerCase() === `http://${host}`
  }
}

function hostOf(request: Request): string {
  return (request.headers.get('host') ?? new URL(request.url).host).toLowerCase()
}

export function checkSize(request: Request, limits: ServerLimits): void {
  if (request.url.length > limits.urlLength) throw tooLarge('the address', limits.urlLength, 'characters')
  let bytes = 0
  for (const [name, value] of request.headers) bytes += name.length + value.length + 4
  if (bytes > limits.headerBytes) throw tooLarge('the headers', limits.headerBytes, 'bytes')
}

/** The whole body, or LIMIT_EXCEEDED as soon as it is too long, whatever its header says. */
export async function readBody(request: Request, bytesMax: number): Promise<Uint8Array> {
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > bytesMax) throw tooLarge('the body', bytesMax, 'bytes')
  if (!request.body) return new Uint8Array()
  const pieces: Uint8Array[] = []
  let bytes = 0
  const reader = (request.body as ReadableStream<Uint8Array>).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    bytes += value.length
    if (bytes > bytesMax) {
      void reader.cancel().catch(() => undefined)
      throw tooLarge('the body', bytesMax, 'bytes')
    }
    pieces.push(value)
  }
  return Buffer.concat(pieces)
}

function tooLarge(what: string, max: number, unit: string): RepriseError {
  return new RepriseError('LIMIT_EXCEEDED', `${what} must have at most ${max} ${unit}`, { max })
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

/** Every answer has them; only our own pages may load anything, and only from here. */
export function secured(response: Response): Response {
  const { headers } = response
  for (const [name, value] of Object.entries(base)) headers.set(name, value)
  const isPage = headers.get('content-type')?.startsWith('text/html') ?? false
  headers.set('content-security-policy', isPage ? page : nothing)
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store')
  return response
}
