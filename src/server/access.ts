// Authentication and authorization: tokens with a role and scopes, the sessions of the dashboard, and the one-time codes that
// begin one. Secrets are compared in constant time, and never appear in an error or an event. A session is sent in the
// Authorization header and stored by the page, never in a cookie: a browser sends cookies to every port of a host, so another
// local program would receive it.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { RepriseError } from '../core/errors.ts'
import { isWithin } from '../core/history/scope.ts'
import { checkOptions, namesOf } from '../core/options.ts'
import { checkScope } from '../layers/artifact/index.ts'
import type { ServerRequest } from './server-request.ts'

/** `read` reads; `operate` also sends requests to runs and runs the tools; `write` also appends, forks and rolls back. */
export type Role = 'read' | 'operate' | 'write'

export interface AccessToken {
  /** Shown to people. An Idempotency-Key is bound to this name. */
  readonly name: string
  /** At least 32 characters. */
  readonly token: string
  readonly role: Role
  /** Timelines it reaches, by whole segments of their ids (core/history/scope.ts). Default: all. */
  readonly scopes?: readonly string[]
  /** Namespaces it reaches. Default: the server's first namespace only. */
  readonly namespaces?: readonly string[]
  /**
   * Access to the build caches. Default: the scope `main` for a token that reaches the whole store, none for a token with
   * scopes. A token with a cache and without scopes reaches no timelines: it is for build tools only.
   */
  readonly cache?: CacheAccess
}

export interface CacheAccess {
  /** The scope its artifacts are stored in and first read from: 'pull-7'. */
  readonly scope: string
  /** Further scopes it reads from, in this order; tokens of `main` read only `main`. Default: `main`. */
  readonly reads?: readonly string[]
}

export interface Principal {
  readonly name: string
  readonly role: Role
  /** Null: every timeline, and information about the store as a whole. */
  readonly scopes: readonly string[] | null
  /** Default: the server's first namespace. */
  readonly namespaces?: readonly string[]
  readonly cache?: CacheAccess
}

const ranks: Readonly<Record<Role, number>> = { read: 0, operate: 1, write: 2 }
const knownOfToken = namesOf<AccessToken>()('name token role scopes namespaces cache')
const knownOfCache = namesOf<CacheAccess>()('scope reads')
const tokenLengthMin = 32
const scopesMax = 16
const sessionMs = 12 * 3_600_000
/** Validity of a link. */
export const linkMs = 10 * 60_000

export function mayDo(principal: Principal, role: Role): boolean {
  return ranks[principal.role] >= ranks[role]
}

/** True if the principal reaches this timeline. */
export function mayReach({ scopes }: Principal, id: string): boolean {
  return scopes === null || scopes.some((scope) => isWithin(scope, id))
}

/** The scope whose artifacts every cache token may read. */
const mainScope = 'main'

/** The scope its artifacts are stored in, and the scopes it reads from, in this order; null: it reaches no cache. */
export function cacheScopes({
  scopes,
  cache,
}: Principal): { readonly own: string; readonly all: readonly string[] } | null {
  if (!cache) return scopes === null ? { own: mainScope, all: [mainScope] } : null
  const { scope, reads = scope === mainScope ? [] : [mainScope] } = cache
  return { own: scope, all: [...new Set([scope, ...reads])] }
}

type Purpose = 'link' | 'session'

export interface Session {
  /** Sent as a Bearer token. */
  readonly session: string
  readonly until: number
}

export class Access {
  readonly #tokens: readonly (AccessToken & { readonly bytes: Buffer; readonly principal: Principal })[]
  readonly #now: () => number

  constructor(tokens: readonly AccessToken[], readOnly: boolean, now: () => number) {
    this.#now = now
    this.#tokens = tokens.map((each) => {
      check(each)
      const role = readOnly ? 'read' : each.role
      const { name, namespaces, cache } = each
      const principal = {
        ...{ name, role, scopes: scopesOf(each) },
        ...(namespaces && { namespaces }),
        ...(cache && { cache }),
      }
      return { ...each, bytes: Buffer.from(each.token), principal }
    })
    if (new Set(tokens.map(({ name }) => name)).size < tokens.length) throw refuse('two tokens have the same name')
    if (new Set(tokens.map(({ token }) => token)).size < tokens.length) throw refuse('two names have the same token')
  }

  /** Identifies the caller by a token, or by the session of a page. Null: unknown caller. */
  identify(request: ServerRequest): { readonly principal: Principal; readonly isBrowser: boolean } | null {
    const given = tokenOf(request.header('authorization') ?? '')
    if (given === null) return null
    const principal = this.#byToken(given) ?? this.#signer('session', given)?.principal ?? null
    return principal && { principal, isBrowser: false }
  }

  /** A code that begins one session, for ten minutes; any server with the same tokens accepts it. */
  link(name: string): { readonly code: string; readonly until: number } {
    const until = this.#now() + linkMs
    return { code: this.#signed('link', name, until), until }
  }

  /** `isFirst` records the use of a code. Null: the code is used, expired or of another server. */
  async redeem(code: string, isFirst: (id: string) => Promise<boolean>): Promise<Session | null> {
    const signer = this.#signer('link', code)
    return signer && (await isFirst(digest(code).toString('hex'))) ? this.#session(signer.name) : null
  }

  /** A session of the token that the request carries; a session begins no other, so it ends at its time. */
  sessionOf(request: ServerRequest): Session | null {
    const principal = this.#byToken(tokenOf(request.header('authorization') ?? '') ?? '')
    return principal && this.#session(principal.name)
  }

  #session(name: string): Session {
    const until = this.#now() + sessionMs
    return { session: this.#signed('session', name, until), until }
  }

  /** The token itself is the key, so replacing a token ends all its links and sessions. */
  #signed(purpose: Purpose, name: string, until: number): string {
    const { token } = this.#tokens.find((each) => each.name === name)!
    const text = JSON.stringify({ n: name, e: until, r: randomBytes(12).toString('base64url') })
    const body = Buffer.from(text).toString('base64url')
    return `${body}.${sign(token, purpose, body)}`
  }

  /** The token that signed this, if it is valid and not expired. */
  #signer(purpose: Purpose, signed: string): { readonly name: string; readonly principal: Principal } | null {
    const [body = '', signature = ''] = signed.split('.')
    const { n, e } = parse(body)
    const token = this.#tokens.find(({ name }) => name === n)
    if (!token || typeof e !== 'number' || e < this.#now()) return null
    return timingSafeEqual(digest(sign(token.token, purpose, body)), digest(signature)) ? token : null
  }

  #byToken(given: string): Principal | null {
    const bytes = Buffer.from(given)
    let found: Principal | null = null
    // All tokens of this length are compared, even after a match. The length of a token is not secret.
    for (const each of this.#tokens) {
      if (each.bytes.length === bytes.length && timingSafeEqual(each.bytes, bytes)) found = each.principal
    }
    return found
  }
}

/** The code is in the fragment: no log, proxy or scanner of links receives it, and only the page can use it. */
export function loginPath(basePath: string, code: string): string {
  return `${basePath}/#/login/${code}`
}

export function newToken(): string {
  return randomBytes(32).toString('base64url')
}

/** The Bearer token, or the password of Basic, which is all that some build tools support; null: neither was sent. */
function tokenOf(header: string): string | null {
  const [, scheme, given] = /^(Bearer|Basic) (.+)$/i.exec(header) ?? []
  if (given === undefined) return null
  if (scheme!.toLowerCase() === 'bearer') return given.trim()
  const text = Buffer.from(given.trim(), 'base64').toString('utf8')
  return text.slice(text.indexOf(':') + 1)
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function sign(token: string, purpose: Purpose, body: string): string {
  return createHmac('sha256', token).update(`reprise-${purpose}\n${body}`).digest('base64url')
}

function parse(body: string): { readonly n?: unknown; readonly e?: unknown } {
  try {
    const value: unknown = JSON.parse(Buffer.from(body, 'base64url').toString('utf8'))
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

function scopesOf({ scopes, cache }: AccessToken): readonly string[] | null {
  if (scopes === undefined && cache) return []
  return scopes === undefined || scopes.includes('') ? null : scopes
}

function check(given: AccessToken): void {
  const { name, token, role, scopes, namespaces, cache } = given
  if (typeof name !== 'string' || !/^[\w.-]{1,64}$/.test(name)) {
    throw refuse('the name of a token must have 1 to 64 letters, digits, dots, dashes and underscores')
  }
  if (typeof token !== 'string' || token.length < tokenLengthMin || !/^[\x21-\x7e]+$/.test(token)) {
    throw refuse(`the token ${name} must have at least ${tokenLengthMin} printable characters without spaces`)
  }
  // A misspelt limit would have no effect.
  checkOptions(`the token ${name}`, given, knownOfToken)
  if (!Object.hasOwn(ranks, role)) throw refuse(`the role of ${name} must be read, operate or write`)
  if (scopes !== undefined && !isTexts(scopes)) {
    throw refuse(`the scopes of ${name} must be 1 to ${scopesMax} texts; omit them to give access to every timeline`)
  }
  if (namespaces !== undefined && !isTexts(namespaces)) {
    throw refuse(`the namespaces of ${name} must be 1 to ${scopesMax} names; omit them for the server's own namespace`)
  }
  if (cache !== undefined) checkCache(name, cache)
}

function checkCache(name: string, cache: CacheAccess): void {
  if (typeof cache !== 'object' || cache === null || typeof cache.scope !== 'string') {
    throw refuse(`the cache of ${name} must be { "scope": "…", "reads": ["…"] }`)
  }
  checkOptions(`the cache of ${name}`, cache, knownOfCache)
  const { scope, reads = [] } = cache
  if (!Array.isArray(reads) || reads.length > scopesMax) {
    throw refuse(`the cache of ${name} must read at most ${scopesMax} scopes`)
  }
  for (const each of [scope, ...reads]) checkScope(String(each), `the scope of the cache of ${name}`)
  if (scope === mainScope && reads.some((each) => each !== mainScope)) {
    throw refuse(`${name} must read only ${mainScope}: builds for ${mainScope} use no other scope`)
  }
}

function isTexts(list: unknown): boolean {
  return (
    Array.isArray(list) &&
    list.length >= 1 &&
    list.length <= scopesMax &&
    list.every((each) => typeof each === 'string')
  )
}

function refuse(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, {})
}
