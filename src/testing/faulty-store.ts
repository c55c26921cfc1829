// A store with injected failures: before the work is done, or after it, when the answer is lost. Every method of the port
// passes through it, including those of blobs, so that a test can fail any call of a program and check the result (G4).

import { RepriseError } from '../core/errors.ts'
import type { Store } from '../core/store/ports.ts'
import { changeEach, forwardStore } from '../core/store/store-wrapper.ts'

/** `fail-after`: the work is done, but the caller gets an error. */
export type Fate = 'ok' | 'fail-before' | 'fail-after'

/** `method` is the name in the port ('commit', 'blobs.put', …); `callNumber` counts all calls, from 1. */
export type Decide = (method: string, callNumber: number) => Fate

/** @example faultyStore(store, (method, n) => (method === 'commit' && n === 3 ? 'fail-after' : 'ok')) */
export function faultyStore(store: Store, decide: Decide): Store {
  let calls = 0
  const through = async <Result>(method: string, work: () => Result | Promise<Result>): Promise<Result> => {
    calls += 1
    const callNumber = calls
    const fate = decide(method, callNumber)
    if (fate === 'fail-before') throw lost(method, callNumber, 'it was not executed')
    const result = await work()
    if (fate === 'fail-after') throw lost(method, callNumber, 'its answer was lost')
    return result
  }
  return forwardStore(store, {
    ...changeEach(store, (name, access, call) => {
      if (access === 'neither' && name !== 'close') return undefined
      return (...args) => through(name, () => call(...args))
    }),
    // With concurrent batches, the number of a call would be arbitrary.
    lanes: 1,
  })
}

function lost(method: string, callNumber: number, what: string): RepriseError {
  return new RepriseError('STORE_IO', `${method} (call ${callNumber}) failed on purpose: ${what}`, {
    method,
    callNumber,
  })
}
