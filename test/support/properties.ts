// fast-check as tests get it (vitest.config.ts). A list with a maximum length reaches it: by default fast-check
// stops near ten elements, and a history of ten steps finds less than one of thirty.
//
// The seed is the same in every run, so that a red run is due to the change and not to chance. REPRISE_SEED sets another one,
// or a random one. Failures are not shrunk in CI: shrinking can take longer than the time limit of a test, which would then
// be the only message.

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
