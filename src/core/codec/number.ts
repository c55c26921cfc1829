// Numbers and bigints, in both directions. Each number has one encoding: an integer if it is a safe integer, else a float32
// if that is exact, else a float64; NaN, -0 and the infinities have their own tags.

import { integerTags, tag } from './format.ts'
import { malformed, type ValueReader } from './reader.ts'
import type { ValueWriter } from './writer.ts'

export function writeNumber(out: ValueWriter, value: number): void {
  if (Number.isSafeInteger(value)) {
    if (value >= 64) out.tagged(tag.positive, value)
    else if (value < 0) out.tagged(tag.negative, -1 - value)
    else out.byte(value === 0 && Object.is(value, -0) ? tag.minusZero : integerTags + value)
  } else if (Number.isNaN(value)) {
    out.byte(tag.notANumber)
  } else if (value === Number.POSITIVE_INFINITY) {
    out.byte(tag.infinity)
  } else if (value === Number.NEGATIVE_INFINITY) {
    out.byte(tag.minusInfinity)
  } else if (Math.fround(value) === value) {
    out.byte(tag.float32)
    out.float32(value)
  } else {
    out.byte(tag.float64)
    out.float64(value)
  }
}

export function readPositive(from: ValueReader): number {
  const value = from.integer()
  if (value < 64) throw malformed('a number is not in its shortest form')
  return value
}

export function readNegative(from: ValueReader): number {
  const value = -1 - from.integer()
  if (!Number.isSafeInteger(value)) throw malformed('an integer is longer than 53 bits')
  return value
}

export function readFloat32(from: ValueReader): number {
  const value = from.float32()
  if (!Number.isFinite(value) || Number.isSafeInteger(value)) throw malformed('a number is not in its canonical form')
  return value
}

export function readFloat64(from: ValueReader): number {
  const value = from.float64()
  if (!Number.isFinite(value) || Number.isSafeInteger(value) || Math.fround(value) === value) {
    throw malformed('a number is not in its canonical form')
  }
  return value
}

/** Converts through hexadecimal, the only form that is written and read in linear time. */
export function writeBigint(out: ValueWriter, value: bigint): void {
  const isNegative = value < 0n
  const hex = value === 0n ? '' : (isNegative ? -value : value).toString(16)
  const size = (hex.length + 1) >> 1
  out.tagged(isNegative ? tag.bigNegative : tag.bigPositive, size)
  out.reserve(size)
  let at = 0
  if (hex.length % 2 === 1) out.byte(digitValue(hex, at++))
  while (at < hex.length) out.byte(16 * digitValue(hex, at++) + digitValue(hex, at++))
}

export function readBigint(from: ValueReader): bigint {
  const bytes = from.raw(from.count(1))
  if (bytes.length === 0) return 0n
  if (bytes[0] === 0) throw malformed('a bigint starts with zeros')
  if (bytes.length <= 6) {
    let small = 0
    for (const byte of bytes) small = small * 256 + byte
    return BigInt(small)
  }
  const digits = new Uint8Array(2 * bytes.length + 2)
  digits.set([0x30, 0x78])
  for (let i = 0; i < bytes.length; i++) {
    digits[2 * i + 2] = digitCode(bytes[i]! >> 4)
    digits[2 * i + 3] = digitCode(bytes[i]! & 15)
  }
  return BigInt(new TextDecoder().decode(digits))
}

export function readBigNegative(from: ValueReader): bigint {
  const magnitude = readBigint(from)
  if (magnitude === 0n) throw malformed('a bigint is not in its canonical form')
  return -magnitude
}

function digitValue(hex: string, at: number): number {
  const code = hex.charCodeAt(at)
  return code < 0x3a ? code - 0x30 : code - 0x57
}

function digitCode(value: number): number {
  return value < 10 ? value + 0x30 : value + 0x57
}
