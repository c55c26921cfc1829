// Requests to the server. Addresses are relative to the page, so that it works under any mount path.

import { place } from './route.ts'

export interface Problem {
  readonly code: string
  readonly detail: string
  readonly hint: string
  readonly status: number
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

async function ask<T>(url: string, init: RequestInit): Promise<T> {
  let response: Response
  try {
    response = await fetch(url, { ...init, credentials: 'same-origin' })
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error
    const detail = 'the server does not answer'
    throw new ApiError({ code: 'UNREACHABLE', detail, hint: 'Is it still running? The page tries again.', status: 0 })
  }
  const value: unknown = await response.json().catch(() => null)
  if (!response.ok) throw new ApiError((value ?? { code: 'BUG', detail: response.statusText, hint: '' }) as Problem)
  return value as T
}

/** True if the problem may resolve itself: the server is unreachable or busy. */
export function mayPass({ code, status }: Problem): boolean {
  return code === 'UNREACHABLE' || status === 429 || status >= 500
}

export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem
  return { code: 'BUG', detail: error instanceof Error ? error.message : String(error), hint: '', status: 0 }
}
