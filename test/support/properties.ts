// fast-check as tests get it (vitest.config.ts). A list that says how long it may be gets that long: by itself fast-check
// stops near ten elements whatever a list says, and a history of ten steps does not show what thirty do.
//
// The seed is the same in every run, so that a red run says something about the change and not about the day. Another one,
// or a random one, comes with REPRISE_SEED. Nothing is made smaller where nobody waits for it: that can take longer than
// the limit of a test, and then the limit is all that is told.

import fc from 'fast-check'

const { REPRISE_SEED = '1', REPRISE_SWEEP, CI } = process.env

fc.configureGlobal({
  defaultSizeToMaxWhenMaxSpecified: true,
  endOnFailure: CI !== undefined,
  ...(REPRISE_SEED !== 'random' && { seed: Number(REPRISE_SEED) }),
})

/** The share of a property's runs that the suite executes. REPRISE_SWEEP=all executes all of them. */
const share = REPRISE_SWEEP === 'all' ? 1 : 0.25

function fewer(parameters: fc.Parameters<unknown> = {}): object {
  return { ...parameters, numRuns: Math.ceil((parameters.numRuns ?? 100) * share) }
}

export const assert = ((property, parameters) =>
  fc.assert(property as never, fewer(parameters as never))) as typeof fc.assert
export * from 'fast-check'
export default { ...fc, assert }
