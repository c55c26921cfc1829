// Containers without values inside, in both directions: regular expressions, buffers and views on them. Decoding returns
// copies that belong to the caller: they do not change with the bytes they came from.

import { tag, turnElements, viewKinds } from './format.ts'
import { isStackOverflow, malformed, type ValueReader } from './reader.ts'
import type { ValueWriter } from './writer.ts'

/** Reads the true kind of a typed array, also of a subclass such as Buffer; undefined for a DataView. */
const typedArrayName = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)?.get

const bytesKind = viewKinds.find(({ name }) => name === 'Uint8Array')

export function writeRegExp(out: ValueWriter, value: RegExp): void {
  out.byte(tag.regExp)
  out.text(value.source)
  out.text(value.flags)
}

export function readRegExp(from: ValueReader): RegExp {
  const source = from.text()
  const flags = from.text()
  let result: RegExp
  try {
    result = new RegExp(source, flags)
  } catch (cause) {
    if (isStackOverflow(cause)) throw cause
    throw malformed('a regular expression that this runtime does not know', cause)
  }
  if (result.source !== source || result.flags !== flags)
    throw malformed('a regular expression is not in its canonical form')
  return result
}

export function writeBuffer(out: ValueWriter, value: ArrayBuffer): void {
  out.tagged(tag.buffer, value.byteLength)
  out.raw(new Uint8Array(value))
}

export function readBuffer(from: ValueReader): ArrayBuffer {
  const bytes = from.raw(from.count(1))
  const copy = new Uint8Array(bytes.length)
  copy.set(bytes)
  return copy.buffer
}

/** The kind of a view in the format; -1 for a view that the format does not support. */
export function viewKind(value: ArrayBufferView): number {
  const name: string = typedArrayName?.call(value) ?? 'DataView'
  return viewKinds.findIndex((candidate) => candidate.name === name)
}

export function writeView(out: ValueWriter, value: ArrayBufferView, kind: number): void {
  const { elementBytes } = viewKinds[kind]!
  let bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (elementBytes > 1) {
    bytes = bytes.slice()
    turnElements(bytes, elementBytes)
  }
  out.byte(tag.view)
  out.byte(kind)
  out.integer(bytes.length)
  out.raw(bytes)
}

export function readView(from: ValueReader): ArrayBufferView {
  const kind = viewKinds[from.byte()]
  if (kind === undefined) throw malformed('an unknown kind of typed array')
  // By far the most frequent kind. The code does not access `buffer`: a small array allocates one only on access.
  if (kind === bytesKind) return new Uint8Array(from.raw(from.count(1)))
  const buffer = readBuffer(from)
  if (buffer.byteLength % kind.elementBytes !== 0) throw malformed('a typed array ends inside an element')
  turnElements(new Uint8Array(buffer), kind.elementBytes)
  return kind.create(buffer)
}
