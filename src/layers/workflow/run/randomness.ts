// Random values of workflow code: the same in every replay, different in every run, branch, fork and generation.
//
// Runs start from 128 bits of the platform's secure random source. The seed is in history, so a reader of history can
// compute every value drawn from it: create secrets in a step.

import { toHex } from '../../../core/coordinate.ts'
import type { Hash, Random } from '../../../core/store/ports.ts'
import type { Planted } from '../../../engine/base/planted-bugs.ts'

/** The random values of one scope, from one seed. */
export interface Chance {
  /** From 0 up to 1. */
  number(): number
  fill(bytes: Uint8Array): void
  /** Version 4. */
  uuid(): string
}

export interface Seed {
  readonly text: string
  /** A seed of 30 bits, from runs before seeds had 128. */
  readonly isShort: boolean
}

const encoder = new TextEncoder()
const seedBytes = 16

/** The seed of a run or of a fork: 32 hexadecimal digits. */
export function newSeed({ random, planted }: { readonly random: Random; readonly planted: Planted }): string {
  return toHex(random.bytes(planted.has('short-seed') ? 3 : seedBytes))
}

export function chanceOf(hash: Hash, { text, isShort }: Seed, path: string): Chance {
  const start = `${text}\n${path}`
  return isShort ? new ShortChance(hash(encoder.encode(start))) : new HashChance(hash, start)
}

/** SHA-256 of the seed and a counter. */
class HashChance implements Chance {
  readonly #hash: Hash
  readonly #start: string
  #block: Uint8Array = new Uint8Array(0)
  #used = 0
  #count = 0

  constructor(hash: Hash, start: string) {
    this.#hash = hash
    this.#start = start
  }

  number(): number {
    const bytes = new Uint8Array(8)
    this.fill(bytes)
    const view = new DataView(bytes.buffer)
    // 53 bits, the precision of a number.
    return ((view.getUint32(0) >>> 11) * 2 ** 32 + view.getUint32(4)) / 2 ** 53
  }

  fill(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i++) {
      if (this.#used === this.#block.length) this.#advance()
      bytes[i] = this.#block[this.#used++]!
    }
  }

  uuid(): string {
    const bytes = new Uint8Array(16)
    this.fill(bytes)
    bytes[6] = (bytes[6]! & 0x0f) | 0x40
    bytes[8] = (bytes[8]! & 0x3f) | 0x80
    const text = toHex(bytes)
    return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`
  }

  #advance(): void {
    this.#block = this.#hash(encoder.encode(`${this.#count}\n${this.#start}`))
    this.#count += 1
    this.#used = 0
  }
}

/** sfc32, for runs that began with a short seed: their replays must draw the same values. */
class ShortChance implements Chance {
  readonly #next: () => number

  constructor(bytes: Uint8Array) {
    this.#next = generatorOf(bytes)
  }

  number(): number {
    return this.#next()
  }

  fill(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(this.#next() * 256)
  }

  uuid(): string {
    let text = ''
    for (let i = 0; i < 32; i++) text += Math.floor(this.#next() * 16).toString(16)
    const variant = (8 + Math.floor(this.#next() * 4)).toString(16)
    return `${text.slice(0, 8)}-${text.slice(8, 12)}-4${text.slice(13, 16)}-${variant}${text.slice(17, 20)}-${text.slice(20)}`
  }
}

function generatorOf(bytes: Uint8Array): () => number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16)
  let [a, b, c, d] = [view.getUint32(0), view.getUint32(4), view.getUint32(8), view.getUint32(12)]
  return () => {
    const sum = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    return (sum >>> 0) / 4294967296
  }
}
