// Requests to the server. Addresses are relative to the page, so that it works under any mount path.

import { heard } from './heard.ts'
import { place } from './route.ts'
import { keepSession, sessionHeader } from './session.ts'

export interface Problem {
  readonly code: string
  readonly detail: string
  readonly hint: string
  readonly status: number
  readonly data?: { readonly issues?: readonly { readonly path: string; readonly message: string }[] }
}

export class ApiError extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.detail)
    this.problem = problem
  }
}

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>

const here = new URL('.', location.href.replace(/#.*$/, ''))

export function urlOf(path: string, query: Query = {}): string {
  const url = new URL(path, here)
  const { namespace } = place.peek()
  if (namespace !== null) url.searchParams.set('namespace', namespace)
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '' || value === false) continue
    for (const each of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(each))
  }
  return url.href
}

/** An id is one segment of a path. @example at('job/papers', 'state') // 'v1/timelines/job%2Fpapers/state' */
export function at(timeline: string, ...rest: readonly string[]): string {
  return ['v1/timelines', encodeURIComponent(timeline), ...rest].join('/')
}

export async function get<T>(path: string, query: Query = {}): Promise<T> {
  const url = urlOf(path, query)
  const begun = early.get(url)
  early.delete(url)
  return await ((begun as Promise<T> | undefined) ?? ask<T>(url, {}))
}

const early = new Map<string, Promise<unknown>>()
const earlyMs = 5000

/** Sends the first request of a screen early: it need not wait until the caller is known. */
export function getEarly(path: string, query: Query = {}): void {
  const url = urlOf(path, query)
  const asked = ask(url, {})
  asked.catch(() => undefined)
  early.set(url, asked)
  setTimeout(() => early.delete(url), earlyMs)
}

/** Each press of a button has its own key: repeated after a lost response, it acts once. */
export async function post<T>(path: string, body: unknown = {}, key: string = crypto.randomUUID()): Promise<T> {
  return await ask<T>(urlOf(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(body),
  })
}

/** Begins a session: with the code of a link, or with a token. */
export async function beginSession(proof: { readonly code: string } | { readonly token: string }): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const { session } = await ask<{ session: string }>(urlOf('v1/sessions'), {
    method: 'POST',
    headers: 'token' in proof ? { ...headers, authorization: `Bearer ${proof.token}` } : headers,
    body: JSON.stringify('code' in proof ? proof : {}),
  })
  keepSession(session)
}

/** The response as a file of its own. A link cannot carry the session. */
export async function download(url: string): Promise<{ readonly href: string; readonly name: string | null }> {
  const response = await answered(url, {})
  if (!response.ok) throw await refusal(response)
  const name = /filename="?([^";]+)/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? null
  return { href: URL.createObjectURL(await response.blob()), name }
}

/** The open response, for a stream. */
export async function answered(url: string, init: RequestInit): Promise<Response> {
  try {
    const headers = { ...sessionHeader(), ...init.headers }
    const response = await fetch(url, { ...init, headers, credentials: 'same-origin' })
    heard()
    return response
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error
    const detail = 'the server does not answer'
    throw new ApiError({ code: 'UNREACHABLE', detail, hint: 'Is it still running? The page tries again.', status: 0 })
  }
}

async function ask<T>(url: string, init: RequestInit): Promise<T> {
  const response = await answered(url, init)
  if (!response.ok) throw await refusal(response)
  return (await response.json()) as T
}

async function refusal(response: Response): Promise<ApiError> {
  const value: unknown = await response.json().catch(() => null)
  return new ApiError((value ?? { code: 'BUG', detail: response.statusText, hint: '' }) as Problem)
}

/** True if the problem may resolve itself: the server is unreachable or busy. */
export function mayPass({ code, status }: Problem): boolean {
  return code === 'UNREACHABLE' || status === 429 || status >= 500
}

export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem
  return { code: 'BUG', detail: error instanceof Error ? error.message : String(error), hint: '', status: 0 }
}
