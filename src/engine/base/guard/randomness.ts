// Randomness as code in a zone sees it: numbers, bytes and ids come from the zone's own generator. Calls that cannot be
// made deterministic (keys, randomised signatures, results from another thread) are refused.

import nodeCrypto from 'node:crypto'
import { type Any, callsOf, derive, refuse, throwRefusal } from './patch.ts'
import { type ZoneValues, zoneNow } from './zone.ts'

export function guardChance(): void {
  derive(Math, 'Math', 'random', (values) => values.random())
  const web: Any = Object.getPrototypeOf(globalThis.crypto)
  for (const [owner, module] of [
    [web, 'crypto'],
    [nodeCrypto, 'crypto'],
  ] as const) {
    derive(owner, module, 'randomUUID', (values) => values.uuid())
    derive(owner, module, 'getRandomValues', (values, array: Uint8Array) => fill(values, array))
  }
  for (const name of ['randomBytes', 'pseudoRandomBytes', 'prng', 'rng']) {
    derive(nodeCrypto, 'crypto', name, (values, size: number, call?: unknown) => {
      if (call) throwRefusal(zoneNow()!, `crypto.${name} with a callback`)
      return fill(values, Buffer.alloc(size))
    })
  }
  derive(nodeCrypto, 'crypto', 'randomInt', (values, a: number, b?: unknown, call?: unknown) => {
    if (typeof b === 'function' || call) throwRefusal(zoneNow()!, 'crypto.randomInt with a callback')
    const [from, to] = typeof b === 'number' ? [a, b] : [0, a]
    return from + Math.floor(values.random() * (to - from))
  })
  refuse(nodeCrypto, 'crypto', refused)
  refuse(nodeCrypto.ECDH?.prototype, 'crypto.ECDH', ['generateKeys'])
  refuse((nodeCrypto as Any).DiffieHellman?.prototype, 'crypto.DiffieHellman', ['generateKeys'])
  refuse((nodeCrypto as Any).DiffieHellmanGroup?.prototype, 'crypto.DiffieHellmanGroup', ['generateKeys'])
  refuse((nodeCrypto as Any).Sign?.prototype, 'crypto.Sign', ['sign'])
  const subtle: Any = Object.getPrototypeOf(globalThis.crypto.subtle)
  refuse(subtle, 'crypto.subtle', callsOf(subtle))
}

/** Asynchronous forms complete on other threads at unpredictable times; `…Sync` forms and hashes are allowed. */
const refused = [
  'randomFill',
  'randomFillSync',
  'randomUUIDv7',
  'generateKey',
  'generateKeySync',
  'generateKeyPair',
  'generateKeyPairSync',
  'generatePrime',
  'generatePrimeSync',
  'checkPrime',
  'checkPrimeSync',
  'sign',
  'publicEncrypt',
  'encapsulate',
  'pbkdf2',
  'scrypt',
  'hkdf',
  'argon2',
  'secureHeapUsed',
]

function fill<T extends ArrayBufferView>(values: ZoneValues, array: T): T {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
  values.fill(bytes)
  return array
}
