// A handle that is still being opened. It can be awaited, and its asynchronous methods can be called at once:
// `await rp.run(papers).result()`.

/** The methods of a handle that return a promise; only these are available before the handle exists. */
export type AsyncMethods<Handle> = {
  [Name in keyof Handle]: Handle[Name] extends (...given: never[]) => Promise<unknown> ? Name : never
}[keyof Handle]

export type Pending<Handle> = Promise<Handle> & Pick<Handle, Exclude<AsyncMethods<Handle>, keyof Promise<unknown>>>

type Methods = Readonly<Record<string, (...given: unknown[]) => unknown>>

export function pending<Handle>(promise: Promise<Handle>): Pending<Handle> {
  return new Proxy(promise, forwarding) as Pending<Handle>
}

const forwarding: ProxyHandler<Promise<unknown>> = {
  get(promise, name) {
    const own: unknown = Reflect.get(promise, name, promise)
    if (typeof own === 'function') return own.bind(promise)
    if (own !== undefined || typeof name === 'symbol') return own
    return (...given: unknown[]) => promise.then((handle) => (handle as Methods)[name]!(...given))
  },
}
