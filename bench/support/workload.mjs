// The work that kernel benches measure: 200-byte entries.

import { timeline } from '../../dist/index.js'

const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** Text of this length that does not repeat; the same number gives the same text. */
export function text(length, number) {
  let x = (number + 1) * 2654435761
  let out = ''
  for (let i = 0; i < length; i++) {
    x = (Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0
    out += letters[(x >>> 16) % 36]
  }
  return out
}

/** An entry with 200 bytes of text as its data; `payloadBytes` is the size that a hand-written table would store. */
export const payloadBytes = 200
export const entries = Array.from({ length: 512 }, (_, i) => ({ type: 'noted', text: text(payloadBytes, i) }))
export const payloads = entries.map((entry) => Buffer.from(entry.text))

export const notes = timeline('notes', {
  initial: () => ({ count: 0, length: 0 }),
  apply: (state, entry) => ({ count: state.count + 1, length: state.length + entry.text.length }),
})

export const checkpointed = timeline('checkpointed', {
  initial: () => ({ count: 0, length: 0 }),
  apply: (state, entry) => ({ count: state.count + 1, length: state.length + entry.text.length }),
})
