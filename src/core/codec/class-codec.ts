// The codec of a user-defined class.

/** Stores the instances of one class as plain data, under a name that is chosen here and never changes. */
export interface ClassCodec<T = unknown> {
  readonly name: string
  readonly type: abstract new (...args: never[]) => T
  encode(value: T): unknown
  decode(data: unknown): T
}
