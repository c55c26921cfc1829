// The value codec: any plain JavaScript value to bytes and back. Equal values have equal bytes, a value has exactly one
// encoding, and hostile bytes cause a RepriseError within the limits, never a crash and never code execution.
//
//   bytes  = 0x01 value
//   value  = 00–3f  the integer itself            84 n  integer ≥ 64        85 n  integer -1 - n
//            86 float32, if exact   87 float64    88 NaN   89 -0   8a Infinity   8b -Infinity
//            80 undefined   81 null   82 false   83 true
//            8c n bytes  bigint ≥ 0, big-endian, no leading zero      8d n bytes  bigint < 0, its magnitude
//            text = 40–5f utf-8 of 0–31 bytes     8e n utf-8          8f n utf-16le, for lone surrogates only
//            60–6f value*  array of 0–15          90 n value*         91 length n (gap value)*  array with holes
//            92 n text* value*  object: n bytes of sorted keys, a new shape, then the values in that order
//            70–7f value*  object of shape 0–15 of this value         93 n value*  of shape n
//            94 n (text value)*  object with over 32 keys, over 1,024 bytes of keys, or a new shape after 1,024 of them
//            95 n (value value)*  Map      96 n value*  Set           97 number  Date, NaN if invalid
//            98 text text  RegExp: source, flags                      99 kind object  Error: its fields
//            9a n bytes  ArrayBuffer       9b kind n bytes  typed array or DataView, little-endian
//            9c text value  instance of a registered class            9d n  the nth container again, in order of appearance
//   n      = LEB128, up to 2^53 - 1, shortest form. Kinds are positions in the tables of format.ts.

import { RepriseError } from '../errors.ts'
import { defaultLimits, type Limits } from '../limits.ts'
import { checkList, checkObject } from '../options.ts'
import { checkFunctions } from '../synchronous.ts'
import type { ClassCodec } from './class-codec.ts'
import { ValueDecoder } from './decoder.ts'
import { encodeError, tooDeep } from './encode-error.ts'
import { ValueEncoder } from './encoder.ts'
import { ValuePacker } from './packer.ts'
import { isStackOverflow, malformed } from './reader.ts'
import { ReadShapes } from './shape.ts'

const classNameLengthMax = 128
/** Bytes per step of a value that is processed in steps: a few hundred microseconds of work. */
const stepBytes = 64 * 1024

export interface CodecOptions {
  readonly limits?: Pick<Limits, 'valueBytes' | 'valueDepth'>
  readonly classes?: readonly ClassCodec[]
}

function checkClasses(classes: readonly ClassCodec[]): void {
  checkList('classes', classes)
  for (const each of classes) {
    checkObject('a codec in classes', each)
    checkFunctions(`codec ${each.name}`, each, ['type', 'encode', 'decode'])
  }
}

export class Codec {
  readonly #limits: Pick<Limits, 'valueBytes' | 'valueDepth'>
  readonly #byPrototype: ReadonlyMap<object, ClassCodec>
  readonly #byName: ReadonlyMap<string, ClassCodec>
  readonly #known = new ReadShapes()
  #encoder: ValueEncoder | null = null
  #packer: ValuePacker | null = null

  constructor(options: CodecOptions = {}) {
    this.#limits = options.limits ?? defaultLimits
    const classes = options.classes ?? []
    checkClasses(classes)
    this.#byName = new Map(classes.map((codec) => [codec.name, codec]))
    this.#byPrototype = new Map(classes.map((codec) => [codec.type.prototype as object, codec]))
    for (const codec of classes) checkName(codec.name)
    if (this.#byName.size < classes.length || this.#byPrototype.size < classes.length) {
      throw new RepriseError('INVALID_ARGUMENT', 'two class codecs share a name or a class')
    }
  }

  /** @example codec.encode({ type: 'added', by: 2 }) */
  encode(value: unknown): Uint8Array {
    const encoder = this.#takeEncoder()
    try {
      return encoder.encode(value)
    } catch (error) {
      throw encodeError(error)
    } finally {
      this.#encoder = encoder
    }
  }

  /**
   * Encodes to the same bytes in steps of about 64 KB: call `next` until it is done, and do other work in between. The value
   * must not change meanwhile.
   */
  *encodeInSteps(value: unknown): Generator<void, Uint8Array> {
    try {
      return yield* new ValueEncoder(this.#byPrototype, this.#limits).encodeInSteps(value, stepBytes)
    } catch (error) {
      throw encodeError(error)
    }
  }

  /** The data under which an instance of a registered class is stored; undefined for every other object. */
  dataOf(value: object): unknown {
    return this.#byPrototype.get(Object.getPrototypeOf(value))?.encode(value)
  }

  /** The bytes, and the value that decoding them returns: a private copy. */
  copy(value: unknown): { readonly bytes: Uint8Array; readonly value: unknown } {
    const encoder = this.#takeEncoder()
    try {
      const bytes = encoder.encode(value, true)
      return { bytes, value: encoder.takeSimple() ?? this.decode(bytes) }
    } catch (error) {
      throw encodeError(error)
    } finally {
      this.#encoder = encoder
    }
  }

  /**
   * A packer for many values in one buffer, with other bytes of the caller in between. Return it with `giveBack`; like the
   * encoder, it is not available to others while it is in use.
   */
  takePacker(): ValuePacker {
    const packer = this.#packer ?? new ValuePacker(this, this.#byPrototype, this.#limits)
    this.#packer = null
    packer.out.begin()
    return packer
  }

  giveBack(packer: ValuePacker): void {
    this.#packer = packer
  }

  /** The encoder is not available while in use: a class codec may call this codec in the middle of a value. */
  #takeEncoder(): ValueEncoder {
    const encoder = this.#encoder ?? new ValueEncoder(this.#byPrototype, this.#limits)
    this.#encoder = null
    return encoder
  }

  /** @example codec.decode(codec.encode({ type: 'added', by: 2 })) // { by: 2, type: 'added' } */
  decode(bytes: Uint8Array): unknown {
    try {
      return this.#decoder(bytes).decode()
    } catch (error) {
      throw decodeError(error)
    }
  }

  /** Decodes to the same value in steps of about 64 KB. */
  *decodeInSteps(bytes: Uint8Array): Generator<void, unknown> {
    try {
      return yield* this.#decoder(bytes).decodeInSteps(stepBytes)
    } catch (error) {
      throw decodeError(error)
    }
  }

  #decoder(bytes: Uint8Array): ValueDecoder {
    if (bytes.length > this.#limits.valueBytes) {
      throw new RepriseError('LIMIT_EXCEEDED', `the encoded value is larger than ${this.#limits.valueBytes} bytes`, {
        limit: 'valueBytes',
        max: this.#limits.valueBytes,
        bytes: bytes.length,
      })
    }
    return new ValueDecoder(bytes, this.#known, this.#byName, this.#limits)
  }
}

function decodeError(error: unknown): RepriseError {
  if (error instanceof RepriseError) return error
  return isStackOverflow(error) ? tooDeep(error) : malformed('the value cannot be read', error)
}

function checkName(name: string): void {
  if (typeof name === 'string' && name.length > 0 && name.length <= classNameLengthMax) return
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `the name of a class codec must have 1 to ${classNameLengthMax} characters`,
  )
}
