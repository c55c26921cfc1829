// A handle that is on its way. It can be awaited, and what can be asked of the handle can be asked of it at once:
// `await rp.run(papers).result()`.

/** The methods of a handle that answer by a promise: there is nothing else that can be had before the handle is there. */
export type Asked<Handle> = {
  [Name in keyof Handle]: Handle[Name] extends (...given: never[]) => Promise<unknown> ? Name : never
}[keyof Handle]

export type Pending<Handle> = Promise<Handle> & Pick<Handle, Exclude<Asked<Handle>, keyof Promise<unknown>>>

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
