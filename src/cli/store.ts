// Opening the store for a command: never makes one by accident, never waits for ever. Every call to it has 10 seconds,
// so a dead database answers with its code and its cure.

import { existsSync } from 'node:fs'
import { RepriseError } from '../core/errors.ts'
import type { Store } from '../core/ports.ts'
import { createEngine, openStore } from '../engine/open.ts'
import type { Reprise } from '../engine/reprise.ts'

export interface StoreOptions {
  readonly url?: string | undefined
  readonly namespace?: string | undefined
  /** Make it if it is not there. */
  readonly create?: boolean
  /** Nothing will be written: if there is none, an empty one in memory stands for it. */
  readonly isDryRun?: boolean
  readonly timeoutMs?: number
  readonly worker?: string
}

const answerWithinMs = 10_000
const defaultUrl = 'sqlite:.reprise/reprise.db'

export function urlOf(options: StoreOptions): string {
  return options.url ?? process.env.REPRISE_URL ?? defaultUrl
}

/** For people: without a password. */
export function shownUrl(url: string): string {
  return url.replace(/(:\/\/[^:/@]+):[^@]*@/, '$1:***@')
}

export async function openEngine(options: StoreOptions): Promise<Reprise> {
  const named = urlOf(options)
  const file = /^sqlite:(?:\/\/(?=\/))?(.+)$/.exec(named)?.[1]
  const isMissing = file !== undefined && !existsSync(file)
  const url = isMissing && options.isDryRun ? 'memory:' : named
  if (isMissing && !options.create) {
    throw new RepriseError('NOT_FOUND', `there is no store at ${file}; run something first, or name one with --url`, {
      url,
    })
  }
  const timeoutMs = options.timeoutMs ?? answerWithinMs
  const opening = openStore(url, options.namespace ? { namespace: options.namespace } : {})
  const store = await within(opening, timeoutMs, `${shownUrl(url)} did not open`)
  const worker = options.worker ?? 'cli'
  return createEngine({ store: withTimeouts(store, timeoutMs) }, { worker, patience: timeoutMs })
}

const untimed = new Set<PropertyKey>(['listen', 'blobs'])

function withTimeouts(store: Store, timeoutMs: number): Store {
  const guard = <T extends object>(target: T, name: string): T =>
    new Proxy(target, {
      get(held, property) {
        const member: unknown = Reflect.get(held, property, held)
        if (property === 'blobs') return guard(member as object, 'blobs')
        if (typeof member !== 'function') return member
        if (untimed.has(property)) return member.bind(held)
        return (...given: unknown[]) => {
          const answer: unknown = Reflect.apply(member, held, given)
          return answer instanceof Promise
            ? within(answer, timeoutMs, `the store did not answer (${name}.${String(property)})`)
            : answer
        }
      },
    })
  return guard(store, 'store')
}

function within<T>(pending: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new RepriseError('STORE_UNREACHABLE', `${what} within ${timeoutMs / 1000} s`, { timeoutMs }))
    }, timeoutMs)
    pending.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
