// The constants of the value format. codec.ts documents the grammar; numbers here never change their meaning.

/** First byte of every encoded value. */
export const codecVersion = 1

// 0x00–0x3f are the integers 0–63, 0x40–0x5f texts of 0–31 bytes, 0x60–0x6f arrays of 0–15 items,
// 0x70–0x7f objects with one of the first 16 shapes of this value.
export const integerTags = 0x00
export const textTags = 0x40
export const arrayTags = 0x60
export const shapeTags = 0x70
export const plainTags = 0x80

export const tag = {
  undefined: 0x80,
  null: 0x81,
  false: 0x82,
  true: 0x83,
  positive: 0x84,
  negative: 0x85,
  float32: 0x86,
  float64: 0x87,
  notANumber: 0x88,
  minusZero: 0x89,
  infinity: 0x8a,
  minusInfinity: 0x8b,
  bigPositive: 0x8c,
  bigNegative: 0x8d,
  text: 0x8e,
  text16: 0x8f,
  array: 0x90,
  sparseArray: 0x91,
  newShape: 0x92,
  knownShape: 0x93,
  largeObject: 0x94,
  map: 0x95,
  set: 0x96,
  date: 0x97,
  regExp: 0x98,
  error: 0x99,
  buffer: 0x9a,
  view: 0x9b,
  instance: 0x9c,
  reference: 0x9d,
} as const

/** Objects with more keys, or longer ones, are written key by key; so is any new shape once the table is full. */
export const shapeKeysMax = 32
export const shapeBytesMax = 1024
export const shapesMax = 1024

/**
 * The weight of a decoded container, in units. A value may hold one unit per `bytesPerUnit` bytes of the size limit
 * (and `unitsFree` more), so that a few hostile bytes of many empty containers cannot exhaust memory.
 */
export const bytesPerUnit = 8
export const unitsFree = 1024
export const weight = { light: 1, medium: 4, heavy: 16 } as const

export interface ViewKind {
  readonly name: string
  readonly elementBytes: number
  create(buffer: ArrayBuffer): ArrayBufferView
}

/** The position in this table is the kind byte. */
export const viewKinds: readonly ViewKind[] = [
  { name: 'DataView', elementBytes: 1, create: (buffer) => new DataView(buffer) },
  { name: 'Uint8Array', elementBytes: 1, create: (buffer) => new Uint8Array(buffer) },
  { name: 'Uint8ClampedArray', elementBytes: 1, create: (buffer) => new Uint8ClampedArray(buffer) },
  { name: 'Int8Array', elementBytes: 1, create: (buffer) => new Int8Array(buffer) },
  { name: 'Uint16Array', elementBytes: 2, create: (buffer) => new Uint16Array(buffer) },
  { name: 'Int16Array', elementBytes: 2, create: (buffer) => new Int16Array(buffer) },
  { name: 'Uint32Array', elementBytes: 4, create: (buffer) => new Uint32Array(buffer) },
  { name: 'Int32Array', elementBytes: 4, create: (buffer) => new Int32Array(buffer) },
  { name: 'Float32Array', elementBytes: 4, create: (buffer) => new Float32Array(buffer) },
  { name: 'Float64Array', elementBytes: 8, create: (buffer) => new Float64Array(buffer) },
  { name: 'BigInt64Array', elementBytes: 8, create: (buffer) => new BigInt64Array(buffer) },
  { name: 'BigUint64Array', elementBytes: 8, create: (buffer) => new BigUint64Array(buffer) },
]

export interface ErrorKind {
  readonly name: string
  readonly type: abstract new (...args: never[]) => Error
  create(): Error
}

/** The position in this table is the kind byte. A name found in data never chooses a constructor. */
export const errorKinds: readonly ErrorKind[] = [
  { name: 'Error', type: Error, create: () => new Error() },
  { name: 'EvalError', type: EvalError, create: () => new EvalError() },
  { name: 'RangeError', type: RangeError, create: () => new RangeError() },
  { name: 'ReferenceError', type: ReferenceError, create: () => new ReferenceError() },
  { name: 'SyntaxError', type: SyntaxError, create: () => new SyntaxError() },
  { name: 'TypeError', type: TypeError, create: () => new TypeError() },
  { name: 'URIError', type: URIError, create: () => new URIError() },
  { name: 'AggregateError', type: AggregateError, create: () => new AggregateError([]) },
]

/** Typed arrays are stored little-endian; a big-endian machine swaps the bytes of their elements in both directions. */
const isBigEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 0

export function turnElements(bytes: Uint8Array, elementBytes: number): void {
  if (!isBigEndian || elementBytes === 1) return
  for (let i = 0; i < bytes.length; i += elementBytes) bytes.subarray(i, i + elementBytes).reverse()
}

/** Assigning to such a key could reach a setter or a frozen property of Object.prototype, so the key is defined instead. */
export function needsDefine(key: string): boolean {
  return key in Object.prototype
}

export function define(target: object, key: string, value: unknown, enumerable = true): void {
  Object.defineProperty(target, key, { value, enumerable, writable: true, configurable: true })
}
